"""Divisible pools of groups with limits and guarantees in which rounding led a solver astray."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from policies import Guarantee, Limit, Problem, problem_from_document, solve, verify
from policies.model.limits import in_order
from tests.unit.policies.drawn_pools import Draw

STUCK = Path(__file__).with_name("stuck_tenant.json")
# In a round of this one, shares rise at no price from where it begins.
FLAT = Path(__file__).with_name("flat_bound.json")
KINDS, RESOURCES, LIMITS, GUARANTEES = 6, 3, 16, 23


def pool(seed):
    """Draw a pool of groups, in which half of the limits and guarantees are on two kinds of servers."""
    random = np.random.default_rng(seed)
    tenants, groups = int(random.integers(30, 140)), int(random.integers(5, 18))
    fields = {
        "resources": ["cpu", "memory", "gpu"],
        "capacity": random.uniform(3, 20, (KINDS, RESOURCES)).round(2),
        "server_count": random.integers(1, 20, KINDS),
        "server_labels": [{"kind": str(kind)} for kind in range(KINDS)],
        "tenants": [f"t{number}" for number in range(tenants)],
        "weight": random.uniform(0.5, 2, tenants).round(2),
        "demand": random.uniform(0.1, 3, (tenants, RESOURCES)).round(2),
        "tasks": random.choice([np.inf, np.inf, 1, 3, 20], tenants),
        "groups": [f"g{number}" for number in range(groups)],
        "group_parent": [-1, *(int(random.integers(-1, group)) for group in range(1, groups))],
        "group_weight": random.uniform(0.5, 2, groups).round(2),
        "tenant_group": random.integers(-1, groups, tenants),
    }
    totals, nodes = Problem.create(**fields).totals, {"group": groups, "tenant": tenants}

    def amount():
        bounded = np.full(RESOURCES, np.inf)
        bounded[int(random.integers(RESOURCES))] = 1.0
        return bounded * totals

    def where():
        if random.random() >= 0.5:
            return {}
        return {"kind": tuple(sorted({str(kind) for kind in random.integers(0, KINDS, 2)}))}

    limits, guarantees = [], []
    for _ in range(LIMITS):
        scope = str(random.choice(["group", "tenant"]))
        most = amount() * random.uniform(0.2, 1.2) / nodes[scope]
        limits.append(Limit(scope, int(random.integers(nodes[scope])), most.round(3), where()))
    for _ in range(GUARANTEES):
        scope = str(random.choice(["group", "tenant"]))
        least = amount() / GUARANTEES
        node = int(random.integers(nodes[scope]))
        guarantees.append(Guarantee(scope, node, least.round(3), where()))
    return Problem.create(**fields, limits=in_order(limits), guarantees=in_order(guarantees))


@pytest.mark.parametrize("seed", [1039, 2129, 2369])
def test_a_program_without_an_end_begins_again(seed):
    """HiGHS ended without an answer, or 1.6e-11 lay between a level and its bound."""
    problem = pool(seed)
    answer = solve(problem, "drfh", mode="divisible")
    found = verify(problem, answer)
    assert found.valid, [item for item in found.checks if not item.holds]


@pytest.mark.parametrize(("seed", "proven"), [(398, True), (306, False)])
def test_rounds_are_proven_or_open_on_the_verifiers_walk(seed, proven):
    """The verifier's walk of the first pool left a round open that the solver's had proven."""
    problem = pool(seed)
    answer = solve(problem, "drfh", mode="divisible")
    assert all(each.proven for each in answer.certificate.rounds) == proven
    found = verify(problem, answer)
    assert found.valid, [item for item in found.checks if not item.holds]


@pytest.mark.parametrize("path", [STUCK, FLAT], ids=["stuck", "flat"])
def test_a_pool_that_rounding_led_astray_is_decided(path):
    parsed = problem_from_document(json.loads(path.read_text()))
    answer = solve(parsed.problem, "drfh", mode="divisible")
    found = verify(parsed.problem, answer)
    assert found.valid, [item for item in found.checks if not item.holds]


@pytest.mark.parametrize("seed", [171, 225, 599, 666])
def test_a_round_that_prices_bound_to_rounding_stays_open(seed):
    """With weights 10^6 apart, rounding leaves more of a level open than the solver takes for proven."""
    problem = Draw(seed).problem
    weight = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, problem.t)
    problem = replace(problem, weight=weight)
    answer = solve(problem, "drfh", mode="divisible")
    found = verify(problem, answer)
    assert found.valid, [item for item in found.checks if not item.holds]
