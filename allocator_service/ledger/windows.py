"""The exact use, and use alone, per tenant and resource in a pool's window.

They are read from changes of rates (`ledger.amounts`), unsealed entries and open uses included, so
that the work grows neither with the ledger nor with the window. A decaying window is read in the same
way, with a weight for each change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from uuid import UUID

from django.db import connection

from allocator_service.core.planning import indexes_only
from allocator_service.ledger.amounts.decayed import decayed_amounts
from allocator_service.ledger.amounts.intervals import Use
from allocator_service.ledger.amounts.rate_changes import amounts_between
from allocator_service.ledger.lookups import entry_lookup
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Pool
from allocator_service.pools.windows import Past, past_of

Key = tuple[int, str]
"""A tenant's primary key and the name of a resource."""


@dataclass(frozen=True)
class WindowState:
    """Resource × seconds within a window. A missing key has none.

    Attributes:
        used, alone: exact, except in decaying windows, whose amounts are rounded to doubles.
    """

    past: Past
    used: Mapping[Key, Decimal]
    alone: Mapping[Key, Decimal]

    @cached_property
    def sharing_degrees(self) -> Mapping[int, float]:
        """β by tenant, the least of used ÷ alone over resources. Tenants without `alone` are omitted."""
        degrees: dict[int, float] = {}
        for key, alone in self.alone.items():
            # Without use alone there is nothing to compare with, and the ratio is undefined.
            if alone > 0:
                degree = float(self.used.get(key, Decimal(0)) / alone)
                degrees[key[0]] = min(degree, degrees.get(key[0], degree))
        return degrees


@dataclass(frozen=True)
class Known:
    """The entries of a pool that existed at an instant, in a form that identifies them later.

    Attributes:
        sealed_through: the last number of the sealed ones.
        unsealed: the ids of those without a number.
        metered_until: through when decisions were metered. Uses that were open then are known as far,
        whenever they became entries. None where no use was open.
    """

    sealed_through: int
    unsealed: Sequence[UUID]
    metered_until: datetime | None = None


_KNOWN = """
SELECT (SELECT COALESCE(max(sequence), 0) FROM ledger_seal WHERE pool_id = %(pool)s),
       ARRAY(SELECT p.entry_id FROM ledger_pending p, {entry} AS e
             WHERE e.pool_id = %(pool)s ORDER BY 1),
       (SELECT metered_until FROM pool_meter WHERE pool_id = %(pool)s)
""".replace("{entry}", entry_lookup("p.entry_id", "p.start"))


def known_entries(pool: Pool) -> Known:
    """Return the entries in the snapshot of this statement."""
    with indexes_only(), connection.cursor() as cursor:
        cursor.execute(_KNOWN, {"pool": pool.pk})
        sealed_through, unsealed, metered_until = cursor.fetchall()[0]
    return Known(sealed_through, unsealed, metered_until)


def window_state(pool: Pool, at: datetime, step_end: datetime | None = None) -> WindowState:
    """Return the state of the pool's window at an instant, for a decision until `step_end` if given."""
    return amounts_in(pool, past_of(pool, at, step_end))


def amounts_in(pool: Pool, past: Past) -> WindowState:
    """Return the use, and the use alone, of tenants in an interval."""
    if past.half_life is not None:
        amounts: Iterable[tuple[Use, Decimal]] = decayed_amounts(pool, past.until, past.half_life)
    elif past.since is None:
        # The window has no start, as under a policy that remembers all.
        amounts = amounts_between(pool=pool, edges=[past.until], unsealed=True).before()
    elif past.since < past.until:
        edges = [past.since, past.until]
        within = amounts_between(pool=pool, edges=edges, unsealed=True)
        amounts = ((use, amount) for use, _, amount in within.all_intervals())
    else:
        amounts = ()
    by_kind: dict[str, dict[Key, Decimal]] = {Kind.USAGE: {}, Kind.ALONE: {}}
    for use, amount in amounts:
        by_kind[use.kind][use.tenant, use.resource] = amount
    return WindowState(past, by_kind[Kind.USAGE], by_kind[Kind.ALONE])
