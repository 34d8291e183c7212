"""Budgets in fractions: periods by the calendar, use entry by entry, and what was carried over."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

HOUR = 3600
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class PlainBudget:
    """A budget in hours per `month`, per `week`, or once within `[start, end)`."""

    node: str
    hours: Fraction
    per: str
    then: str = ""
    carry: Fraction = Fraction(0)
    start: datetime | None = None
    end: datetime | None = None

    def period(self, at, zone):
        """The period (start, end) around an instant, or None."""
        if self.per == "once":
            return (self.start, self.end) if self.start <= at < self.end else None
        today = at.astimezone(zone).date()
        if self.per == "week":
            first = today - timedelta(days=today.weekday())
            last = first + timedelta(days=7)
        else:
            first = today.replace(day=1)
            last = date(today.year + today.month // 12, today.month % 12 + 1, 1)
        return tuple(
            datetime.combine(day, time(), zone).astimezone(at.tzinfo) for day in (first, last)
        )


@dataclass(frozen=True)
class PlainBalance:
    """Resource-seconds of a budget in a period."""

    start: datetime
    end: datetime
    spent: Fraction
    carried: Fraction
    left: Fraction

    @property
    def is_exhausted(self):
        return self.left <= 0


class PlainSpending:
    """What the nodes of budgets have used in their periods.

    Args:
        created: the instant at which all budgets were; above: the nodes above each node, by slug.
    """

    def __init__(self, budgets, zone, created, above):
        self.budgets, self._zone, self._created = budgets, ZoneInfo(zone), created
        self._above = above
        self._places = {}
        self._spent = {}

    def place(self, tenant, node, at):
        """Put a tenant directly below a node from an instant on. At first, it was there ever since."""
        self._places.setdefault(tenant, []).append((at, node))

    def is_below(self, node, tenant, start, end):
        """Whether a tenant is below a node at any instant of an interval."""
        return bool(self._stays(node, tenant, start, end))

    def _stays(self, node, tenant, start, end):
        """The parts of an interval in which a tenant is below a node, or is the node."""
        places = self._places[tenant]
        found = []
        for number, (since, place) in enumerate(places):
            first = start if number == 0 else max(start, since)
            last = min(end, places[number + 1][0]) if number + 1 < len(places) else end
            if first < last and node in (tenant, place, *self._above.get(place, ())):
                found.append((first, last))
        return found

    def add(self, tenant, start, end, quantity):
        """Add an entry of use, or the difference that a correction makes of it."""
        for budget in self.budgets:
            for first, last in self._stays(budget.node, tenant, start, end):
                while first < last:
                    period = budget.period(first, self._zone)
                    until = last if period is None else min(last, period[1])
                    if period is None and first < budget.start < last:
                        until = budget.start
                    if period is not None:
                        key = budget, period[0]
                        more = quantity * Fraction((until - first) / timedelta.resolution) / 10**6
                        self._spent[key] = self._spent.get(key, 0) + more
                    first = until

    def balance(self, budget, at):
        """The balance in the period around an instant, None outside all periods."""
        period = budget.period(at, self._zone)
        if period is None:
            return None
        start, end = period
        amount, carried = budget.hours * HOUR, Fraction(0)
        if budget.carry and self._created < start:
            before, _ = budget.period(start - SECOND, self._zone)
            unused = amount - self._spent.get((budget, before), 0)
            carried = max(min(unused, budget.carry * amount), Fraction(0))
        spent = Fraction(self._spent.get((budget, start), 0))
        return PlainBalance(start, end, spent, carried, amount + carried - spent)

    def exhausted(self, at):
        """The budgets that are exhausted at an instant, with the ends of their periods."""
        found = ((budget, self.balance(budget, at)) for budget in self.budgets)
        return {(budget, each.end) for budget, each in found if each and each.is_exhausted}
