"""Pairs of tenants of which one would rather have had what the other used, over groups of equal ones.

Row i envies column j if the least over the resources of `used[j] · (weight i / weight j) / profile[i]`
is above a bound. That is a comparison of ranks for each resource, in two bytes a pair.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rounding of the quotients, many times over: closer to the bound, they are computed.
_UNSURE = 1e-13
_CHUNK = 128


@dataclass(frozen=True, eq=False)
class Groups:
    """Tenants that are alike, by the numbers in which they are.

    `members` are the positions of each group's tenants in the order of their names.
    """

    numbers: Floats
    members: Sequence[Sequence[int]]

    @property
    def sizes(self) -> Ints:
        """The number of tenants of each group."""
        return np.array([len(each) for each in self.members], np.int64)


def groups_of(numbers: Floats, tenants: Sequence[int]) -> Groups:
    """Return the groups of tenants with equal rows of numbers, the smallest groups first."""
    alike: dict[bytes, list[int]] = {}
    for row, tenant in zip(numbers, tenants, strict=True):
        alike.setdefault(row.tobytes(), []).append(tenant)
    ordered = sorted(alike.items(), key=lambda item: len(item[1]))
    found = [np.frombuffer(row, np.float64) for row, _ in ordered]
    width = numbers.shape[1]
    return Groups(np.array(found).reshape(-1, width), [sorted(each) for _, each in ordered])


class Comparison:
    """Rows that may envy, and columns that may be envied.

    Args:
        rows: groups by weight and profile, what one unit of work takes of each resource.
        columns: groups by weight and what was used of each resource.
        least: quotient above which a row envies a column.
    """

    def __init__(self, rows: Groups, columns: Groups, least: float) -> None:
        self._rows, self._columns, self._least = rows, columns, least
        self._weight, self._profile = rows.numbers[:, 0], rows.numbers[:, 1:]
        weight, used = columns.numbers[:, 0], columns.numbers[:, 1:]
        present = weight > 0
        per_weight = np.full_like(used, -np.inf)
        np.divide(used, weight[:, None], out=per_weight, where=present[:, None])
        self._sorted = np.sort(per_weight, axis=0)
        # The narrowest type: ranks of all pairs are compared, and memory is what limits it.
        dtype = np.uint16 if len(weight) < 2**16 - 1 else np.uint32
        # Ranks from the smallest: as many columns have less.
        self._rank = np.array(
            [np.searchsorted(self._sorted[:, r], per_weight[:, r]) for r in range(used.shape[1])]
        ).astype(dtype)

    def _beyond(self, factor: float | Floats) -> NDArray[np.int64]:
        """Return, by row and resource, the least rank of columns with more than a factor of need."""
        with np.errstate(over="ignore", invalid="ignore"):
            need = self._profile / self._weight[:, None] * factor
        # A resource that a row does not need bounds nothing.
        need[self._profile <= 0] = -np.inf
        found = [
            np.searchsorted(self._sorted[:, r], need[:, r], side="right")
            for r in range(need.shape[1])
        ]
        return np.array(found).T

    def _matrix(self, beyond: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which columns are beyond the ranks of each row."""
        limits = beyond.astype(self._rank.dtype)
        found: NDArray[np.bool_] = self._rank[0] >= limits[:, 0, None]
        for r in range(1, len(self._rank)):
            found &= self._rank[r] >= limits[:, r, None]
        return found

    def quotients(self, rows: Ints, columns: Ints) -> Floats:
        """Return how many times as much each row would have run with the bundle of its column."""
        weight = self._columns.numbers[columns, 0]
        scale = np.divide(self._weight[rows], weight, out=np.zeros(len(rows)), where=weight > 0)
        profile = self._profile[rows]
        needed = profile > 0
        found = np.full(profile.shape, np.inf)
        np.divide(
            self._columns.numbers[columns, 1:] * scale[:, None], profile, out=found, where=needed
        )
        least: Floats = found.min(axis=1)
        return least

    def counts(self) -> Ints:
        """Return the number of tenants that a tenant of each row envies."""
        surely = self._beyond(self._least * (1 + _UNSURE))
        perhaps = self._beyond(self._least * (1 - _UNSURE))
        unsure = (surely != perhaps).any(axis=1)
        sizes = self._columns.sizes
        # The groups ascend in size, so that those of a size are neighbours.
        starts = np.flatnonzero(np.diff(sizes, prepend=0))
        ends = [*starts[1:].tolist(), len(sizes)]
        counts = np.zeros(len(self._profile), np.int64)
        for begin in range(0, len(counts), _CHUNK):
            found = self._matrix(surely[begin : begin + _CHUNK])
            for start, end in zip(starts.tolist(), ends, strict=True):
                each = np.count_nonzero(found[:, start:end], axis=1)
                counts[begin : begin + _CHUNK] += each * sizes[start]
        for row in np.flatnonzero(unsure).tolist():
            columns = np.arange(len(sizes))
            found = self.quotients(np.full(len(sizes), row), columns) > self._least
            counts[row] = int(sizes[found].sum())
        return counts

    def worst(self, counts: Ints, most: int) -> Iterator[tuple[float, int, int]]:
        """Yield the pairs of tenants with the greatest quotients, then by name.

        At least `most` of them, or all; each with its quotient and the positions of both.
        """
        best = np.zeros((0,)), np.zeros(0, np.int64), np.zeros(0, np.int64)
        bar = self._least
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ceiling = self._sorted[-1] * self._weight[:, None] / self._profile
        ceiling[self._profile <= 0] = np.inf
        order = np.flatnonzero(counts > 0)
        # The rows that can have the greatest quotients first, so that the bound rises early.
        order = order[np.argsort(-ceiling[order].min(axis=1), kind="stable")]
        top = ceiling.min(axis=1) * (1 + _UNSURE)
        for begin in range(0, len(order), _CHUNK):
            rows = order[begin : begin + _CHUNK]
            rows = rows[top[rows] >= bar]
            # The rows are in order: no later one reaches the bound.
            if not len(rows):
                break
            found = self._matrix(self._beyond(bar * (1 - _UNSURE))[rows])
            at, columns = np.nonzero(found)
            best = self._best(best, rows[at], columns, most)
            if len(best[0]) and self._pairs(best) >= most:
                bar = max(bar, float(best[0].min()))
        quotient, rows, columns = best
        for value in np.unique(quotient)[::-1].tolist():
            tied = quotient == value
            pairs = [
                pair
                for row, column in zip(rows[tied].tolist(), columns[tied].tolist(), strict=True)
                for pair in islice(
                    product(self._rows.members[row], self._columns.members[column]), most
                )
            ]
            for tenant, other in sorted(pairs)[:most]:
                yield value, tenant, other

    def first(self, counts: Ints, most: int) -> Iterator[tuple[int, int]]:
        """Yield the first pairs of tenants by name, at most `most` for each of as many rows."""
        of_tenant = {
            tenant: row
            for row in np.flatnonzero(counts > 0).tolist()
            for tenant in self._rows.members[row]
        }
        columns = np.arange(len(self._columns.members))
        for tenant in sorted(of_tenant)[:most]:
            found = self.quotients(np.full(len(columns), of_tenant[tenant]), columns) > self._least
            others = [
                other
                for column in columns[found].tolist()
                for other in self._columns.members[column][:most]
            ]
            yield from ((tenant, other) for other in sorted(others)[:most])

    def _pairs(self, best: tuple[Floats, Ints, Ints]) -> int:
        return int((self._rows.sizes[best[1]] * self._columns.sizes[best[2]]).sum())

    def _best(
        self, best: tuple[Floats, Ints, Ints], rows: Ints, columns: Ints, most: int
    ) -> tuple[Floats, Ints, Ints]:
        """Return the best pairs of groups so far and new ones, as many as `most` pairs need.

        Of pairs with one quotient, those with the first names are enough.
        """
        value = self.quotients(rows, columns)
        above = value > self._least
        value = np.concatenate([best[0], value[above]])
        rows = np.concatenate([best[1], rows[above]])
        columns = np.concatenate([best[2], columns[above]])
        if len(value) <= most:
            return value, rows, columns
        first = np.array([each[0] for each in self._rows.members])[rows]
        other = np.array([each[0] for each in self._columns.members])[columns]
        chosen = np.lexsort([other, first, -value])[:most]
        return value[chosen], rows[chosen], columns[chosen]
