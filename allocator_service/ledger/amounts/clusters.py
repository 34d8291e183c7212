"""Amounts by the cluster on which they were used.

The source of a metered entry names the cluster whose servers the decision chose. The cluster of
reported use is that of its source. Otherwise it is the only cluster that the workload selects, or not
known. Entries are read one by one in the database, so
that the work grows with the entries of the period. Only pools with clusters need it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import connection

from allocator_service.core.intervals import intervals_reached, seconds_inside
from allocator_service.core.planning import hashed
from allocator_service.ledger.amounts.open_uses import IS_METERED, OPEN_ENTRIES
from allocator_service.ledger.amounts.totals import COUNTS_AS, EPOCH
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.intake.open_uses import SOURCE
from allocator_service.pools.models import Pool
from allocator_service.pools.windows import Past

DEFINITION = (
    "Use by cluster: metered use is of the cluster whose servers the decision chose, and reported use is"
    " of the cluster of its source. Other use is of the cluster that its workload selects. null: use"
    " whose cluster is not known, because its source has none and its workload does not select exactly"
    " one, or because the policy sees the pool as one server."
)

_ENTRIES = """
SELECT e.tenant_id, e.resource, e.workload_id, CASE WHEN e.run_id IS NULL THEN e.source END AS source,
       CASE WHEN e.run_id IS NOT NULL THEN substring(e.source FROM '^{decisions}/(.*)$') END AS decided,
       e.quantity, e.start, e."end", {counts_as} AS kind
FROM {of} e
WHERE e.pool_id = %(pool)s AND {when}
  AND (%(among)s::bigint[] IS NULL OR e.tenant_id = ANY(%(among)s))
  AND (%(unsealed)s OR {is_metered} OR NOT EXISTS (SELECT FROM ledger_pending p WHERE p.entry_id = e.id))
  AND NOT EXISTS (SELECT FROM ledger_seal later
                  WHERE later.pool_id = %(pool)s AND later.sequence > %(through)s
                    AND later.entry_id = e.id)
"""
_SELECTED = """
CASE jsonb_typeof(w.server_selector -> 'cluster')
    WHEN 'string' THEN w.server_selector ->> 'cluster'
    WHEN 'array' THEN CASE WHEN jsonb_array_length(w.server_selector -> 'cluster') = 1
                           THEN w.server_selector -> 'cluster' ->> 0 END
    END
"""
# Two scans: partitions hold the starts of a month, and few entries reach into the next one.
_SUMS = """
SELECT e.tenant_id, COALESCE(of_source.cluster, e.decided, {selected}), e.resource, interval_number - 1,
       sum(e.quantity * {seconds})
FROM ({within} UNION ALL {reaching} UNION ALL {open}) AS e
LEFT JOIN ledger_usage_source of_source
    ON of_source.pool_id = %(pool)s AND of_source.source = e.source AND of_source.cluster <> ''
LEFT JOIN workload w ON w.id = e.workload_id
CROSS JOIN {intervals}
WHERE e.kind = 'usage'
GROUP BY 1, 2, 3, 4 HAVING sum(e.quantity * {seconds}) <> 0
"""
_PARTS = (
    _SUMS.replace(
        "{within}", _ENTRIES.replace("{when}", "e.start >= %(begin)s AND e.start < %(end)s")
    )
    .replace(
        "{reaching}", _ENTRIES.replace("{when}", 'e.start < %(begin)s AND e."end" > %(begin)s')
    )
    .replace(
        "{open}",
        _ENTRIES.replace("{of}", f"({OPEN_ENTRIES})").replace(
            "{when}", 'e.start < %(end)s AND e."end" > %(begin)s'
        ),
    )
    .replace("{of}", "ledger_entry")
    .replace("{decisions}", SOURCE)
    .replace("{counts_as}", COUNTS_AS)
    .replace("{is_metered}", IS_METERED)
    .replace("{selected}", _SELECTED)
)
_SECONDS = seconds_inside("e.start", 'e."end"')
# Every entry read is in the only interval: a set for each entry would take most of the time.
_ONE_INTERVAL = "(VALUES (1)) AS whole (interval_number)"
_DIVIDED = _PARTS.replace("{seconds}", _SECONDS).replace(
    "{intervals}", intervals_reached("e.start", 'e."end"')
)
_WHOLE = _PARTS.replace("{seconds}", _SECONDS).replace("{intervals}", _ONE_INTERVAL)
# The integral of the weights of an entry's moments, as in `decayed`.
_WEIGHED_SECONDS = """
(ledger_weight(extract(epoch FROM %(end)s - least(e."end", %(end)s)), %(half_life)s::float8)
 - ledger_weight(extract(epoch FROM %(end)s - e.start), %(half_life)s::float8))
* %(half_life)s::float8 / ln(2::float8)"""
_DECAYED = _PARTS.replace("{seconds}", _WEIGHED_SECONDS).replace("{intervals}", _ONE_INTERVAL)

_LAST_SEQUENCE = 2**63 - 1


class ClusterUse(NamedTuple):
    """Unit × seconds that a tenant used of a cluster in an interval, None for an unknown cluster."""

    tenant: int
    cluster: str | None
    resource: str
    interval: int
    amount: Decimal


def used_by_cluster(
    *,
    pool: Pool,
    edges: Sequence[datetime],
    among: Collection[int] | None = None,
    through: int | None = None,
) -> list[ClusterUse]:
    """Return the sealed and metered use by cluster and tenant between ascending edges.

    `among` limits it to the tenants with these keys. Entries with a number above `through` are left out.
    """
    return _uses(
        _WHOLE if len(edges) == 2 else _DIVIDED,
        pool,
        edges,
        among,
        through=_LAST_SEQUENCE if through is None else through,
        unsealed=False,
    )


def used_in_window(*, pool: Pool, past: Past, among: Collection[int]) -> list[ClusterUse]:
    """Return the use of tenants in a window by cluster, with entries that are not sealed yet.

    In a decaying window each moment counts by its weight.
    """
    return _uses(
        _WHOLE if past.half_life is None else _DECAYED,
        pool,
        [past.since or EPOCH, past.until],
        among,
        through=_LAST_SEQUENCE,
        unsealed=True,
        half_life=past.half_life,
    )


def _uses(
    statement: str,
    pool: Pool,
    edges: Sequence[datetime],
    among: Collection[int] | None,
    **parameters: float | None,
) -> list[ClusterUse]:
    parameters_of_period: dict[str, Any] = {
        "pool": pool.pk,
        "edges": list(edges),
        "intervals": len(edges) - 1,
        "begin": edges[0],
        "end": edges[-1],
        "among": None if among is None else list(among),
    }
    archived = Selection(pool=pool.pk, begin=edges[0], end=edges[-1])
    with hashed(), entries_with_archived(archived) as relation, connection.cursor() as cursor:
        cursor.execute(statement.replace(ENTRIES, relation), {**parameters_of_period, **parameters})
        return [
            ClusterUse(tenant, cluster, resource, interval, Decimal(amount))
            for tenant, cluster, resource, interval, amount in cursor.fetchall()
        ]


def cluster_order(cluster: str | None) -> tuple[bool, str]:
    """Return the sort key of a cluster in lists, where the unknown one is last."""
    return cluster is None, cluster or ""
