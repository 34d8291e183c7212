"""Systems that are symmetric and positive definite, up to rounding, with one bordering row."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from policies.arrays import FloatArray

# The least regularisation, relative, that rounding makes necessary.
REGULAR = (0.0, 1e-15, 1e-13, 1e-11, 1e-9)


def diagonal_of(matrix: FloatArray) -> FloatArray:
    """Return a writable view of the diagonal (N,) of a C-contiguous matrix (N, N)."""
    return matrix.reshape(-1)[:: len(matrix) + 1]


class BorderedSystem:
    """``matrix out - border dtau = right`` and ``border . out + own dtau = level``, factored."""

    def __init__(self) -> None:
        self.border = np.empty(0)
        self._factor = np.empty((0, 0))
        self._solved_border = np.empty(0)
        self.own, self._corner = 0.0, 0.0

    def factor(self, matrix: FloatArray, border: FloatArray, own: float) -> bool:
        """Factor a bordered matrix and return False if it is singular.

        matrix (N, N) is symmetric, border (N,), and own is the level's diagonal entry.
        """
        # Close to the optimum a matrix may be singular by rounding alone.
        for relative in REGULAR:
            regular = matrix
            if relative:
                regular = matrix.copy()
                diagonal_of(regular)[:] *= 1.0 + relative
            # What LAPACK calls a column is a row here: the matrix is symmetric.
            self._factor, singular = dpotrf(regular.T, lower=1, clean=0)
            if not singular:
                break
        else:
            return False
        self.border, self.own = border, own
        self._solved_border = dpotrs(self._factor, border, lower=1)[0]
        self._corner = own + float(border @ self._solved_border)
        return True

    def solve(self, right: FloatArray, level: float) -> tuple[FloatArray, float]:
        """Return the unknowns (N,) for a right-hand side, and the level's step."""
        out: FloatArray = dpotrs(self._factor, right, lower=1)[0]
        dtau = (level - float(self.border @ out)) / self._corner
        out += self._solved_border * dtau
        return out, dtau
