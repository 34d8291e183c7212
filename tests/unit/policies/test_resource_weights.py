"""DRF with weights that differ between resources: share = max_r (u[i, r] / C[r]) / w[i, r]."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies import PolicyOptionsError, solve, verify
from tests.examples import examples
from tests.references.numbers import exact, exact_weights
from tests.unit.policies.problems import problem_of, problems


def weighted(problem, factors, mode="indivisible"):
    options = {"resource_weights": factors} if factors else {}
    return solve(problem, "drf", mode=mode, options=options)


def tasks(problem, factors, mode="indivisible"):
    answer = weighted(problem, factors, mode)
    assert verify(problem, answer).valid
    return answer.tasks.tolist()


def algorithm_1(problem, factors):
    """The paper's Algorithm 1 in fractions, one task at a time, ties to the first tenant."""
    offered = [row for row in range(problem.k) if not problem.contributed_only[row]]
    total = [
        sum(
            (exact(problem.capacity[row, r]) * int(problem.server_count[row]) for row in offered),
            Fraction(0),
        )
        for r in range(problem.m)
    ]
    demand = [[exact(d) for d in row] for row in problem.demand.tolist()]
    left, count = list(total), [0] * problem.n
    weight = exact_weights(problem)

    def share(tenant):
        used = [
            sum(count[j] * demand[j][r] for j in owned[tenant]) / total[r] if total[r] else 0
            for r in range(problem.m)
        ]
        by = factors.get(problem.tenants[tenant], {})
        return (
            max(u / exact(by.get(name, 1)) for u, name in zip(used, problem.resources, strict=True))
            / weight[tenant]
        )

    def fits(j):
        return count[j] < problem.tasks[j] and all(
            d <= c for d, c in zip(demand[j], left, strict=True)
        )

    owned = [
        sorted(
            (j for j in range(problem.n) if problem.workload_tenant[j] == i),
            key=lambda j: (-problem.priority[j], j),
        )
        for i in range(problem.t)
    ]
    for stage in (False, True):
        active = [i for i in range(problem.t) if bool(problem.second_stage[i]) == stage]
        waiting = {i: list(owned[i]) for i in active}
        while active:
            tenant = min(active, key=lambda i: (share(i), i))
            while waiting[tenant] and not fits(waiting[tenant][0]):
                waiting[tenant].pop(0)
            if not waiting[tenant]:
                active.remove(tenant)
                continue
            j = waiting[tenant][0]
            count[j] += 1
            left = [c - d for c, d in zip(left, demand[j], strict=True)]
    return count


@st.composite
def instances(draw):
    problem = draw(problems(max_servers=2, selectors=False))
    factor = st.sampled_from([0.5, 1.0, 2.0, 4.0])
    factors = {
        tenant: {name: draw(factor) for name in problem.resources if draw(st.booleans())}
        for tenant in problem.tenants
        if draw(st.booleans())
    }
    return problem, factors


@examples(500)
@given(instance=instances())
def test_whole_tasks_are_those_of_the_paper_s_algorithm(instance):
    """Without any weight a share is the sum of a tenant's workloads' shares, not of its amounts."""
    problem, factors = instance
    assume(factors)
    assert tasks(problem, factors) == algorithm_1(problem, factors)


def test_a_weight_counts_only_where_it_is_dominant():
    """9 CPU, 18 GB of the paper's §4.1: A is dominated by memory, B by CPU."""
    pool, demand = [[9, 18]], [[1, 4], [3, 1]]
    problem = problem_of(pool, demand)
    assert tasks(problem, {}, "divisible") == pytest.approx([3, 2])
    assert tasks(problem, {"u1": {"cpu": 2}}, "divisible") == pytest.approx([3, 2])
    # A's share of memory is 4x/18 / 2 and B's of CPU 3y/9, with x + 3y = 9: x = 54/13 by memory
    # 4x + y = 18 first: x = 4.5 - y/4 and x = 3y give y = 18/13.
    assert tasks(problem, {"u1": {"memory": 2}}, "divisible") == pytest.approx([54 / 13, 18 / 13])


def test_what_a_tenant_uses_together_counts_whichever_workload_uses_it():
    """u1's second workload uses memory only: free as long as its CPU share is the larger."""
    problem = problem_of(
        [[8, 8]],
        [[1, 0], [0, 1], [1, 1]],
        workload_tenant=[0, 0, 1],
        t=2,
        tasks=[2, 9, 9],
    )
    # u1 runs its two by CPU (2/8); two by memory come free, then both rise together to the end.
    assert tasks(problem, {"u1": {"cpu": 1.0, "memory": 1.0}}) == [2, 4, 4]
    # Without the option shares add up: 5/8 of u1, though it uses no more than 3/8 of either.
    assert tasks(problem, {}) == [2, 3, 5]


@examples(500)
@given(problem=problems(selectors=False), factor=st.sampled_from([0.25, 0.5, 2.0, 8.0]))
def test_one_factor_for_all_resources_is_a_weight(problem, factor):
    """Of the same size everywhere it is what the weight itself would do."""
    everywhere = {"u0": dict.fromkeys(problem.resources, factor)}
    weight = problem.weight.copy()
    weight[0] *= factor
    heavier = replace(problem, weight=weight)
    mine, theirs = weighted(problem, everywhere, "divisible"), weighted(heavier, {}, "divisible")
    assert verify(problem, mine).valid
    assert mine.tenant_share == pytest.approx(theirs.tenant_share, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("factors", "pointer"),
    [
        ({"u9": {"cpu": 2}}, "/policy/options/resource_weights/u9"),
        ({"u1": {"gpu": 2}}, "/policy/options/resource_weights/u1/gpu"),
    ],
)
@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_unknown_names_are_refused(factors, pointer, mode):
    problem = problem_of([[1, 1]], [[1, 1]])
    with pytest.raises(PolicyOptionsError) as refused:
        weighted(problem, factors, mode)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize("factor", [0, -1, math.inf, "2", None])
def test_factors_are_numbers_above_0(factor):
    with pytest.raises(PolicyOptionsError):
        weighted(problem_of([[1, 1]], [[1, 1]]), {"u1": {"cpu": factor}})


def test_a_hundred_thousand_tasks_by_summed_shares():
    problem = problem_of([[1e5, 1e5]], [[1, 0], [0, 1], [1, 1]], workload_tenant=[0, 0, 1], t=2)
    answer = weighted(problem, {"u1": {"cpu": 2}})
    assert verify(problem, answer).valid
    used = answer.tasks @ problem.demand
    assert np.max(used) == 1e5
