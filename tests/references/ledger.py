"""Sums over the ledger in the plain way: every sealed entry is read, and cut to the intervals."""

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal, localcontext
from itertools import pairwise

from django.db import connection

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
