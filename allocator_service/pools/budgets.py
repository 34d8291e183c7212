"""Budgets that bind, as this app and decisions see them.

Budgets and what was spent of them are kept by the app of money, which registers itself here because
the layers below must not import it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol

from allocator_service.core.display import exact_text, instant_text
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.models import Group, Pool


class Then(StrEnum):
    """The effect of an exhausted budget on everything below its node, until its period ends."""

    NOTIFY = ""
    LAST = "last"
    STOP = "stop"


@dataclass(frozen=True)
class BudgetState:
    """A budget that binds, in its present period.

    Attributes:
        scope: `tenant` or `group`, the kind of the node.
        node: slug of the node.
        amount: resource-hours of a period, including what was carried over.
        spent: resource-hours that the ledger has of the period.
        left: what the ledger leaves of the amount, in resource-seconds. Not above 0: exhausted.
        opens_at: end of the period.
    """

    budget: str
    scope: str
    node: str
    resource: str
    then: Then
    amount: Decimal
    spent: Decimal
    left: Decimal
    opens_at: datetime

    @property
    def is_exhausted(self) -> bool:
        return self.left <= 0

    @property
    def stored(self) -> dict[str, Any]:
        """The budget as a run stores it, in JSON."""
        return {
            "budget": self.budget,
            "scope": self.scope,
            "node": self.node,
            "resource": self.resource,
            "then": self.then.value,
            "amount": decimal_text(self.amount),
            "spent": decimal_text(self.spent),
            "opens_at": self.opens_at.isoformat(),
        }


@dataclass(frozen=True)
class MonthlyStops:
    """Hours that nodes may use in the present calendar month, for schedulers that count by themselves.

    Attributes:
        resources: those that the pool has or had monthly budgets of. A node without hours of one of
        them has no budget that stops it.
        hours: by scope, slug and resource, including what was carried over.
    """

    resources: frozenset[str] = frozenset()
    hours: Mapping[tuple[str, str, str], Decimal] = field(default_factory=dict)


class BudgetSource(Protocol):
    """Interface to the budgets that bind, for the layers below the app of money."""

    def pools(self) -> list[int]:
        """Return the keys of the pools that have such budgets."""

    def states(self, pool: Pool, at: datetime) -> list[BudgetState]:
        """Return the states of the budgets whose period contains an instant."""

    def next_start(self, pool: Pool, after: datetime) -> datetime | None:
        """Return the first instant later than `after` at which a budget has its first period."""

    def monthly_stops(self, pool: Pool, at: datetime) -> MonthlyStops:
        """Return what nodes may use in the present month before a budget stops them."""

    def stops(self, pool: Pool, ending_after: datetime | None) -> int:
        """Return the number of budgets that may become limits of 0."""

    def retire(self, group: Group, now: datetime) -> None:
        """Retire the budgets of a group that is retired."""


_sources: list[BudgetSource] = []


def register_budgets(source: BudgetSource) -> None:
    """Register the source of budgets. A second call replaces the first."""
    # Replaced, because apps can be set up twice in one process.
    _sources[:] = [source]


def pools_with_budgets() -> list[int]:
    """Return the keys of the pools that have budgets that bind."""
    return [pool for source in _sources for pool in source.pools()]


def budget_states(pool: Pool, *, at: datetime) -> list[BudgetState]:
    """Return the states of the pool's binding budgets whose period contains an instant."""
    return [state for source in _sources for state in source.states(pool, at)]


def next_start_of_budgets(pool: Pool, *, after: datetime) -> datetime | None:
    """Return the first instant later than `after` at which a budget has its first period."""
    found = (source.next_start(pool, after) for source in _sources)
    return min((start for start in found if start is not None), default=None)


def stops_of(pool: Pool, *, ending_after: datetime | None = None) -> int:
    """Return how many limits of 0 the pool's budgets may become, or those with a later end."""
    return sum(source.stops(pool, ending_after) for source in _sources)


def monthly_stops(pool: Pool, *, at: datetime) -> MonthlyStops:
    """Return what nodes of a pool may use in the present month before a budget stops them."""
    found = [source.monthly_stops(pool, at) for source in _sources]
    return found[0] if found else MonthlyStops()


def budgets_retire(*, group: Group, now: datetime) -> None:
    """Retire the budgets of a group that is retired."""
    for source in _sources:
        source.retire(group, now)


def opening_of(stored: Mapping[str, Any]) -> datetime:
    """Return the instant at which a budget that a run stores opens again."""
    return datetime.fromisoformat(stored["opens_at"])


def node_text(scope: str, slug: str) -> str:
    """Return a node with a budget as people read it, such as group ml."""
    return f"group {slug}" if scope == "group" else slug


def effect_text(then: str, resource: str) -> str:
    """Return the effect of an exhausted budget on its node, as the end of a sentence."""
    if then == Then.STOP:
        return f"it gets no {resource}"
    if then == Then.LAST:
        return "it is served after everybody else"
    return "events are recorded and decisions stay as they are"


def exhausted_sentence(stored: Mapping[str, Any], timezone: str) -> str:
    """Return what an exhausted budget that a run stores does, and when it opens again."""
    resource, amount = stored["resource"], exact_text(Decimal(stored["amount"]))
    whose = node_text(stored["scope"], stored["node"])
    until = instant_text(opening_of(stored), timezone)
    return (
        f"The budget of {whose}, {amount} hours of {resource}, is exhausted:"
        f" {effect_text(stored['then'], resource)} until {until}."
    )


def stop_text(stored: Mapping[str, Any], timezone: str) -> str:
    """Return the budget behind a limit of 0, such as that 4,010 of 4,000 hours of gpu are spent.

    Without `spent`, as runs of earlier releases store it, the text has the amount alone.
    """
    amount, spent = Decimal(stored["amount"]), stored.get("spent")
    until = instant_text(opening_of(stored), timezone)
    # To hundredths, or to the last digit of an amount that has more.
    places = max(2, len(decimal_text(amount).partition(".")[2]))
    part = "" if spent is None else f"{exact_text(round(Decimal(spent), places))} of "
    return f"{part}{exact_text(amount)} hours of {stored['resource']} are spent until {until}"


def spent_text(stored: Mapping[str, Any], timezone: str) -> str:
    """Return an exhausted budget that a run stores, for the place of a limit in a sentence."""
    until = instant_text(opening_of(stored), timezone)
    return (
        f"the budget of {node_text(stored['scope'], stored['node'])}, which is spent until {until}"
    )
