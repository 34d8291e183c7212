"""Slots follow each other so that the fewest tasks start and stop, unless their order is open."""

import itertools
from dataclasses import replace

import numpy as np

from policies import solve, verify
from tests.unit.policies.problems import problem_of


def reordered(answer, order):
    schedule = answer.schedule
    where = schedule.placements
    return replace(
        answer,
        schedule=replace(
            schedule,
            fraction=schedule.fraction[order],
            tasks=schedule.tasks[order],
            placements=None if where is None else tuple(where[k] for k in order),
        ),
    )


def moves(tasks):
    return int(np.abs(tasks - np.roll(tasks, 1, axis=0)).sum())


def test_slots_follow_each_other_with_the_fewest_moves():
    rng = np.random.default_rng(5)
    problem = problem_of([[40, 40]], rng.integers(3, 17, (6, 2)).astype(float))
    answer = solve(problem, "tda")
    assert answer.schedule.order_proven
    size, least = len(answer.schedule.fraction), moves(answer.schedule.tasks)
    assert size >= 4
    found = {True: 0, False: 0}
    for tail in itertools.permutations(range(1, size)):
        other = reordered(answer, [0, *tail])
        best = moves(other.schedule.tasks) == least
        assert verify(problem, other).valid == best
        found[best] += 1
        if not best:
            open_ = replace(other, schedule=replace(other.schedule, order_proven=False))
            assert verify(problem, open_).valid  # it says that another order may be better
    assert found[False] > found[True] > 0
