"""How inner loops are compiled: once, and kept on disk beside the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays and numbers; sums may be reordered to vectorise.

    The order is fixed when compiling, so the same input gives the same bits.
    """
    kernel: Callable[..., Any] = njit(cache=True, fastmath={"reassoc", "contract", "nsz"})(function)
    return kernel
