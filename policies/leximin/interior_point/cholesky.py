"""Systems that are symmetric and positive definite, up to rounding."""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled

# The least regularisation, relative, that rounding makes necessary.
REGULAR = (0.0, 1e-15, 1e-13, 1e-11, 1e-9)
BLOCK = 64


@compiled
def factored(matrix, lower):  # type: ignore[no-untyped-def]
    """Write the factor of matrix (N, N) into lower (N, N); False when it is singular."""
    for relative in REGULAR:
        lower[:] = matrix
        for i in range(len(matrix)):
            lower[i, i] *= 1.0 + relative
        if cholesky(lower):
            return True
    return False


@compiled
def cholesky(lower):  # type: ignore[no-untyped-def]
    """Factor in place, lower triangle only; False when not positive definite."""
    size = len(lower)
    for begin in range(0, size, BLOCK):
        end = min(begin + BLOCK, size)
        if begin > 0:
            done = lower[begin:, :begin].copy()
            lower[begin:, begin:end] -= np.dot(done, done[: end - begin].T)
        for r in range(begin, size):
            for q in range(begin, min(r + 1, end)):
                total = lower[r, q]
                for i in range(begin, q):
                    total -= lower[r, i] * lower[q, i]
                if q < r:
                    lower[r, q] = total / lower[q, q]
                elif total > 0.0:
                    lower[r, r] = np.sqrt(total)
                else:
                    return False
    return True


@compiled
def substitute(lower, right, out):  # type: ignore[no-untyped-def]
    """Write the solution of lower lower' out = right."""
    size = len(out)
    for i in range(size):
        total = right[i]
        for q in range(i):
            total -= lower[i, q] * out[q]
        out[i] = total / lower[i, i]
    for i in range(size - 1, -1, -1):
        out[i] /= lower[i, i]
        for q in range(i):
            out[q] -= lower[i, q] * out[i]


@compiled
def bordered(system, right, level, out):  # type: ignore[no-untyped-def]
    """Write the unknowns for a right-hand side, with the level; return the level's step."""
    substitute(system.factor, right, out)
    dtau = (level - np.dot(system.border, out)) / system.corner[1]
    for i in range(len(out)):
        out[i] += system.solved_border[i] * dtau
    return dtau
