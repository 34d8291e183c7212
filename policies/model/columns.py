"""Arrays of a problem from the arguments of callers, with defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.arrays import FloatArray
from policies.errors import ProblemError
from policies.model.problem_fields import Selector


def table_of(values: npt.ArrayLike, columns: int, what: str, pointer: str) -> FloatArray:
    """Return a table with a row each and one column per resource."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ProblemError("problem.shape", f"{what} is not a table of numbers", pointer) from error
    if array.size == 0:
        return array.reshape(len(array) if array.ndim == 2 else 0, columns)
    if array.ndim != 2 or array.shape[1] != columns:
        raise ProblemError(
            "problem.shape",
            f"{what} has shape {array.shape}; it needs one row each and {columns} columns, "
            "one per resource",
            pointer,
        )
    return array


def column_of(
    values: npt.ArrayLike | None, default: object, kind: Any, rows: int, what: str, pointer: str
) -> npt.NDArray[Any]:
    """Return one value per row, the default where nothing is given."""
    if values is None:
        return np.full(rows, default, dtype=kind)
    try:
        array = np.array(values)
        if kind is np.int64 and array.dtype.kind == "f" and not (array == np.round(array)).all():
            raise ValueError("fractions")  # noqa: TRY301 - same message as numbers that do not parse
        column = array.astype(kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProblemError(
            "problem.shape", f"{what} does not hold {np.dtype(kind).name} values", pointer
        ) from error
    if column.shape != (rows,):
        raise ProblemError(
            "problem.shape", f"{what} has shape {column.shape}; it needs ({rows},)", pointer
        )
    return column


def names_of(names: Sequence[str] | None, kind: str, count: int) -> tuple[str, ...]:
    """Return names, numbered by position where none are given."""
    if names is None:
        width = max(4, len(str(count)))
        return tuple(f"{kind}-{i:0{width}d}" for i in range(1, count + 1))
    return tuple(names)


def selector_of(selector: Mapping[str, str | Iterable[str]]) -> Selector:
    """Return a selector with its values sorted and unique."""
    return {
        label: (values,) if isinstance(values, str) else tuple(sorted(set(values)))
        for label, values in selector.items()
    }
