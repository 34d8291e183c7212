"""CEEI's second stage gets all that the shares of the first one leave, whatever mix they run in."""

import numpy as np
import pytest

from policies import Problem, solve, verify
from tests.examples import numbers
from tests.references.second_stage import greatest_product, greatest_share
from tests.unit.policies.problems import problem_of

COUNT = 600
# Parts of the pool. A product that is proven to 1e-9 leaves shares open by the root of that where a
# resource is full at a price of 0, and with them what is left of it.
NOTHING = 1e-4


def ceei(problem):
    answer = solve(problem, "ceei")
    verification = verify(problem, answer)
    assert verification.valid, [check for check in verification.checks if not check.holds]
    return answer


def second_stage_problem(number):
    """First-stage tenants with several workloads that need different resources, best-effort others."""
    rng = np.random.default_rng([20261124, number])
    m = int(rng.integers(2, 5))
    first, second = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    counts = np.r_[rng.integers(1, 4, first), rng.integers(1, 3, second)]
    n = int(counts.sum())
    if rng.random() < 0.7:
        demand = rng.choice([0.0, 0.0, 0.25, 0.5, 1.0, 2.0], (n, m))
        capacity = rng.choice([1.0, 2.0, 4.0], m)
    else:
        demand = rng.uniform(0.01, 2, (n, m)) * (rng.random((n, m)) < 0.6)
        capacity = rng.uniform(1, 8, m)
    demand[np.arange(n), rng.integers(0, m, n)] += 0.5
    limited = rng.random(n) < 0.3
    return Problem.create(
        resources=("cpu", "memory", "gpu", "disk")[:m],
        capacity=[capacity],
        demand=demand,
        tenants=[f"u{i}" for i in range(first + second)],
        workload_tenant=np.repeat(np.arange(first + second), counts),
        weight=rng.choice([0.5, 1.0, 2.0], first + second),
        tasks=np.where(limited, rng.integers(1, 6, n), np.inf),
        priority=rng.integers(-1, 2, n),
        best_effort=np.arange(first + second) >= first,
    )


def assert_second_stage_is_best(problem, answer):
    share = np.array([
        float((answer.tasks * problem.dominant_share_per_task)[problem.workload_tenant == i].sum())
        for i in range(problem.t)
    ])  # fmt: skip
    kept = np.where(problem.second_stage, np.nan, share)
    buyers = []
    for i in np.flatnonzero(problem.second_stage).tolist():
        possible = greatest_share(problem, kept, i)
        if share[i] <= NOTHING:
            assert possible <= NOTHING, (i, possible)
        else:
            buyers.append(i)
    if not buyers:
        return
    best, product = greatest_product(problem, kept, buyers)
    weight = problem.effective_weight[buyers]
    reached = float((weight * np.log(share[buyers])).sum() / weight.sum())
    assert reached == pytest.approx(product, abs=2e-6)
    # Shares are unique; the reference knows them to the root of its own tolerance.
    assert share[buyers] == pytest.approx(best, rel=2e-3, abs=1e-5)


def test_a_mix_that_leaves_the_gpu_idle_leaves_it_to_the_second_stage():
    """The preferred workload of A needs no gpu: all of it is B's."""
    problem = problem_of(
        [[1, 1]],
        [[1, 0], [1, 1], [0, 1]],
        workload_tenant=[0, 0, 1],
        t=2,
        best_effort=[False, True],
    )
    answer = ceei(problem)
    assert answer.tasks == pytest.approx([1, 0, 1], abs=1e-9)


def test_priority_breaks_ties_only():
    """A prefers the workload that takes the gpu, and has the same share with the other one."""
    problem = problem_of(
        [[1, 1]],
        [[1, 0], [1, 1], [0, 1]],
        workload_tenant=[0, 0, 1],
        t=2,
        best_effort=[False, True],
        priority=[0, 5, 0],
    )
    answer = ceei(problem)
    assert answer.tasks == pytest.approx([1, 0, 1], abs=1e-9)


@pytest.mark.parametrize("part", range(6))
def test_the_second_stage_has_the_greatest_product(part):
    for number in numbers(COUNT)[part::6]:
        problem = second_stage_problem(number)
        try:
            assert_second_stage_is_best(problem, ceei(problem))
        except AssertionError as error:
            raise AssertionError(f"problem {number}") from error
