"""Linear equations of a step and the two orders of elimination, of which the smaller is used.

Both solve, for the steps of prices ``dp`` (m, K), tenant prices ``dy`` (rows,), limit prices
``dh`` (limits,) and the level ``dtau``,

    class rows:   sum_j theta d (d . dp - dy + dh) + slack dp = a
    tenant rows:  sum_v theta (dy - d . dp - dh) - rise dtau   = b
    limit rows:   sum_c theta (d . dp - dy + dh) + room dh     = e
    level row:    rise . dy                                    = f

where ``theta = x / z``, ``slack = s / p`` and ``room = u / h``. Tenants first leaves a dense
system of classes × resources + 1 unknowns, for many tenants and few classes; servers first
leaves one of rows + limits + 1, for few tenants and many classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.leximin.level_program import LevelProgram


@dataclass(frozen=True, eq=False)
class Rows:
    """Constants of a program's equations, the same at every point.

    Attributes:
        demand: (m, n); row: (n,) and first: (rows + 1,) as in the program; rise: (rows,).
        limited: (limits,) workloads with a limit row; alone: (n,) does not share its row.
    """

    demand: FloatArray
    row: IntArray
    first: IntArray
    rise: FloatArray
    limited: IntArray
    alone: BoolArray

    @staticmethod
    def of(program: LevelProgram) -> Rows:
        """Return the rows of a program."""
        return Rows(
            demand=np.ascontiguousarray(program.demand.T),
            row=program.row,
            first=program.first,
            rise=program.rise,
            limited=np.flatnonzero(np.isfinite(program.limit)),
            alone=(np.diff(program.first) == 1)[program.row],
        )

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sums (rows,) of values (n,)."""
        if len(self.rise) == len(values):
            return values
        summed: FloatArray = np.add.reduceat(values, self.first[:-1])
        return summed


class Elimination(Protocol):
    """One way to solve the equations."""

    def factor(
        self, theta: FloatArray, total: FloatArray, slack: FloatArray, room: FloatArray
    ) -> bool:
        """Take in theta (K, n), its sums over classes (n,), slack (m, K) and room (limits,).

        False when the equations are singular.
        """

    def solve(
        self, of_slacks: FloatArray, b: FloatArray, f: float, *, refine: bool
    ) -> tuple[FloatArray, FloatArray, float]:
        """Return the steps of prices (W,), which are dp and then dh, of y (rows,), and of the level.

        Args:
            of_slacks: (W,) a and then e; b, f: the right-hand sides.
            refine: ask for steps that are accurate although the system is nearly singular.
        """
