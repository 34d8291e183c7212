"""Static partitioning: each tenant alone on its own servers and its part of the pool's."""

import numpy as np
import pytest

from policies import solve, verify
from tests.unit.policies.problems import problem_of


def tasks_of(*args, **fields):
    problem = problem_of(*args, **fields)
    answer = solve(problem, "static")
    assert verify(problem, answer).valid, verify(problem, answer)
    return answer.tasks.tolist()


def test_a_tenant_runs_whole_tasks_on_the_servers_it_contributed():
    assert tasks_of([[10, 10], [4, 4]], [[3, 3], [3, 3]], contributed_by=[0, 1]) == [3, 1]


def test_each_server_rounds_down_by_itself():
    assert tasks_of([[5, 5]], [[3, 3]], server_count=[4], contributed_by=[0]) == [4]


def test_the_pool_s_own_servers_are_dealt_out_by_weight():
    demand = [[1, 1], [1, 1]]
    assert tasks_of([[4, 4]], demand, server_count=[4], weight=[3, 1]) == [12, 4]


def test_servers_left_over_are_cut_by_what_is_owed():
    # Three servers of 4 for two tenants: one each, and half of the third (2 tasks) each.
    assert tasks_of([[4, 4]], [[1, 1], [1, 1]], server_count=[3]) == [6, 6]


def test_higher_priority_is_filled_first_then_the_older_workload():
    fields = {"t": 1, "workload_tenant": [0, 0, 0], "contributed_by": [0]}
    demand = [[1, 1], [1, 1], [1, 1]]
    assert tasks_of([[5, 5]], demand, tasks=[4, 4, 4], **fields) == [4, 1, 0]
    assert tasks_of([[5, 5]], demand, tasks=[4, 4, 4], priority=[0, 0, 1], **fields) == [1, 0, 4]


def test_a_second_workload_uses_what_the_first_left_on_each_server():
    answer = tasks_of(
        [[4, 8]],
        [[2, 1], [0.5, 2]],
        server_count=[2],
        contributed_by=[0],
        t=1,
        workload_tenant=[0, 0],
        tasks=[3, np.inf],
    )
    # Servers after three tasks: (0, 6) and (2, 7); the second workload needs CPU: 0 and 3.
    assert answer == [3, 3]


def test_quantities_equal_in_rational_arithmetic_fit():
    assert tasks_of([[0.3, 0.3]], [[0.1, 0.1]], contributed_by=[0]) == [3]


def test_a_tenant_without_any_server_has_no_eligible_one():
    problem = problem_of([[4, 4]], [[1, 1], [1, 1]], contributed_by=[0])
    answer = solve(problem, "static")
    assert answer.tasks.tolist() == [4, 0]
    assert answer.limited_by == ("resource:cpu", "no_eligible_server")


def test_draining_servers_run_nothing():
    fields = {"contributed_by": [0, 0], "contributed_only": [True, False]}
    assert tasks_of([[9, 9], [1, 1]], [[1, 1]], **fields) == [1]


@pytest.mark.parametrize("zone", ["a", "b"])
def test_selectors_are_honoured(zone):
    answer = tasks_of(
        [[4, 4], [2, 2]],
        [[1, 1]],
        server_labels=[{"zone": "a"}, {"zone": "b"}],
        selectors=[{"zone": zone}],
    )
    assert answer == [{"a": 4, "b": 2}[zone]]
