"""Pools of guarantees that were divided already.

A group's guarantee is divided among what is below it, with the guarantees there. In a tree, the same
pool is therefore divided once for each group above it.
"""

from __future__ import annotations

import hashlib
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
    """Return a digest, other than that of any different problem.

    Equal problems have the same one, but nothing relies on it: a pool is divided again then.
    """
    written = io.BytesIO()
    pickler = pickle.Pickler(written)
    pickler.fast = True  # otherwise the bytes depend on which parts are the same objects
    pickler.dump([getattr(problem, each.name) for each in fields(problem) if each.init])
    return hashlib.sha256(written.getbuffer()).digest()
