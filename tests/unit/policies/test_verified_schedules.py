"""Each check of a division of time finds what it is there for, whatever the others find."""

from dataclasses import replace

import numpy as np
import pytest

from policies import solve, verify
from tests.unit.policies.problems import problem_of


@pytest.fixture
def problem():
    """The two slots that u1 and u2 take turns in are 3 tasks, and 1 and 3."""
    return problem_of([[15, 15]], [[5, 2], [3, 3.5]])


@pytest.fixture
def answer(problem):
    answer = solve(problem, "tda")
    assert answer.schedule.tasks.tolist() == [[3, 0], [1, 3]]
    return answer


def refusals(problem, answer):
    return [check.name for check in verify(problem, answer).checks if not check.holds]


def test_the_control_is_accepted(problem, answer):
    assert refusals(problem, answer) == []


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_averages_above_and_below_those_of_the_slots(problem, answer, factor):
    assert "averages" in refusals(problem, replace(answer, tasks=answer.tasks * factor))


def test_slots_that_take_more_or_less_than_the_period(problem, answer):
    for factor in (0.99, 1.01):
        schedule = replace(answer.schedule, fraction=answer.schedule.fraction * factor)
        assert "fractions" in refusals(problem, replace(answer, schedule=schedule))


def test_a_slot_with_room_for_one_more_task(problem, answer):
    schedule = replace(answer.schedule, tasks=answer.schedule.tasks - [[1, 0], [0, 0]])
    assert "slots_saturated" in refusals(problem, replace(answer, schedule=schedule))


def test_tasks_on_a_server_on_which_they_may_not_run():
    """Both servers are alike but for their zone, so all that the exchange breaks is the selector."""
    problem = problem_of(
        [[2, 2], [2, 2]],
        [[1, 1], [1, 1]],
        server_labels=[{"zone": "a"}, {"zone": "b"}],
        selectors=[{"zone": "a"}, {}],
    )
    answer = solve(problem, "tda", options={"pack": True})
    assert refusals(problem, answer) == []
    (placed,) = answer.schedule.placements
    exchanged = replace(placed, server=np.where(placed.server == 0, 1, 0))
    schedule = replace(answer.schedule, placements=(exchanged,))
    assert "slots_fit" in refusals(problem, replace(answer, schedule=schedule))
