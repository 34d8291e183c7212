"""Of a tenant's workloads the preferred one runs: higher priority, then older."""

from dataclasses import replace

import numpy as np
import pytest

from policies import Problem, solve, verify


def refusals(problem, answer):
    return [check.name for check in verify(problem, answer).checks if not check.holds]


@pytest.mark.parametrize("policy", ["drf", "drfh", "asset", "ceei"])
@pytest.mark.parametrize("limit", [np.inf, 8.0])
def test_tasks_go_to_the_preferred_workload(policy, limit):
    """The tenant's shares are the same whichever of its two workloads runs."""
    problem = Problem.create(
        resources=["cpu", "memory"],
        capacity=[[10, 10]],
        tenants=["a"],
        workload_tenant=[0, 0],
        demand=[[1, 0.5], [1, 0.5]],
        priority=[0, 9],
        tasks=[limit, limit],
    )
    answer = solve(problem, policy, mode="divisible")
    assert np.allclose(answer.tasks, [10 - min(limit, 10), min(limit, 10)])
    order = np.array([1, 0])
    swapped = replace(
        answer,
        tasks=answer.tasks[order],
        placement_piece=order[answer.placement_workload],
        limited_by=answer.limited_by[::-1],
    )
    assert refusals(problem, swapped) == ["preferred_first"]


@pytest.mark.parametrize("policy", ["drf", "drfh"])
def test_so_they_do_where_demands_differ(policy):
    """Both need the same of the full resource; there is memory for either."""
    problem = Problem.create(
        resources=["cpu", "memory"],
        capacity=[[10, 100]],
        tenants=["a"],
        workload_tenant=[0, 0],
        demand=[[1, 0.5], [1, 2]],
        priority=[0, 9],
    )
    answer = solve(problem, policy, mode="divisible")
    assert np.allclose(answer.tasks, [0, 10])
    swapped = replace(
        answer,
        tasks=answer.tasks[::-1].copy(),
        placement_piece=1 - answer.placement_workload,
        limited_by=answer.limited_by[::-1],
    )
    assert "preferred_first" in refusals(problem, swapped)


@pytest.mark.parametrize("pack", [False, True])
def test_tasks_of_a_slot_go_to_the_preferred_workload(pack):
    problem = Problem.create(
        resources=["cpu"],
        capacity=[[5]],
        tenants=["a", "b"],
        workload_tenant=[0, 0, 1],
        demand=[[2], [2], [3]],
        priority=[0, 9, 0],
    )
    answer = solve(problem, "tda", options={"pack": pack})
    order = np.array([1, 0, 2])
    schedule = answer.schedule
    placements = schedule.placements and tuple(
        replace(item, workload=order[item.workload]) for item in schedule.placements
    )
    swapped = replace(
        answer,
        tasks=answer.tasks[order],
        limited_by=tuple(answer.limited_by[j] for j in order),
        placement_piece=order[answer.placement_workload],
        schedule=replace(schedule, tasks=schedule.tasks[:, order], placements=placements),
    )
    assert answer.tasks[1] > answer.tasks[0]
    assert "preferred_first" in refusals(problem, swapped)


def test_a_workload_whose_resource_is_used_up_is_preferred_to_none():
    """Rounding leaves 1e-13 of the gpu and a first stage 1e-6 of the memory: much of b's share."""
    problem = Problem.create(
        resources=["cpu", "memory", "gpu"],
        capacity=[[1, 1, 1]],
        tenants=["a1", "a2", "b1", "b2"],
        weight=[0.5, 1, 2, 0.5],
        best_effort=[False, False, True, True],
        workload_tenant=[0, 1, 2, 2, 3, 3],
        demand=[[0, 1.5, 0.5], [0.25, 0, 1.5], [0.25, 0.5, 1], [0, 2.5, 0], [0.5, 0.25, 0.25],
                [1, 1, 0.5]],
        tasks=[np.inf, 4, 2, 4, np.inf, np.inf],
        priority=[0, 0, 1, 0, 1, 0],
    )  # fmt: skip
    assert refusals(problem, solve(problem, "ceei")) == []


def test_what_counts_as_used_up_is_room_for_no_preferred_workload():
    """A leaves 1e-7 of the gpu, which is less than a later market takes for something."""
    problem = Problem.create(
        resources=["cpu", "gpu"],
        capacity=[[1e7, 1e7]],
        tenants=["a", "b"],
        best_effort=[False, True],
        workload_tenant=[0, 1, 1],
        demand=[[0, 9_999_999], [1, 1], [1, 0]],
        tasks=[1, np.inf, np.inf],
        priority=[0, 1, 0],
    )
    answer = solve(problem, "ceei")
    assert answer.tasks == pytest.approx([1, 0, 1e7])
    assert refusals(problem, answer) == []


def test_what_rounding_leaves_does_not_go_round_for_ever():
    """Of 120 tenants each would turn 1e-13 of a resource that is left into that of the other."""
    random, tenants = np.random.default_rng(0), 120
    problem = Problem.create(
        resources=["cpu", "memory"],
        capacity=[[8.27, 17.25]],
        server_count=[4],
        tenants=[f"t{number}" for number in range(tenants)],
        demand=random.lognormal(0, 1, (2 * tenants, 2)).round(3) + 0.001,
        workload_tenant=np.repeat(np.arange(tenants), 2),
    )
    answer = solve(problem, "asset", mode="divisible", time_limit=300)
    assert refusals(problem, answer) == []
