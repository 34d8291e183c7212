"""Places of a problem's servers, to which an answer's placements and prices refer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Places:
    """Places to which an answer's placements and its certificate's prices refer.

    Attributes:
        row: (K,) a row of the servers of each place; servers: (K,) how many there are.
        offset: (K,) where in the row they begin; None where places are whole rows.
        place_of_row: (k,) place of each row, the first of several; -1 for rows that offer nothing.
        allowed: (q, K) True if a piece of each kind, or a part of a task, may run there.
        capacity: (K, m) of all servers of the place, as shares of the pool.
    """

    row: IntArray
    servers: IntArray
    offset: IntArray | None
    place_of_row: IntArray
    allowed: BoolArray
    capacity: FloatArray

    @property
    def count(self) -> int:
        """Number of places."""
        return len(self.row)


def rows_of_selectors(problem: Problem) -> tuple[IntArray, BoolArray]:
    """Return (n,) which selector a workload has, and (selectors, k) the rows that each one allows."""
    number: dict[frozenset[tuple[str, frozenset[str]]], int] = {}
    written: dict[tuple[tuple[str, tuple[str, ...]], ...], int] = {}
    # Many workloads have one and the same selector, which is looked at once.
    same: dict[int, int] = {}
    for selector in problem.selectors:
        if id(selector) in same:
            continue
        text = tuple((label, tuple(values)) for label, values in selector.items())
        if text not in written:
            # The order of labels and of their values means nothing.
            key = frozenset((label, frozenset(values)) for label, values in text)
            written[text] = number.setdefault(key, len(number))
        same[id(selector)] = written[text]
    which = [same[id(selector)] for selector in problem.selectors]
    table = np.ones((len(number), problem.k), dtype=np.bool_)
    for key, position in number.items():
        for label, values in key:
            having = [row.get(label) in values for row in problem.server_labels]
            table[position] &= np.array(having, dtype=np.bool_)
    return np.array(which, dtype=np.int64), table


def ranges_of(
    problem: Problem, offering: IntArray, sizes: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray] | None:
    """Return the ranges into which sizes (K,) cut the rows that offer something.

    Returns:
        (K,) row, servers and offset of each range, and (k,) the first range of each row; None unless the
        sizes cut every row into whole ranges.
    """
    offering = offering[problem.server_count[offering] > 0]
    counts = problem.server_count[offering]
    # Sizes of an answer are not trusted: sums of larger ones could overflow.
    if (sizes <= 0).any() or sizes.max(initial=0) > counts.max(initial=0):
        return None
    # Servers before each range, and before each row, where a range must begin.
    before, rows_begin = np.cumsum(sizes) - sizes, np.cumsum(counts) - counts
    if sizes.sum() != counts.sum():
        return None
    first = np.searchsorted(before, rows_begin)
    if not np.array_equal(before[np.minimum(first, len(before) - 1)], rows_begin):
        return None
    of_range = np.searchsorted(rows_begin, before, side="right") - 1
    place_of_row = np.full(problem.k, -1, dtype=np.int64)
    place_of_row[offering] = first
    return offering[of_range], sizes, before - rows_begin[of_range], place_of_row
