"""State of the interior-point method.

It consists of the bounds, the current point, the step and the aims of a step. Variables are (K, n)
and demands (m, n). The slacks of the class rows, resource by resource, and then those of the limit
rows, make one vector (W,), and so do their prices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Bounds:
    """Right-hand sides ``allowed`` (K, n), of the slacks' rows (W,), and ``keep`` (rows,)."""

    allowed: FloatArray
    of_slacks: FloatArray
    keep: FloatArray


@dataclass(eq=False, slots=True)
class Point:
    """Primal x (K, n) and slacks (W,), duals z (K, n), prices (W,) and y (rows,), and tau.

    ``placed`` (n,) are sums of x, ``used`` (W,) what x uses of the slacks' rows, and
    ``complementarity`` is the sum of x z.
    """

    x: FloatArray
    z: FloatArray
    slacks: FloatArray
    prices: FloatArray
    y: FloatArray
    tau: float
    placed: FloatArray
    used: FloatArray
    complementarity: float


@dataclass(eq=False, slots=True)
class Step:
    """A direction from a point, and the longest primal and dual steps along it."""

    dx: FloatArray
    dz: FloatArray
    slacks: FloatArray
    prices: FloatArray
    y: FloatArray
    tau: float = 0.0
    primal: float = 0.0
    dual: float = 0.0

    @property
    def reach(self) -> float:
        """Both steps together, each at most 1."""
        return min(1.0, self.primal) + min(1.0, self.dual)

    @staticmethod
    def at(point: Point) -> Step:
        """Room for a direction."""
        return Step(
            dx=np.empty_like(point.x),
            dz=np.empty_like(point.z),
            slacks=np.empty_like(point.slacks),
            prices=point.prices,
            y=point.y,
        )


@dataclass(eq=False, slots=True)
class Aims:
    """Aims of a step and residuals of the point.

    ``push`` (K, n) by which x would move on its own, with its sums ``placed`` (n,) and what it uses
    of the slacks' rows (W,); aims of the products of ``slacks`` and prices (W,); residuals of the
    rows of slacks (W,), of tenants (rows,) and of the level.
    """

    push: FloatArray
    placed: FloatArray
    used: FloatArray
    slacks: FloatArray
    slack_rest: FloatArray
    row_rest: FloatArray
    level_rest: float = 0.0

    @staticmethod
    def at(point: Point) -> Aims:
        """Room for what steps aim at."""
        used = point.used
        return Aims(
            push=np.empty_like(point.x),
            placed=np.empty_like(point.placed),
            used=np.empty_like(used),
            slacks=np.empty_like(used),
            slack_rest=np.empty_like(used),
            row_rest=np.empty_like(point.y),
        )
