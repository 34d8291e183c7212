"""Equations that an answer nearly fulfils, solved to the last digit."""

from __future__ import annotations

import contextlib

import numpy as np

from policies.arrays import FloatArray

# A correction this small is one of rounding.
NEARBY = 1e-6


def nearest_solution(rows: FloatArray, right: FloatArray, start: FloatArray) -> FloatArray:
    """Return the solution of ``rows @ x = right`` nearest to ``start``, which nearly is one."""
    solution = start
    for _ in range(2):  # the second step takes away what rounding left of the first
        solution = solution + _correction(rows, right - rows @ solution)
    return solution


def _correction(rows: FloatArray, missing: FloatArray) -> FloatArray:
    """Return the smallest ``x`` with ``rows @ x = missing``.

    For a square system the only solution is found fast.
    """
    smallest = np.full(rows.shape[1], np.inf)
    if rows.shape[0] == rows.shape[1]:
        with contextlib.suppress(np.linalg.LinAlgError):
            smallest[:] = np.linalg.solve(rows, missing)
    if np.abs(smallest).max() > NEARBY:
        smallest[:] = np.linalg.lstsq(rows, missing, rcond=1e-13)[0]
    return smallest
