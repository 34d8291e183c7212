"""Another past after the step."""

from dataclasses import replace

from tests.forger.changes.base import change, one


@change
def no_history(case, rng):
    return case.with_answer(history=None) if case.answer.history is not None else None


def remembered(case, rng, name):
    history = case.answer.history
    if history is None:
        return None
    was = getattr(history, name)
    if name == "elapsed":
        return case.with_answer(history=replace(history, elapsed=was + 1))
    at = tuple(rng.integers(size) for size in was.shape)
    return case.with_answer(history=replace(history, **{name: one(was, at, was[at] * 1.5 + 1)}))


@change
def more_used(case, rng):
    return remembered(case, rng, "used")


@change
def more_alone(case, rng):
    return remembered(case, rng, "alone")


@change
def longer_waited(case, rng):
    return remembered(case, rng, "waiting")


@change
def longer_elapsed(case, rng):
    return remembered(case, rng, "elapsed")
