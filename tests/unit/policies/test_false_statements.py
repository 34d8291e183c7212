"""Statements that are false although each of their numbers fits the others."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from policies import Problem, solve, verify
from tests.unit.policies.problems import problem_of


def refusals(problem, answer):
    return [check.name for check in verify(problem, answer).checks if not check.holds]


def all_counts(answer, counts, problem):
    """The answer with other counts, and the levels and the objective that follow from them."""
    counts = np.array(counts, dtype=float)
    level = np.divide(answer.level * counts, answer.tasks)
    named = tuple(
        "task_limit" if run >= limit else "resource:cpu"
        for run, limit in zip(counts, problem.tasks, strict=True)
    )
    wanting = [level[j] for j, reason in enumerate(named) if reason != "task_limit"]
    objective = min(wanting, default=np.nan)
    return replace(answer, tasks=counts, level=level, limited_by=named, objective=objective)


@pytest.mark.parametrize("policy", ["slots", "drf", "asset", "single-resource"])
def test_no_other_counts_than_the_policys_are_valid(policy):
    """Slots of 2 CPU and 2 memory: the pool has 5 of them, but memory for many more tasks."""
    problem = problem_of([[10, 80]], [[2, 8], [1, 1]], tasks=[11, 11])
    options = {"slot": {"cpu": 2, "memory": 8}} if policy == "slots" else {}
    answer = solve(problem, policy, mode="indivisible", options=options)
    right = answer.tasks.tolist()
    assert all(right)
    assert refusals(problem, answer) == []
    accepted = [
        counts
        for counts in itertools.product(range(12), repeat=2)
        if verify(problem, all_counts(answer, counts, problem)).valid
    ]
    assert accepted == [tuple(right)]


def test_a_workload_that_fits_no_slot_has_no_tasks():
    """Memory is no part of a slot, so that whatever demands it runs nowhere."""
    problem = problem_of([[10, 80]], [[2, 8], [1, 0]])
    answer = solve(problem, "slots", options={"slot": {"cpu": 2}})
    assert answer.tasks.tolist() == [0, 5]
    forged = replace(answer, tasks=np.array([1.0, 4.0]), level=answer.level * [1, 4 / 5])
    assert "unservable" in refusals(problem, forged)


def test_a_round_in_which_nobody_is_frozen_is_refused():
    """Its level is 0, and so was what its gap was relative to."""
    problem = Problem.create(
        resources=["cpu"],
        capacity=[[4]],
        tenants=["a", "b"],
        demand=[[1], [1]],
        best_effort=[False, True],
    )
    answer = solve(problem, "drf", mode="divisible")
    rounds = answer.certificate.rounds
    assert rounds[-1].level == 0
    twice = replace(answer.certificate, rounds=(*rounds, rounds[-1]))
    assert "certificate" in refusals(problem, replace(answer, certificate=twice))
