"""One thing that must hold of an answer, and by how much it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.verification.exact import UNIT


@dataclass(frozen=True)
class Check:
    """One thing that must hold of an answer.

    Attributes
    ----------
    name : str
        What is checked.
    holds : bool
        Whether it holds.
    detail : str
        A sentence; where the check does not hold, it names the worst place.
    worst : float
        Size of the worst relative deviation.

    Examples
    --------
    >>> from policies import Check
    >>> Check("task_limits", True, "no workload runs more tasks than it has", 0.0).holds
    True
    """

    name: str
    holds: bool
    detail: str
    worst: float


def check(
    name: str,
    deviation: npt.NDArray[np.floating[Any]],
    tolerance: float,
    detail: str,
    places: Sequence[str],
    place: IntArray | None = None,
) -> Check:
    """Return a check that no deviation exceeds the tolerance.

    A check that fails names the worst place. Deviation ``i`` is at ``places[i]``, or at
    ``places[place[i]]`` where ``place`` is given.
    """
    if not len(deviation):
        return Check(name, True, detail, 0.0)
    where = int(np.argmax(deviation))
    worst = float(deviation[where])
    if worst <= tolerance:
        return Check(name, True, detail, worst)
    return Check(
        name,
        False,
        f"not so for {places[where if place is None else int(place[where])]!r}: {detail}",
        worst,
    )


def exactly(deviation: npt.NDArray[np.floating[Any]], over: BoolArray) -> FloatArray:
    """Return the deviations of a check without tolerance.

    They are greater than 0 exactly where they are ``over``.
    """
    exact: FloatArray = np.where(over, np.maximum(deviation, UNIT), np.minimum(deviation, 0.0))
    return exact
