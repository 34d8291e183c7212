"""The worked figures of DRF on one pool (policies §2), divisible."""

import numpy as np
import pytest

from policies import PolicyNotApplicableError, Problem, solve, verify
from tests.unit.policies.problems import problem_of


def tasks_of(capacity, demand, **fields):
    problem = problem_of([capacity], demand, **fields)
    answer = solve(problem, "drf")
    assert verify(problem, answer).valid
    return answer.tasks


def test_the_nsdi_example_gives_three_and_two_tasks():
    problem = problem_of([[9, 18]], [[1, 4], [3, 1]])
    answer = solve(problem, "drf")
    assert answer.tasks == pytest.approx([3, 2], rel=1e-12)
    assert answer.tenant_share == pytest.approx([2 / 3, 2 / 3], rel=1e-12)
    assert answer.limited_by == ("resource:cpu", "resource:cpu")


def test_who_does_not_need_the_full_resource_goes_on():
    assert tasks_of([1, 1], [[1, 0]] + [[0, 1]] * 9) == pytest.approx([1] + [1 / 9] * 9)


def test_claiming_the_resource_as_well_shares_it():
    assert tasks_of([1, 1], [[1, 1]] + [[0, 1]] * 9) == pytest.approx([1 / 10] * 10)


def test_population_monotonicity_can_fail_with_zero_demands():
    with_x = problem_of([[1, 1]], [[1, 0], [1, 0.5], [0, 1]])
    assert solve(with_x, "drf").tenant_share == pytest.approx([1 / 2, 1 / 2, 3 / 4])
    without_x = problem_of([[1, 1]], [[1, 0.5], [0, 1]])
    assert solve(without_x, "drf").tenant_share == pytest.approx([2 / 3, 2 / 3])


def test_a_satisfied_tenant_leaves_the_rest_to_the_others():
    # CPU: 2 + 3 b <= 9 and memory: 8 + b <= 18, so B can run 7/3 tasks.
    assert tasks_of([9, 18], [[1, 4], [3, 1]], tasks=[2, np.inf]) == pytest.approx([2, 7 / 3])


def test_weights_scale_the_shares():
    # Shares 2:1 mean 2a/9 = 2 (b/3), so a = 3b; memory is full first: 4a + b = 18.
    answer = tasks_of([9, 18], [[1, 4], [3, 1]], weight=[2, 1])
    assert answer == pytest.approx([54 / 13, 18 / 13])


def test_several_workloads_of_a_tenant_share_its_level():
    answer = solve(
        problem_of([[12, 12]], [[1, 0], [0, 1], [1, 1]], t=2, workload_tenant=[0, 0, 1]), "drf"
    )
    # Tenant 1 splits over CPU and memory: shares g = a + b, 2 a 12/12 ... level 2/3.
    assert answer.tenant_share == pytest.approx([2 / 3, 2 / 3])
    assert answer.tasks == pytest.approx([4, 4, 8])


def test_one_pool_has_no_placements_and_takes_no_selectors():
    answer = solve(problem_of([[9, 18]], [[1, 4], [3, 1]]), "drf")
    assert len(answer.placement_tasks) == 0
    with pytest.raises(PolicyNotApplicableError) as caught:
        solve(problem_of([[9, 18]], [[1, 4]], selectors=[{"zone": "a"}]), "drf")
    assert caught.value.code == "policy.no_placement"
    assert caught.value.pointer == "/workloads/0/server_selector"


def test_servers_count_as_one_pool():
    split = problem_of([[1, 14], [8, 4]], [[1, 4], [3, 1]])
    assert solve(split, "drf").tasks == pytest.approx([3, 2])


def test_a_large_pool_is_filled_without_any_program():
    random = np.random.default_rng(1)
    problem = Problem.create(
        resources=("cpu", "memory"),
        capacity=[[1000, 1000]],
        tenants=[str(i) for i in range(500)],
        demand=random.uniform(0.1, 2, (500, 2)),
        tasks=random.integers(0, 5, 500),
    )
    answer = solve(problem, "drf")
    assert answer.statistics["programs"] == 0
    assert answer.gap <= 1e-9
    assert verify(problem, answer).valid
