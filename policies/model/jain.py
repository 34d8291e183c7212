"""Jain's index of fairness.

Source: Jain, Chiu, Hawe, "A quantitative measure of fairness and discrimination", 1984.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def jain_index(shares: npt.ArrayLike) -> float | None:
    """Return Jain's index ``(sum x)² / (n · sum x²)``.

    It is 1 where all are equal and 1 / n where one has everything.

    Parameters
    ----------
    shares : (n,) array_like
        Weighted shares, at least 0; NaN entries do not count.

    Returns
    -------
    float or None
        The index; None without any share above 0.

    References
    ----------
    Jain, Chiu, Hawe, "A quantitative measure of fairness and discrimination", 1984.

    Examples
    --------
    >>> from policies import jain_index
    >>> jain_index([1, 1]), jain_index([1, 0])
    (1.0, 0.5)
    """
    given = np.asarray(shares, dtype=np.float64)
    counted = given[~np.isnan(given)]
    largest = float(counted.max(initial=0.0))
    if not 0.0 < largest < math.inf:
        return None
    scaled = np.ldexp(counted, -math.frexp(largest)[1])  # exact, and its squares are finite
    return float(scaled.sum()) ** 2 / (len(scaled) * float((scaled**2).sum()))
