"""Pools of guarantees that were divided already.

A group's guarantee is divided among what is below it, with the guarantees there. In a tree, the same
pool is therefore divided once for each group above it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass

import numpy as np

from policies.model.allocation import Allocation
from policies.model.problem import Problem

# Fields of a problem that its attributes state, in the order in which they are compared.
_FIELDS = tuple(each.name for each in fields(Problem) if each.init)


class KnownPools:
    """Answers by the contents of their problems, all by one policy with its mode and options."""

    def __init__(self) -> None:
        self._answers: dict[object, list[tuple[Problem, Allocation]]] = {}

    def answer(self, pool: Problem, divide: Callable[[Problem], Allocation]) -> Allocation:
        """Return the answer to a pool, which is divided if no equal one was."""
        names = pool.tenants, pool.workload_names, pool.capacity.tobytes(), pool.demand.tobytes()
        for known, answer in self._answers.get(names, ()):
            if all(_are_equal(getattr(pool, each), getattr(known, each)) for each in _FIELDS):
                return answer
        answer = divide(pool)
        self._answers.setdefault(names, []).append((pool, answer))
        return answer


def _are_equal(one: object, other: object) -> bool:
    """Return whether two values have the same bits.

    Where it is False of equal values, nothing but time is lost: a pool is divided again.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        alike = one.shape == other.shape and one.dtype == other.dtype
        return alike and one.tobytes() == other.tobytes()
    if is_dataclass(one):
        return all(
            _are_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(one)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_are_equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        if one and isinstance(one[0], str):
            return one == other
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return one == other
