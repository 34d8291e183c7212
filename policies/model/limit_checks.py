"""Checks that a policy keeps the limits, the guarantees and the kept tasks of a problem."""

from __future__ import annotations

from collections.abc import Iterable

from policies.errors import PolicyNotApplicableError, ProblemTooLargeError
from policies.model.limits import MOST_LIMITS, MOST_SELECTORS
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.problem_fields import Guarantee, Limit


def check_amounts(problem: Problem, choice: Choice, able: Iterable[str]) -> None:
    """Raise an error unless a choice keeps the limits and guarantees of a problem, if there are any.

    Args:
        able: the policies that keep them, which the error names.

    Raises:
        PolicyNotApplicableError: the policy keeps none, or none of some servers.
        ProblemTooLargeError: more than are kept.
    """
    if not (problem.limits or problem.guarantees or problem.own_servers.any()):
        return
    code, what = "policy.no_guarantees", "guarantees"
    if problem.limits:
        code, what = "policy.no_limits", "limits"
    if not choice.policy.takes_limits:
        raise PolicyNotApplicableError(
            code,
            f"policy {choice.policy.name!r} does not keep {what}; these do: {', '.join(sorted(able))}",
            "/policy/name",
        )
    if choice.option("resource_weights"):
        raise PolicyNotApplicableError(
            code,
            f"weights per resource are for pools without {what}",
            "/policy/options/resource_weights",
        )
    for kind, amounts in (("limits", problem.limits), ("guarantees", problem.guarantees)):
        if len(amounts) > MOST_LIMITS:
            raise ProblemTooLargeError(
                "problem.too_large", f"{len(amounts)} {kind}; at most {MOST_LIMITS} are kept"
            )
        for each in amounts:
            if choice.sees_one_pool and (each.where or each.scope == "lend"):
                some = "the servers of a tenant"
                if each.where:
                    some = "the servers that a selector matches"
                raise PolicyNotApplicableError(
                    "policy.no_placement",
                    f"policy {choice.policy.name!r} sees the pool as one server: {kind} cannot be for "
                    f"{some}",
                    _pointer_of(each),
                )
    selectors = {tuple(sorted(each.where.items())) for each in problem.guarantees}
    if len(selectors) > MOST_SELECTORS:
        raise ProblemTooLargeError(
            "problem.too_large",
            f"guarantees for {len(selectors)} different selectors; at most {MOST_SELECTORS} are kept",
        )


def _pointer_of(amount: Limit | Guarantee) -> str:
    if amount.scope == "lend":
        return f"/tenants/{amount.node}/lend"
    kind = "guarantee" if isinstance(amount, Guarantee) else "limit"
    return f"/{amount.scope}s/{amount.node}/{kind}"


def check_kept_placements(problem: Problem, choice: Choice) -> None:
    """Raise an error unless a choice keeps the tasks that a problem states to be kept.

    Raises:
        PolicyNotApplicableError: the policy or the mode keeps none.
    """
    if problem.kept_placements is None:
        return
    if not choice.keeps_tasks:
        raise PolicyNotApplicableError(
            "policy.no_kept_tasks",
            f"policy {choice.policy.name!r} in mode {choice.mode!r} keeps no tasks on their servers",
            "/policy",
        )
