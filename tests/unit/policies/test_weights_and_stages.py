"""Where weights come from, and who is served second (policies §1.3)."""

import numpy as np
import pytest

from policies import solve, verify
from tests.unit.policies.problems import problem_of

ONE = [[1, 1], [1, 1], [1, 1]]


def answer_to(problem):
    answer = solve(problem, "drfh")
    assert verify(problem, answer).valid, verify(problem, answer)
    return answer


def test_contributed_identical_nodes_give_weights_by_their_number():
    problem = problem_of(
        [[4, 4], [4, 4]],
        ONE[:2],
        server_count=[3, 1],
        contributed_by=[0, 1],
        weights_mode="contribution",
    )
    assert problem.effective_weight == pytest.approx([3 / 4, 1 / 4])
    assert answer_to(problem).tasks == pytest.approx([12, 4])


def test_the_explicit_weight_is_a_factor_on_the_contribution():
    problem = problem_of(
        [[4, 4], [4, 4]],
        ONE[:2],
        contributed_by=[0, 1],
        weight=[3, 1],
        weights_mode="contribution",
    )
    assert answer_to(problem).tasks == pytest.approx([6, 2])


def test_who_contributed_nothing_shares_what_is_left():
    problem = problem_of(
        [[8, 8]],
        ONE,
        contributed_by=[0],
        tasks=[2, np.inf, np.inf],
        weight=[1, 2, 1],
        weights_mode="contribution",
    )
    answer = answer_to(problem)
    assert answer.tasks == pytest.approx([2, 4, 2])
    assert problem.second_stage.tolist() == [False, True, True]
    assert np.isnan(answer.weighted_share).tolist() == [False, True, True]


def test_best_effort_gets_nothing_while_others_want_more():
    answer = answer_to(problem_of([[8, 8]], ONE, best_effort=[False, True, False]))
    assert answer.tasks == pytest.approx([4, 0, 4])
    assert answer.limited_by == ("resource:cpu",) * 3


def test_best_effort_takes_the_resource_that_others_do_not_need():
    answer = answer_to(problem_of([[8, 8]], [[1, 0], [0, 1]], best_effort=[False, True]))
    assert answer.tasks == pytest.approx([8, 8])


def test_all_weights_zero_count_as_explicit():
    problem = problem_of([[8, 8]], ONE[:2], weight=[3, 1], weights_mode="contribution")
    assert not problem.second_stage.any()
    assert answer_to(problem).tasks == pytest.approx([6, 2])


def test_a_draining_server_counts_as_contributed_but_is_not_capacity():
    problem = problem_of(
        [[4, 4], [4, 4], [8, 8]],
        ONE[:2],
        contributed_by=[0, 0, 1],
        contributed_only=[False, True, False],
        weights_mode="contribution",
    )
    assert problem.totals.tolist() == [12, 12]
    assert problem.contributed_share == pytest.approx([8 / 12, 8 / 12])
    answer = answer_to(problem)
    assert answer.tasks == pytest.approx([6, 6])
    assert answer.classes.class_of_row.tolist() == [0, -1, 1]


def test_two_servers_may_be_shared_by_three_stages_of_need():
    problem = problem_of(
        [[4, 4]],
        [[1, 1], [1, 0], [0, 1]],
        tasks=[1, 2, np.inf],
        best_effort=[False, True, True],
    )
    assert answer_to(problem).tasks == pytest.approx([1, 2, 3])
