"""Sums over the ledger in the plain way: every sealed entry is read, and cut to the intervals."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from itertools import pairwise
from uuid import UUID

from django.db import connection

from allocator_service.ledger.models import Entry, Kind, Meter, OpenUse
from allocator_service.tenants.models import Tenant

MICROSECOND = timedelta(microseconds=1)
_ENTRIES = """
SELECT id, corrects, server_owner_id, tenant_id, kind, resource, quantity, start, "end",
       id IN (SELECT entry_id FROM ledger_pending)
FROM ledger_entry WHERE pool_id = %s
"""


def plain_amounts(pool, edges):
    """{(owner, tenant, kind, resource, interval): amount} of what is not 0.

    A correction counts as what it corrects.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ENTRIES, [pool.pk])
        entries = cursor.fetchall()
    kind_of = {id_: kind for id_, _, _, _, kind, *_ in entries}
    amounts = defaultdict(Decimal)
    with localcontext(prec=80):
        for _, corrects, owner, tenant, kind, resource, quantity, start, end, waits in entries:
            if waits:
                continue
            counts_as = kind_of[corrects] if corrects else kind
            for interval, (since, until) in enumerate(pairwise(edges)):
                inside = (min(end, until) - max(start, since)) // MICROSECOND
                if inside > 0:
                    amount = quantity * Decimal(inside).scaleb(-6)
                    amounts[owner, tenant, counts_as, resource, interval] += amount
    return {key: amount for key, amount in amounts.items() if amount}


@dataclass(frozen=True)
class Metered:
    """An entry as metering wrote it, or one that is open and has no id."""

    tenant: str
    owner: str | None
    workload: UUID | None
    resource: str
    kind: str
    quantity: Decimal
    start: datetime
    end: datetime
    run: UUID
    id: UUID | None = field(default=None, compare=False)

    @property
    def is_open(self):
        return self.id is None


def metered_entries(pool):
    """Return what is metered of a pool's decisions, the entries and the open uses."""
    slugs = dict(Tenant.objects.values_list("pk", "slug"))
    entries = Entry.objects.filter(pool=pool, source="decisions").exclude(kind=Kind.CORRECTION)
    found = [
        Metered(
            slugs[entry.tenant_id], slugs.get(entry.server_owner_id), entry.workload_id,
            entry.resource, entry.kind, entry.quantity, entry.start, entry.end, entry.run_id,
            entry.pk,
        )
        for entry in entries
    ]  # fmt: skip
    for row in OpenUse.objects.filter(pool=pool):
        columns = (row.owners, row.workloads, row.resources, row.kinds, row.quantities)
        until = Meter.objects.get(pool=pool).metered_until
        found += [
            Metered(
                slugs[row.tenant_id], slugs.get(owner), workload, resource, kind, quantity,
                row.start, until, row.run_id,
            )
            for owner, workload, resource, kind, quantity in zip(*columns, strict=True)
        ]  # fmt: skip
    return found
