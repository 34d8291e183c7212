"""The worked figures of exact DRFH (policies §3), divisible."""

import numpy as np
import pytest

from policies import solve, verify
from tests.unit.policies.problems import problem_of

FIG_2 = ([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]])


def solved(capacity, demand, **fields):
    problem = problem_of(capacity, demand, **fields)
    answer = solve(problem, "drfh")
    assert verify(problem, answer).valid
    assert answer.gap <= 1e-9
    return answer


def test_each_user_gets_the_server_that_suits_it():
    answer = solved(*FIG_2)
    assert answer.tenant_share == pytest.approx([5 / 7, 5 / 7], rel=1e-9)
    assert answer.tasks == pytest.approx([10, 10], rel=1e-9)
    assert answer.placement_workload.tolist() == [0, 1]
    assert answer.placement_class.tolist() == [0, 1]


def test_drf_on_each_server_separately_gives_six_tasks_each():
    capacity, demand = FIG_2
    separate = [solve(problem_of([server], demand), "drf").tasks for server in capacity]
    assert sum(separate) == pytest.approx([6, 6])


def test_weights_two_to_one():
    assert solved(*FIG_2, weight=[2, 1]).tasks == pytest.approx([120 / 11, 60 / 11], rel=1e-9)


def test_a_limited_user_leaves_the_rest():
    answer = solved(*FIG_2, tasks=[3, np.inf])
    assert answer.tasks == pytest.approx([3, 11.4], rel=1e-9)
    assert answer.limited_by[0] == "task_limit"


def test_proposition_4():
    capacity, demand = [[1, 2], [4, 3]], [[1, 1], [3, 2]]
    answer = solved(capacity, demand)
    assert answer.tenant_share == pytest.approx([12 / 25, 12 / 25], rel=1e-9)
    assert answer.tasks == pytest.approx([2.4, 0.8], rel=1e-9)
    halves = np.array(capacity) / 2
    alone = [[(half / np.array(d)).min() for half in halves] for d in demand]
    assert np.sum(alone, axis=1) == pytest.approx([2.0, 5 / 6])


def test_paper_figure_1():
    answer = solved([[1, 14], [8, 4]], [[1, 4], [3, 1]])
    assert answer.tenant_share == pytest.approx([8 / 21, 8 / 21], rel=1e-9)


def test_two_tenants_kept_apart_are_both_stuck_in_round_one():
    answer = solved(
        [[1, 1], [1, 1]],
        [[1, 1], [1, 1]],
        server_labels=[{"name": "S1"}, {"name": "S2"}],
        selectors=[{"name": "S1"}, {"name": "S2"}],
    )
    assert answer.tasks == pytest.approx([1, 1])
    assert answer.level == pytest.approx([1 / 2, 1 / 2])


@pytest.mark.parametrize("weight", [[1, 1, 1], [1, 2, 0.5]])
def test_one_server_is_drf(weight):
    demand = [[0.5, 2], [1, 0], [1, 1]]
    one = solved([[8, 9]], demand, weight=weight)
    pool = solve(problem_of([[8, 9]], demand, weight=weight), "drf")
    assert one.tenant_share == pytest.approx(pool.tenant_share, rel=1e-9)


def test_a_task_larger_than_every_server_runs_in_part():
    answer = solved([[1, 1], [1, 1]], [[4, 2]])
    assert answer.tasks == pytest.approx([0.5])
