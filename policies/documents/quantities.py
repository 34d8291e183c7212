"""Amounts by the names of resources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def quantities(resources: Sequence[str], amounts: Any) -> dict[str, float]:
    """Return an object of amounts keyed by resource names."""
    return dict(zip(resources, np.asarray(amounts).tolist(), strict=True))


def number_or_none(value: float) -> float | None:
    """Return a finite number, None for others."""
    return float(value) if math.isfinite(value) else None
