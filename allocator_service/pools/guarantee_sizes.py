"""Guarantees of more whole tasks than decisions divide, which a change cannot set."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from allocator_service.core.errors import Unacceptable
from allocator_service.pools.limits import Limit
from allocator_service.pools.models import Pool

# Below this many tasks no decision refuses a guarantee.
MOST_TASKS = 5_000_000
# Instants at which one change is computed: each takes seconds.
MOST_INSTANTS = 3
SizeRule = Callable[[Pool, datetime], str]
_size_rules: list[SizeRule] = []


def register_size_rule(rule: SizeRule) -> None:
    """Register the function that returns why the locked pool cannot be decided at an instant.

    The function returns an empty text if its guarantees are of as many tasks as decisions divide.
    """
    _size_rules[:] = [rule]  # replaced, because apps can be set up twice in one process


def rows_at(pointer: str, limits: Sequence[Limit] | None) -> list[tuple[str, Limit]]:
    """Return the rows of a list of a request, each with its pointer."""
    return [(f"{pointer}/{index}", limit) for index, limit in enumerate(limits or ())]


def refuse_large_guarantees(
    pool: Pool, guarantees: Iterable[tuple[str, Limit]], *, now: datetime
) -> None:
    """Raise `Unacceptable` for guarantees of more whole tasks than decisions of the pool divide.

    Each guarantee has its pointer in the request. It is called in the transaction of a change, after
    it: what it refuses is undone.
    """
    rows = [row for row in guarantees if row[1].end is None or row[1].end > now]
    if not rows or pool.policy_mode != "indivisible":
        return
    smallest = _smallest_demands(pool)
    # Only then a decision is computed while the pool is locked.
    large = [row for row in rows if _most_tasks(row[1], smallest) > MOST_TASKS]
    known: set[datetime] = set()
    for pointer, limit in large:
        at = max(now, limit.start or now)
        if at in known or len(known) >= MOST_INSTANTS:
            continue
        known.add(at)
        for rule in _size_rules:
            if reason := rule(pool, at):
                raise Unacceptable(reason, code="problem.too_large", pointer=pointer)


def _smallest_demands(pool: Pool) -> dict[str, Decimal]:
    """Return the least demand above 0 of an active workload, by resource."""
    names = pool.resource_types.order_by("position").values_list("name", flat=True)
    active = pool.workloads.filter(state="active").order_by()
    vectors = list(active.values_list("demand", flat=True).distinct())
    found = {}
    for position, name in enumerate(names):
        # Demands from before a resource was added are shorter.
        amounts = [vector[position] for vector in vectors if position < len(vector)]
        above = [amount for amount in amounts if amount > 0]
        if above:
            found[name] = min(above)
    return found


def _most_tasks(limit: Limit, smallest: dict[str, Decimal]) -> Decimal:
    """Return a number of tasks that a guarantee is not above. Each demands a named resource."""
    parts = (amount / smallest[name] for name, amount in limit.amount.items() if name in smallest)
    return sum(parts, Decimal(0))
