"""Sums over the ledger in the plain way: every sealed entry is read, and cut to the pieces."""

from django.db import connection

from allocator_service.core.pieces import pieces_of, seconds_inside

_AMOUNTS = f"""
SELECT piece - 1, e.server_owner_id, e.tenant_id, COALESCE(corrected.kind, e.kind), e.resource,
       sum(e.quantity * {seconds_inside("e.start", 'e."end"')})
FROM ledger_entry e
LEFT JOIN ledger_entry corrected
       ON e.corrects IS NOT NULL AND corrected.id = e.corrects AND corrected.start = e.start
CROSS JOIN {pieces_of("e.start", 'e."end"')}
WHERE e.pool_id = %(pool)s AND e.start < %(end)s AND e."end" > %(start)s
  AND NOT EXISTS (SELECT FROM ledger_pending p WHERE p.entry_id = e.id)
GROUP BY 1, 2, 3, 4, 5 HAVING sum(e.quantity * {seconds_inside("e.start", 'e."end"')}) <> 0
"""


def plain_amounts(pool, edges):
    """{(owner, tenant, kind, resource, piece): amount} of what is not 0."""
    with connection.cursor() as cursor:
        cursor.execute(
            _AMOUNTS,
            {
                "pool": pool.pk,
                "edges": list(edges),
                "pieces": len(edges) - 1,
                "start": edges[0],
                "end": edges[-1],
            },
        )
        return {(*key, piece): amount for piece, *key, amount in cursor.fetchall()}
