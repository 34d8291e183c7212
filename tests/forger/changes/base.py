"""A case to forge, the register of changes, and what changes have in common."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

TINY, SMALL, LARGE = 1e-7, 1e-3, 0.1


@dataclass(frozen=True)
class Case:
    """A problem, what was remembered of it, and an answer."""

    problem: object
    answer: object
    history: object = None

    def with_answer(self, **parts):
        return replace(self, answer=replace(self.answer, **parts))

    def with_problem(self, **parts):
        return replace(self, problem=replace(self.problem, **parts))


CHANGES: dict[str, Callable[[Case, np.random.Generator], Case | None]] = {}


def change(function):
    CHANGES[function.__name__] = function
    return function


def some(rng, indices):
    return int(rng.choice(indices)) if len(indices) else None


def one(values, at, value):
    changed = np.array(values, copy=True)
    changed[at] = value
    return changed


def rescaled(case, factor):
    """Tasks of each workload (n,) times a factor, and their placements with them."""
    answer = case.answer
    return case.with_answer(
        tasks=answer.tasks * factor,
        placement_tasks=answer.placement_tasks * factor[answer.placement_workload],
    )


def scaled_one(case, rng, *factors):
    runs = np.flatnonzero(case.answer.tasks > 0)
    if len(runs) < len(factors):
        return None
    factor = np.ones(case.problem.n)
    factor[rng.choice(runs, len(factors), replace=False)] = factors
    return rescaled(case, factor)
