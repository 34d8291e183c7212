"""Contributed capacity and the weights of members over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import connection

from allocator_service.core.intervals import intervals_reached, seconds_inside
from allocator_service.pools.models import Pool


@dataclass(frozen=True)
class Capacity:
    """Resource × seconds of capacity that a tenant contributed in one interval.

    `interval` counts from 0, `resource` is the position in the pool's vectors, `tenant` None is the
    pool itself. `cluster` is the present label of the servers, None without one.
    """

    interval: int
    tenant: int | None
    cluster: str | None
    resource: int
    amount: Decimal


# Servers that were contributed alike are counted together before time is cut.
_CAPACITY = """
WITH alike AS (
    SELECT c.tenant_id, NULLIF(server.labels ->> 'cluster', '') AS cluster, c.start,
           COALESCE(c."end", 'infinity') AS "end",
           COALESCE(c.capacity, server.capacity) AS capacity, count(*) AS servers
    FROM server_contribution c JOIN server ON server.id = c.server_id
    WHERE server.pool_id = %(pool)s AND c.start < %(end)s
      AND (c."end" IS NULL OR c."end" > greatest(%(start)s, c.start))
    GROUP BY 1, 2, 3, 4, 5)
SELECT interval_number - 1, tenant_id, cluster, position - 1,
       sum(servers * quantity * {seconds})
FROM alike
CROSS JOIN {intervals}
CROSS JOIN LATERAL unnest(capacity) WITH ORDINALITY AS amount (quantity, position)
GROUP BY 1, 2, 3, 4
"""


def capacity_within(*, pool: Pool, edges: Sequence[datetime]) -> list[Capacity]:
    """Return the capacity × seconds contributed between the edges, including draining servers."""
    # `format` fills in SQL of our own alone. Values are passed as parameters.
    statement = _CAPACITY.format(
        seconds=seconds_inside("start", '"end"'), intervals=intervals_reached("start", '"end"')
    )
    with connection.cursor() as cursor:
        cursor.execute(
            statement,
            {
                "pool": pool.pk,
                "edges": list(edges),
                "intervals": len(edges) - 1,
                "start": edges[0],
                "end": edges[-1],
            },
        )
        return [Capacity(*row) for row in cursor.fetchall()]


# Weighted by time, without the intervals of best effort, in which a member has no weight.
_WEIGHTS = """
SELECT m.tenant_id, sum(terms.weight * seconds) / sum(seconds)
FROM pool_membership m
JOIN pool_membership_terms terms ON terms.membership_id = m.id
CROSS JOIN LATERAL (SELECT extract(epoch FROM least(COALESCE(terms."end", 'infinity'), %(end)s)
                                             - greatest(terms.start, %(start)s)) AS seconds) AS inside
WHERE m.pool_id = %(pool)s AND NOT terms.best_effort AND seconds > 0
GROUP BY m.tenant_id
"""


def mean_weights(*, pool: Pool, start: datetime, end: datetime) -> dict[int, Decimal]:
    """Return the members' mean weights over an interval, by tenant, without best-effort time."""
    with connection.cursor() as cursor:
        cursor.execute(_WEIGHTS, {"pool": pool.pk, "start": start, "end": end})
        return dict(cursor.fetchall())
