"""What is less than the tolerance of a share is 0, in tasks and in placements."""

import numpy as np
import pytest

from policies import Problem, policies_available, solve, verify
from policies.leximin.dust import above_dust
from policies.model.share_definition import share_units
from policies.model.tolerance import DUST, SOLVER_TOLERANCE

DIVISIBLE = [info.name for info in policies_available() if "divisible" in info.modes]
POOLS = 200


def full_pool(number, *, selectors, large):
    """Tenants without limits that fill what they need, and best-effort ones for what is left."""
    rng = np.random.default_rng([20261124, 5, number])
    m, t = int(rng.integers(1, 5)), int(rng.integers(5, 40) if large else rng.integers(2, 6))
    k = int(rng.integers(2, 25) if large else rng.integers(1, 5))
    n = int(rng.integers(t, 2 * t + 1))
    owner = np.concatenate([np.arange(t), rng.integers(0, t, n - t)])
    if rng.random() < 0.5:
        demand = rng.choice([0.0, 0.1, 0.25, 0.3, 0.7, 1.0, 2.0, 3.0], (n, m))
        capacity = rng.choice([0.1, 0.3, 1.1, 2.0, 3.0, 4.0, 7.0, 8.7], (k, m))
    else:
        demand = rng.uniform(0.01, 2, (n, m)) * (rng.random((n, m)) < 0.8)
        capacity = rng.uniform(1, 16, (k, m))
    demand[np.arange(n), rng.integers(0, m, n)] += 0.5
    best_effort = rng.random(t) < 0.5
    best_effort[:2] = False, True
    return Problem.create(
        resources=("cpu", "memory", "gpu", "disk")[:m],
        capacity=capacity,
        server_count=rng.integers(1, 6, k),
        server_labels=[{"zone": "ab"[int(rng.integers(2))]} for _ in range(k)],
        tenants=[f"u{i}" for i in range(t)],
        weight=rng.choice([0.5, 1.0, 2.0, 3.0], t),
        best_effort=best_effort,
        workload_tenant=owner,
        demand=demand,
        tasks=np.where(rng.random(n) < 0.3, rng.integers(1, 40, n), np.inf),
        priority=rng.integers(-1, 2, n),
        selectors=[{"zone": "a"} if selectors and rng.random() < 0.25 else {} for _ in range(n)],
    )


def assert_without_dust(problem, answer):
    """All parts of a tenant's share that are next to nothing would together be more than dust.

    Parts of workloads that run all their tasks are parts of those.
    """
    per_task = share_units(problem, answer.choice).per_task
    tables = [(np.arange(problem.n), answer.tasks)]
    if not answer.choice.sees_one_pool:
        tables.append((answer.placement_workload, answer.placement_tasks))
        placed = np.bincount(answer.placement_workload, answer.placement_tasks, minlength=problem.n)
        assert placed == pytest.approx(answer.tasks, rel=1e-12, abs=0)
        assert (answer.placement_tasks > 0).all()
    share = answer.tasks * per_task
    of_tenant = np.bincount(problem.workload_tenant, share, minlength=problem.t)
    complete = answer.tasks >= problem.tasks * (1 - 1e-9)
    least = 1e-2 * SOLVER_TOLERANCE / problem.effective_weight.sum()
    level = of_tenant / np.where(problem.effective_weight > 0, problem.effective_weight, 1.0)
    if answer.policy.name != "ceei":
        assert level[level > 0].min(initial=1.0) > least
    whole = np.where(complete, share, of_tenant[problem.workload_tenant])
    for workload, tasks in tables:
        of = whole[workload]
        part = (tasks * per_task[workload])[of > 0] / of[of > 0]
        count = np.bincount(problem.workload_tenant[workload]).max(initial=1)
        assert part[part > 0].min(initial=1.0) > DUST / count


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("policy", DIVISIBLE)
def test_best_effort_tenants_of_a_full_pool_have_tasks_or_none(policy, large):
    for number in range(POOLS // 4 if large else POOLS):
        problem = full_pool(number, selectors=policy == "drfh", large=large)
        answer = solve(problem, policy, mode="divisible")
        verification = verify(problem, answer)
        assert verification.valid, (number, [c for c in verification.checks if not c.holds])
        try:
            assert_without_dust(problem, answer)
        except AssertionError as error:
            raise AssertionError(f"pool {number}") from error


def test_a_small_workload_that_runs_all_its_tasks_keeps_them():
    """Its one task is a part of 1e-11 of what its tenant has."""
    problem = Problem.create(
        resources=["cpu", "memory"],
        capacity=[[1e9, 1e9]],
        tenants=["a", "b"],
        workload_tenant=[0, 0, 1],
        demand=[[2, 0], [0, 1], [0, 1]],
        tasks=[1, np.inf, np.inf],
    )
    answer = solve(
        problem, "drf", mode="divisible", options={"resource_weights": {"a": {"cpu": 500}}}
    )
    assert verify(problem, answer).valid
    assert answer.tasks[0] == 1
    assert answer.limited_by[0] == "task_limit"


def test_parts_that_are_dust_add_up_to_dust():
    """Of five that are each less than the tolerance, one is left out; the others would be missed."""
    share = np.array([1.0, *[0.7 * DUST] * 5])
    stays = above_dust(share, np.arange(6), np.zeros(6, dtype=np.int64), np.full(6, np.inf))
    assert stays.tolist() == [True, False, True, True, True, True]
