"""Array types, and functions of arrays that all modules use."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
TextArray = npt.NDArray[np.object_]

Scalar = TypeVar("Scalar", bound=np.generic)


def read_only(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def grouped_sum(values: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """Return the sums (groups,) of ``values`` (n,) by ``group`` (n,)."""
    return np.bincount(group, weights=values, minlength=groups).astype(np.float64, copy=False)


def rows_as_bytes(table: npt.NDArray[np.uint8]) -> list[bytes]:
    """Return each row of a table (n, w) of at least one column, to be compared and hashed."""
    rows: list[bytes] = np.ascontiguousarray(table).view(f"V{table.shape[1]}").ravel().tolist()
    return rows
