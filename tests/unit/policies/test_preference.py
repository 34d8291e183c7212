"""Which workload of a tenant runs, where its share leaves the choice (policies §1.6)."""

import math

import pytest

from policies import solve, verify
from tests.unit.policies.problems import problem_of

CPU_IS_FULL = [[4, 100]]


def tasks_of(demand, policy="drfh", **fields):
    problem = problem_of(CPU_IS_FULL, demand, t=1, workload_tenant=[0] * len(demand), **fields)
    answer = solve(problem, policy)
    assert verify(problem, answer).valid
    return answer.tasks


@pytest.mark.parametrize("policy", ["drf", "drfh", "ceei"])
def test_alike_workloads_run_by_priority_then_age(policy):
    alike = [[1, 1], [2, 2], [1, 1]]
    assert tasks_of(alike, policy) == pytest.approx([4, 0, 0])
    assert tasks_of(alike, policy, priority=[0, 0, 1]) == pytest.approx([0, 0, 4])
    limited = tasks_of(alike, policy, tasks=[1, 1, 1], priority=[0, 1, 0])
    assert limited == pytest.approx([1, 1, 1])
    assert tasks_of(alike, policy, tasks=[3, 1, 1]) == pytest.approx([3, 0.5, 0])


@pytest.mark.parametrize("policy", ["drf", "drfh", "ceei"])
@pytest.mark.parametrize("first", [0, 1])
def test_unlike_workloads_with_the_same_need_of_the_full_resource(policy, first):
    priority = [1 - first, first]
    expected = [4 * (1 - first), 4 * first]
    unlike = [[1, 5], [1, 10]]
    assert tasks_of(unlike, policy, priority=priority) == pytest.approx(expected)


def test_a_preferred_workload_takes_no_more_than_there_is_room_for():
    # Memory is enough for two of the preferred tasks beside two of the others.
    problem = problem_of([[4, 24]], [[1, 2], [1, 10]], t=1, workload_tenant=[0, 0], priority=[0, 1])
    answer = solve(problem, "drfh")
    assert verify(problem, answer).valid
    assert answer.tasks == pytest.approx([2, 2])


def test_a_share_does_not_depend_on_priorities():
    shares = [
        solve(
            problem_of(
                [[4, 9], [5, 2]],
                [[1, 2], [1, 1], [2, 1]],
                t=2,
                workload_tenant=[0, 0, 1],
                priority=priority,
            ),
            "drfh",
        ).tenant_share
        for priority in ([0, 0, 0], [0, 9, 0], [9, 0, 9])
    ]
    assert shares[1] == pytest.approx(shares[0], rel=1e-9)
    assert shares[2] == pytest.approx(shares[0], rel=1e-9)


@pytest.mark.parametrize(
    ("capacity", "demand", "fields", "expected"),
    [
        # cpu is full either way: one task of 4 and one of 3, or a quarter of the first and two.
        ([[7, 10]], [[4, 1], [3, 3]], {"tasks": [1, 2]}, [1, 1]),
        ([[5, 6]], [[4, 3], [4, 1]], {"tasks": [math.inf, 1]}, [1.25, 0]),
        ([[2, 11]], [[1, 4], [4, 2]], {"tasks": [2, 2], "priority": [0, 1]}, [0, 0.5]),
        # The preferred workload takes over on both servers: 13 cpu are 3.25 tasks.
        ([[7, 9], [6, 11]], [[4, 2], [1, 1]], {}, [3.25, 0]),
        # On the second server it takes over half: then cpu is full there as well as memory.
        ([[12, 4], [4, 6]], [[4, 4], [2, 4]], {}, [1.5, 1]),
        # Another tenant keeps what it has.
        (
            [[4, 3]],
            [[1, 4], [4, 3], [3, 4]],
            {"t": 2, "workload_tenant": [0, 0, 1]},
            [0.375, 0, 0.375],
        ),
    ],
)
def test_the_preferred_workload_runs_where_a_solver_would_mix(capacity, demand, fields, expected):
    """Each has many answers of the same shares; HiGHS and the interior point give another one."""
    fields = {"t": 1, "workload_tenant": [0] * len(demand)} | fields
    problem = problem_of(capacity, demand, **fields)
    answer = solve(problem, "drfh")
    assert verify(problem, answer).valid
    assert answer.tasks == pytest.approx(expected)
