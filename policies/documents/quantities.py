"""Amounts by the names of resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def quantities(resources: Sequence[str], amounts: Any) -> dict[str, float]:
    """An object keyed by resource names."""
    return dict(zip(resources, np.asarray(amounts).tolist(), strict=True))
