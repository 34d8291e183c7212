"""Other numbers beside the tasks: objective, bound, levels, reasons."""

import numpy as np

from tests.forger.changes.base import change, one


def number(case, name, turn):
    was = getattr(case.answer, name)
    return case.with_answer(**{name: turn(was)})


@change
def objective_higher(case, rng):
    return number(case, "objective", lambda was: 0.5 if np.isnan(was) else was * (1 + 1e-6) + 1e-9)


@change
def objective_not_said(case, rng):
    return number(case, "objective", lambda was: np.nan if not np.isnan(was) else 0.0)


@change
def bound_lower(case, rng):
    return number(case, "bound", lambda was: 0.5 if np.isnan(was) else was * (1 - 1e-6) - 1e-9)


@change
def gap_not_said(case, rng):
    return number(case, "gap", lambda was: np.nan if not np.isnan(was) else 0.0)


@change
def one_level_higher(case, rng):
    return number(case, "level", lambda was: one(was, rng.integers(len(was)), was.max() + 0.1))


@change
def reasons_all_task_limit(case, rng):
    return case.with_answer(limited_by=("task_limit",) * case.problem.n)


@change
def reasons_all_the_first_resource(case, rng):
    return case.with_answer(limited_by=(f"resource:{case.problem.resources[0]}",) * case.problem.n)


@change
def something_moved(case, rng):
    return case.with_answer(moved=1)
