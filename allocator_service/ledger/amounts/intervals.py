"""Exact amounts in intervals, computed from changes of rates on request."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Context, Decimal
from functools import cached_property
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from allocator_service.core.quantities import EXACT_DIGITS
from allocator_service.ledger.amounts.totals import EPOCH

_EXACT = Context(prec=EXACT_DIGITS)
_MICROSECOND = timedelta(microseconds=1)
_NOTHING = Decimal(0)

K = TypeVar("K")
L = TypeVar("L")


class Use(NamedTuple):
    """The key of a rate of use. `owner` is None for the pool's servers and in sums over all owners."""

    owner: int | None
    tenant: int
    kind: str
    resource: str


class Change(NamedTuple):
    """The sum of changes of a rate, and the sum of change × seconds since 1970."""

    rate: Decimal
    moment: Decimal


@dataclass(frozen=True)
class Amounts(Generic[K]):
    """Resource × seconds between edges, exact and computed on request.

    Attributes:
        edges: ascending; interval 0 lies between the first and the second. changes: by key and
        edge, the changes since the edge before; those of edge 0 are all before it.
    """

    edges: Sequence[datetime]
    changes: Mapping[K, Mapping[int, Change]]

    def intervals(self, key: K) -> Iterator[tuple[int, Decimal]]:
        """Yield the intervals of a key whose amount is not 0, with the amount."""
        changes = self.changes[key]
        rate = changes[0].rate if 0 in changes else _NOTHING
        # No rate at the first edge, and no change after it.
        if not rate and changes.keys() <= {0}:
            return
        for interval, length in enumerate(self._lengths):
            amount = _EXACT.multiply(rate, length)
            change = changes.get(interval + 1)
            if change is not None:
                # Changes within the interval count from their instants to its end.
                amount = _EXACT.add(amount, self._since(interval + 1, change))
                rate = _EXACT.add(rate, change.rate)
            if amount:
                yield interval, amount

    def all_intervals(self) -> Iterator[tuple[K, int, Decimal]]:
        """Yield the intervals of all keys whose amount is not 0."""
        for key in self.changes:
            for interval, amount in self.intervals(key):
                yield key, interval, amount

    def before(self) -> Iterator[tuple[K, Decimal]]:
        """Yield the amounts before the first edge."""
        for key, changes in self.changes.items():
            amount = self._since(0, changes[0]) if 0 in changes else _NOTHING
            if amount:
                yield key, amount

    @cached_property
    def present(self) -> Sequence[K]:
        """The keys with an amount in any interval."""
        return [key for key in self.changes if next(self.intervals(key), None) is not None]

    def by(self, name: Callable[[K], L]) -> "Amounts[L]":
        """Return the sums of the keys by a name of each."""
        sums: dict[L, dict[int, Change]] = {}
        for key, changes in self.changes.items():
            of_name = sums.setdefault(name(key), {})
            for edge, change in changes.items():
                known = of_name.get(edge)
                of_name[edge] = change if known is None else Change(
                    _EXACT.add(known.rate, change.rate), _EXACT.add(known.moment, change.moment)
                )  # fmt: skip
        return Amounts(self.edges, sums)

    def of(self, includes: Callable[[K], bool]) -> "Amounts[K]":
        """Return the amounts of the keys that a predicate includes."""
        kept = {key: changes for key, changes in self.changes.items() if includes(key)}
        return Amounts(self.edges, kept)

    @cached_property
    def _instants(self) -> Sequence[Decimal]:
        return [_seconds(edge - EPOCH) for edge in self.edges]

    @cached_property
    def _lengths(self) -> Sequence[Decimal]:
        return [_seconds(end - start) for start, end in pairwise(self.edges)]

    def _since(self, edge: int, change: Change) -> Decimal:
        """Return the amount at an edge of the changes before it."""
        # Σ rate · (t - instant) = t · Σ rate - Σ rate · instant.
        return _EXACT.subtract(_EXACT.multiply(self._instants[edge], change.rate), change.moment)


def _seconds(time: timedelta) -> Decimal:
    return Decimal(time // _MICROSECOND).scaleb(-6)
