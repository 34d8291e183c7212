"""Whole tasks against the slow reference: the same counts, on the same servers."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import solve, verify
from tests.unit.policies.filling_reference import fill
from tests.unit.policies.problems import problems

PLACEMENTS = ("best-fit", "first-fit", "affinity", "two-choices")


def tasks_on_servers(answer):
    """{(workload, server): tasks}; servers numbered row by row, offering rows only."""
    problem = answer.problem
    offering = (problem.row_capacity > 0).any(axis=1)
    start = np.cumsum(problem.server_count * offering) - problem.server_count * offering
    placed = Counter()
    columns = (column.tolist() for column in answer.placements_by_range())
    for j, row, offset, servers, tasks in zip(*columns, strict=True):
        for server in range(offset, offset + servers):
            placed[j, int(start[row]) + server] += int(tasks)
    return placed


@settings(max_examples=150, deadline=None)
@given(problems(selectors=False))
def test_drf_launches_what_algorithm_1_launches(problem):
    answer = solve(problem, "drf", mode="indivisible")
    _, count = fill(problem, "pool")
    assert answer.tasks.tolist() == count
    assert verify(problem, answer).valid


@pytest.mark.parametrize("placement", PLACEMENTS)
@settings(max_examples=150, deadline=None)
@given(problem=problems(), seed=st.integers(0, 3))
def test_drfh_puts_every_task_where_the_rule_says(placement, problem, seed):
    options = {"placement": placement}
    if placement == "two-choices":
        options["seed"] = seed
    answer = solve(problem, "drfh", mode="indivisible", options=options)
    launched, count = fill(problem, placement, seed)
    assert answer.tasks.tolist() == count
    assert tasks_on_servers(answer) == Counter(launched)
    assert verify(problem, answer).valid


@settings(max_examples=50, deadline=None)
@given(problems())
def test_the_same_problem_gives_the_same_placement(problem):
    first, second = (solve(problem, "drfh", mode="indivisible") for _ in range(2))
    for mine, theirs in zip(first.placements_by_range(), second.placements_by_range(), strict=True):
        assert mine.tobytes() == theirs.tobytes()


@settings(max_examples=100, deadline=None)
@given(problems(selectors=False), st.sampled_from(["asset", "slots", "single-resource"]))
def test_every_pool_policy_stops_only_when_nothing_more_fits(problem, policy):
    answer = solve(problem, policy, mode="indivisible")
    assert verify(problem, answer).valid
    assert "still_fits" not in answer.limited_by
