"""Amounts in moving intervals, from changes of rates that come in any order.

An entry raises a tenant's rate by its quantity at its start and lowers it at its end. Amounts are
whole numbers of 10^-12 units × microseconds, so that nothing is rounded. Decaying amounts are
doubles.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from math import log
from typing import Protocol

from allocator_service.core.quantities import FRACTIONAL_DIGITS
from allocator_service.ledger.amounts.totals import EPOCH
from allocator_service.pools.windows import Past

MICROSECOND = timedelta(microseconds=1)
UNITS = 10**FRACTIONAL_DIGITS
SECOND = 10**6

# The error of doubles, relative to the sum of all changes of a rate.
_NOISE = 1e-12

Key = tuple[int, str, str]
"""A tenant's primary key, the name of a resource, a kind."""


@dataclass(frozen=True)
class Amount:
    """Resource × seconds as the nearest double, with a bound of its error, which is 0 if exact."""

    value: float
    noise: float


@dataclass(frozen=True)
class CountedEntry:
    """An entry in whole numbers of 10^-12 units and microseconds since 1970."""

    key: Key
    quantity: int
    start: int
    end: int


class MovingWindow(Protocol):
    """A moving interval, which accepts changes of rates at any instant."""

    def change(self, key: Key, instant: int, rate: int) -> None:
        """Count the change of a rate at a past or future instant."""

    def advance(self, past: Past) -> None:
        """Move the interval forward."""

    def sums(self, more: Iterable[CountedEntry]) -> dict[Key, Amount]:
        """Return the amounts in the window, with further entries that count in this call only."""


class ExactWindow:
    """A window without decay, as the amount before its end less that before its start."""

    def __init__(self, since: datetime | None) -> None:
        self._until = _Before()
        self._since = None if since is None else _Before()

    def add(self, key: Key, rate: int, moment: int) -> None:
        """Count changes of a rate before the window."""
        for edge in self._edges():
            edge.add(key, rate, moment)

    def change(self, key: Key, instant: int, rate: int) -> None:
        for edge in self._edges():
            edge.change(key, instant, rate)

    def advance(self, past: Past) -> None:
        self._until.advance(microseconds(past.until))
        if self._since is not None and past.since is not None:
            self._since.advance(microseconds(past.since))

    def sums(self, more: Iterable[CountedEntry]) -> dict[Key, Amount]:
        found = self._until.sums()
        if self._since is not None:
            for key, amount in self._since.sums().items():
                found[key] -= amount
        floor = -1 if self._since is None else self._since.at
        for entry in more:
            inside = min(entry.end, self._until.at) - max(entry.start, floor)
            found[entry.key] += entry.quantity * max(inside, 0)
        scale = UNITS * SECOND
        return {key: Amount(amount / scale, 0.0) for key, amount in found.items() if amount}

    def _edges(self) -> Iterator["_Before"]:
        yield self._until
        if self._since is not None:
            yield self._since


class _Before:
    """The amounts before an instant that moves forward."""

    def __init__(self) -> None:
        self.at = -1
        self._rate: dict[Key, int] = defaultdict(int)
        self._moment: dict[Key, int] = defaultdict(int)
        self._ahead: dict[int, list[tuple[Key, int]]] = {}
        self._instants: list[int] = []

    def add(self, key: Key, rate: int, moment: int) -> None:
        self._rate[key] += rate
        self._moment[key] += moment

    def change(self, key: Key, instant: int, rate: int) -> None:
        if instant <= self.at:
            self.add(key, rate, rate * instant)
        elif instant in self._ahead:
            self._ahead[instant].append((key, rate))
        else:
            self._ahead[instant] = [(key, rate)]
            heappush(self._instants, instant)

    def advance(self, at: int) -> None:
        self.at = at
        while self._instants and self._instants[0] <= at:
            instant = heappop(self._instants)
            for key, rate in self._ahead.pop(instant):
                self.add(key, rate, rate * instant)

    def sums(self) -> dict[Key, int]:
        found: dict[Key, int] = defaultdict(int)
        for key, rate in self._rate.items():
            found[key] = self.at * rate - self._moment[key]
        return found


class DecayingWindow:
    """A window with decay, in which an amount is halved per half-life that has passed.

    A rate counts (1 - weight of its change) / (ln 2 / half-life) since its change.
    """

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._at = 0
        self._sums: dict[Key, _Decayed] = defaultdict(_Decayed)
        self._changes: list[tuple[int, Key, int]] = []

    def change(self, key: Key, instant: int, rate: int) -> None:
        if instant <= self._at:
            self._sums[key].add(rate, self._weight(self._at - instant))
        else:
            heappush(self._changes, (instant, key, rate))

    def advance(self, past: Past) -> None:
        at = microseconds(past.until)
        faded = self._weight(at - self._at)
        self._at = at
        for decayed in self._sums.values():
            decayed.left *= faded
        while self._changes and self._changes[0][0] <= at:
            instant, key, rate = heappop(self._changes)
            self._sums[key].add(rate, self._weight(at - instant))

    def sums(self, more: Iterable[CountedEntry]) -> dict[Key, Amount]:
        found = defaultdict(_Decayed, {key: copy(each) for key, each in self._sums.items()})
        for entry in more:
            for instant, rate in ((entry.start, entry.quantity), (entry.end, -entry.quantity)):
                if instant <= self._at:
                    found[entry.key].add(rate, self._weight(self._at - instant))
        scale = self._half_life / log(2)
        return {
            key: Amount(
                scale * (each.rate / UNITS - each.left), _NOISE * scale * each.volume / UNITS
            )
            for key, each in found.items()
        }

    def _weight(self, age: int) -> float:
        half_lives = age / SECOND / self._half_life
        return 0.0 if half_lives > 400 else float(2.0**-half_lives)


@dataclass
class _Decayed:
    """The sums of changes of a rate, plain, weighted and absolute."""

    rate: int = 0
    left: float = 0.0
    volume: int = 0

    def add(self, rate: int, weight: float) -> None:
        self.rate += rate
        self.left += rate / UNITS * weight
        self.volume += abs(rate)


def microseconds(instant: datetime) -> int:
    """Return the microseconds since 1970."""
    return (instant - EPOCH) // MICROSECOND
