"""Jain's index of fairness.

Source: Jain, Chiu, Hawe, "A quantitative measure of fairness and discrimination", 1984.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def jain_index(shares: npt.ArrayLike) -> float | None:
    """``(sum x)² / (n · sum x²)``: 1 where all are equal, 1 / n where one has everything.

    Args:
        shares: (n,) weighted shares, at least 0; those that are NaN do not count.

    Returns:
        The index, or None without any share above 0.
    """
    given = np.asarray(shares, dtype=np.float64)
    counted = given[~np.isnan(given)]
    largest = float(counted.max(initial=0.0))
    if not 0.0 < largest < math.inf:
        return None
    scaled = np.ldexp(counted, -math.frexp(largest)[1])  # exact, and its squares are finite
    return float(scaled.sum()) ** 2 / (len(scaled) * float((scaled**2).sum()))
