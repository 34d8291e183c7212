"""Tumbling, sliding, decaying and unbounded windows of past use for a decision.

Source: Tang et al., TPDS 2018, §6 (time windows), refined as in policies §4: of an interval that a
sliding window cuts, the part inside counts. Times are seconds from any origin; a decision is for the
step ``(t, t + dt]``, which counts in full, whatever the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.errors import ProblemError

WindowKind = Literal["unbounded", "tumbling", "sliding", "decay"]
DEFAULT_HALF_LIFE = 7 * 24 * 3600.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Intervals:
    """Intervals in which tenants used (or would have used alone) a constant amount.

    Attributes
    ----------
    start, end : (N,) float array
        Seconds, ``start < end``.
    tenant : (N,) int array
        Index of the tenant.
    rate : (N, m) float array
        Amount of each resource in use during the interval.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Intervals
    >>> used = Intervals(start=np.array([0.0]), end=np.array([60.0]), tenant=np.array([0]),
    ...     rate=np.array([[2.0, 4.0]]))
    >>> len(used.joined(used).start)
    2
    """

    start: FloatArray
    end: FloatArray
    tenant: IntArray
    rate: FloatArray

    def __post_init__(self) -> None:
        count = len(self.start)
        aligned = (
            self.start.shape == self.end.shape == self.tenant.shape == (count,)
            and self.rate.ndim == 2
            and len(self.rate) == count
        )
        if not aligned or not (self.start < self.end).all():
            raise ProblemError(
                "interval.shape",
                "intervals need one start, end, tenant and row of rates each, and end after they start",
            )

    @classmethod
    def of_totals(
        cls, start: FloatArray, end: FloatArray, tenant: IntArray, total: FloatArray
    ) -> Intervals:
        """Intervals whose (N, m) amounts are resource × seconds over all of each."""
        # An empty interval is refused below; only its division must not warn.
        length = np.where(end > start, end - start, 1.0)
        return cls(start=start, end=end, tenant=tenant, rate=total / length[:, None])

    def joined(self, later: Intervals) -> Intervals:
        """These and those."""
        return Intervals(
            start=np.concatenate([self.start, later.start]),
            end=np.concatenate([self.end, later.end]),
            tenant=np.concatenate([self.tenant, later.tenant]),
            rate=np.concatenate([self.rate, later.rate]),
        )


def amount_within(
    intervals: Intervals, tenants: int, start: float = -math.inf, end: float = math.inf
) -> FloatArray:
    """Return the resource × seconds (tenants, m) of the intervals inside ``(start, end]``."""
    inside = np.minimum(intervals.end, end) - np.maximum(intervals.start, start)
    return _by_tenant(intervals, tenants, np.maximum(inside, 0.0))


def amount_decayed(intervals: Intervals, tenants: int, at: float, half_life: float) -> FloatArray:
    """Return the resource × seconds (tenants, m) up to ``at``, halved per ``half_life`` since then.

    The integral over each interval of ``2^(−(at − s) / half_life)``. It goes on from step to step:
    what was at ``at`` is worth ``decay_factor(d)`` of that at ``at + d``.
    """
    end = np.minimum(intervals.end, at)
    length = np.maximum(end - intervals.start, 0.0)
    rate = math.log(2) / half_life
    # expm1, because 1 - exp loses all digits of intervals that are short beside the half-life.
    seconds = -np.expm1(-rate * length) / rate
    return _by_tenant(intervals, tenants, seconds * np.exp(-rate * (at - end)))


def decay_factor(seconds: float, half_life: float) -> float:
    """Return the worth of a unit ``seconds`` later."""
    return math.exp2(-seconds / half_life)


def _by_tenant(intervals: Intervals, tenants: int, seconds: FloatArray) -> FloatArray:
    amount = intervals.rate * seconds[:, None]
    total = np.zeros((tenants, amount.shape[1]))
    for r in range(amount.shape[1]):
        total[:, r] = grouped_sum(amount[:, r], intervals.tenant, tenants)
    return total


@dataclass(frozen=True)
class Window:
    """Window of past use that a long-term policy counts.

    Build it with one of the four constructors.

    Attributes
    ----------
    kind : str
        ``unbounded``, ``tumbling``, ``sliding`` or ``decay``.
    length : float
        Seconds of a sliding window.
    half_life : float
        Seconds in which the past loses half its weight.
    boundaries : tuple of float
        Seconds at which a tumbling window begins anew, ascending.

    References
    ----------
    Tang et al., "Long-Term Multi-Resource Fairness for Pay-as-you Use Computing Systems", IEEE TPDS,
    2018, section 6.

    Examples
    --------
    >>> from policies import Window
    >>> Window.sliding(3600).start(t=7200, dt=60)
    3660
    """

    kind: WindowKind
    length: float = math.inf
    half_life: float = math.inf
    boundaries: tuple[float, ...] = ()

    @classmethod
    def unbounded(cls) -> Window:
        """Return a window in which everything counts for ever."""
        return cls("unbounded")

    @classmethod
    def sliding(cls, length: float) -> Window:
        """Return a window of the last ``length`` seconds.

        A length of 0, or up to the step, is memoryless.
        """
        if not length >= 0:
            raise ProblemError("window.length", f"length is {length}; it must be 0 or more")
        return cls("sliding", length=length)

    @classmethod
    def tumbling(cls, boundaries: Sequence[float]) -> Window:
        """Return a window that starts at the last of the given times."""
        if any(a >= b for a, b in pairwise(boundaries)):
            raise ProblemError("window.length", "the boundaries of a tumbling window must ascend")
        return cls("tumbling", boundaries=tuple(boundaries))

    @classmethod
    def decay(cls, half_life: float = DEFAULT_HALF_LIFE) -> Window:
        """Return a window in which everything counts, half as much per ``half_life`` seconds passed."""
        if not half_life > 0:
            raise ProblemError("window.length", f"half_life is {half_life}; it must be above 0")
        return cls("decay", half_life=half_life)

    def start(self, t: float, dt: float) -> float:
        """Return the start of the window for the step ``(t, t + dt]``.

        It is never inside the step.
        """
        if self.kind == "sliding":
            return min(t, t + dt - self.length)
        if self.kind == "tumbling":
            return max((at for at in self.boundaries if at <= t), default=-math.inf)
        return -math.inf

    def remembered(self, intervals: Intervals, tenants: int, t: float, dt: float) -> FloatArray:
        """Return the past use (tenants, m) that counts at the decision for ``(t, t + dt]``.

        The step itself is not in it: a policy adds it in full. A decaying past is worth what it
        is worth at ``t``.

        Args:
            intervals: what was used, or would have been alone; parts after ``t`` do not count.
            tenants: how many there are.
            t, dt: the step, in seconds.
        """
        if self.kind == "decay" and math.isfinite(self.half_life):
            return amount_decayed(intervals, tenants, t, self.half_life)
        return amount_within(intervals, tenants, self.start(t, dt), t)

    def elapsed(self, since: float, t: float, dt: float) -> float:
        """Seconds of the window that have passed before the step, by the weight they have.

        Args:
            since: when the pool began to remember.
            t, dt: the step, in seconds.
        """
        length = max(t - max(since, self.start(t, dt)), 0.0)
        if self.kind == "decay" and math.isfinite(self.half_life):
            rate = math.log(2) / self.half_life
            return -math.expm1(-rate * length) / rate
        return length
