"""Checks of the options of an answer's policy."""

from __future__ import annotations

from policies.errors import PolicyNotApplicableError, PolicyOptionsError
from policies.model.gang_checks import check_gangs
from policies.model.limit_checks import check_kept_placements
from policies.model.limits import MOST_LIMITS, MOST_SELECTORS
from policies.model.options import mismatch
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.problem_fields import Guarantee, Limit
from policies.verification.checks import Check
from policies.verification.names import position_of
from policies.verification.stated import Stated


def check_options(problem: Problem, choice: Choice) -> Check:
    """Check that the options fit the policy's schema, and name what the problem has."""
    detail = "the policy takes the options, and the problem has what they name"
    wrong = mismatch(choice.policy.options_schema, dict(choice.options))
    if wrong is not None:
        pointer, sentence = wrong
        return Check("options", False, f"/policy/options{pointer}: {sentence}", 1.0)
    try:
        _find_names(problem, choice)
    except PolicyOptionsError as error:
        return Check("options", False, f"{error.pointer}: {error.detail}", 1.0)
    if Stated(problem, choice).groups is not None:
        if not choice.policy.takes_groups:
            return Check("options", False, "/policy/name: the policy takes no groups or tiers", 1.0)
        if choice.option("resource_weights"):
            sentence = "weights per resource are for pools without groups and tiers"
            return Check("options", False, f"/policy/options/resource_weights: {sentence}", 1.0)
    if problem.gangs:
        try:
            check_gangs(problem, choice)
        except PolicyNotApplicableError as error:
            return Check("options", False, f"{error.pointer}: {error.detail}", 1.0)
    wrong_amounts = _wrong_amounts(problem, choice)
    if wrong_amounts:
        return Check("options", False, wrong_amounts, 1.0)
    if problem.kept_placements is not None:
        try:
            check_kept_placements(problem, choice)
        except PolicyNotApplicableError as error:
            return Check("options", False, f"{error.pointer}: {error.detail}", 1.0)
    return Check("options", True, detail, 0.0)


def _wrong_amounts(problem: Problem, choice: Choice) -> str:
    """Return what is wrong about limits and guarantees under the policy, empty for nothing."""
    amounts: list[Limit | Guarantee] = [*problem.limits, *problem.guarantees]
    if not amounts and not problem.own_servers.any():
        return ""
    if not choice.policy.takes_limits:
        return "/policy/name: the policy keeps no limits or guarantees"
    if max(len(problem.limits), len(problem.guarantees)) > MOST_LIMITS:
        return f"/policy/name: more than {MOST_LIMITS} limits or guarantees"
    if len({frozenset(each.where.items()) for each in problem.guarantees}) > MOST_SELECTORS:
        return f"/policy/name: guarantees for more than {MOST_SELECTORS} selectors"
    if choice.option("resource_weights"):
        sentence = "weights per resource are for pools without limits and guarantees"
        return f"/policy/options/resource_weights: {sentence}"
    if choice.sees_one_pool and any(each.where or each.scope == "lend" for each in amounts):
        return "/policy/name: amounts for some servers are for policies that place"
    return ""


def _find_names(problem: Problem, choice: Choice) -> None:
    """Look up all names in options that fit the schema.

    Raises:
        PolicyOptionsError: the problem lacks one.
    """
    options = choice.options
    if "resource" in options:
        position_of(options["resource"], problem.resources, "resource")
    for resource in options.get("slot", {}):
        position_of(resource, problem.resources, f"slot/{resource}")
    for tenant, row in options.get("resource_weights", {}).items():
        position_of(tenant, problem.tenants, f"resource_weights/{tenant}")
        for resource in row:
            position_of(resource, problem.resources, f"resource_weights/{tenant}/{resource}")
