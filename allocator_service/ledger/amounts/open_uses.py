"""Open uses of a pool, as the entries that they would be if they were closed now.

Decisions and budgets depend on what was used a moment ago, while an unchanged use is appended as
entries once an hour. Readers of the ledger therefore count open uses, and metered entries that are not
sealed yet. What is read of an instant then does not depend on where uses are closed.
"""

from allocator_service.ledger.intake.open_uses import SOURCE
from allocator_service.ledger.models import SOURCE_LENGTH

# In the columns of `ledger_entry`. The ids order a tenant's open uses after its entries, and the source
# is that of `MeteredUse`.
OPEN_ENTRIES = f"""
SELECT ('ffffffff-ffff-7fff-8000-' || lpad(to_hex(use.position), 12, '0'))::uuid AS id,
       o.pool_id, o.tenant_id, use.owner_id AS server_owner_id, use.workload_id, use.resource,
       use.unit, use.quantity, o.start, meter.metered_until AS "end",
       use.quantity * extract(epoch FROM meter.metered_until - o.start) AS amount,
       use.kind, NULL::uuid AS corrects, ''::text AS reason,
       CASE WHEN length(use.cluster) < {SOURCE_LENGTH - len(SOURCE)} THEN '{SOURCE}/' || use.cluster
            ELSE '{SOURCE}' END::varchar AS source,
       NULL::varchar AS event_id, o.run_id, meter.metered_until AS recorded_at
FROM ledger_open_use o JOIN pool_meter meter ON meter.pool_id = o.pool_id
CROSS JOIN LATERAL
    unnest(o.workloads, o.owners, o.resources, o.units, o.kinds, o.quantities, o.clusters)
    WITH ORDINALITY AS use (workload_id, owner_id, resource, unit, kind, quantity, cluster, position)
WHERE o.pool_id = %(pool)s
"""  # noqa: S608 - constants of our own

# Whether an entry `e` is metered. A correction of such an entry has its run, too.
IS_METERED = "(e.run_id IS NOT NULL AND e.kind <> 'correction')"
