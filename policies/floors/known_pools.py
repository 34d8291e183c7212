"""Pools of guarantees that were divided already.

A group's guarantee is divided among what is below it, with the guarantees there. In trees the pool of
such a guarantee therefore comes again in the pool of each group above it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import fields

from policies.model.allocation import Allocation
from policies.model.problem import Problem


class KnownPools:
    """Answers by the contents of their problems, all by one policy with its mode and options."""

    def __init__(self) -> None:
        self._answers: dict[bytes, Allocation] = {}

    def answer(self, pool: Problem, divide: Callable[[Problem], Allocation]) -> Allocation:
        """Return the answer to a pool, which is divided if no equal one was."""
        content = _content(pool)
        if content not in self._answers:
            self._answers[content] = divide(pool)
        return self._answers[content]


def _content(problem: Problem) -> bytes:
    """Return bytes that are equal for equal problems only."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written)
    pickler.fast = True  # otherwise the bytes depend on which parts are the same objects
    pickler.dump([getattr(problem, each.name) for each in fields(problem) if each.init])
    return written.getvalue()
