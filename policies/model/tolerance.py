"""The one stated tolerance for discrete decisions (policies §1.5).

Two numbers that are equal in rational arithmetic differ by a few units in the last place
after a handful of floating-point operations; a relative 1e-9 is far above that and far
below any quantity that means something (quantities have 12 fractional digits at most).
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray

DISCRETE_TOLERANCE = 1e-9


def whole_part(amount: FloatArray) -> FloatArray:
    """Floor of each amount, where one that is a whole number but for rounding is that."""
    nearest = np.round(amount)
    close = np.abs(amount - nearest) <= DISCRETE_TOLERANCE * np.maximum(1.0, np.abs(nearest))
    whole: FloatArray = np.where(close, nearest, np.floor(amount))
    return whole
