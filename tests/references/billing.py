"""Charges in the plain way: entry by entry, in fractions, one line after the other."""

from collections import defaultdict
from datetime import timedelta
from fractions import Fraction

from django.db import connection

from allocator_service.billing.plans.timeline import kind_of

_ENTRIES = """
SELECT e.tenant_id, e.server_owner_id, e.resource, e.quantity, e.start, e."end", e.event_id,
       COALESCE(o.kind, e.kind), o.event_id
FROM ledger_entry e JOIN ledger_seal s ON s.entry_id = e.id
LEFT JOIN ledger_entry o ON o.id = e.corrects WHERE e.pool_id = %s
"""
MICROSECOND = timedelta(microseconds=1)
STEPS = {"second-min-60": (60, 1), "hour-up": (0, 3600)}


def half_even(amount, digits):
    """The nearest multiple of the minor unit, by remainders of integers."""
    whole, rest = divmod(abs(amount) * 10**digits, 1)
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    return Fraction(int(whole) * (1 if amount >= 0 else -1), 10**digits)


def plain_lines(pool, month, prices, digits):
    """{(tenant, owner, resource, plan): (amount, charge, fee)} of a month under a timeline."""
    sums = defaultdict(lambda: [Fraction(0), Fraction(0)])
    plans = {}
    with connection.cursor() as cursor:
        cursor.execute(_ENTRIES, [pool.pk])
        entries = cursor.fetchall()
    for tenant, owner, resource, quantity, start, end, event, kind, corrected in entries:
        if kind != "usage":
            continue
        for number, segment in enumerate(prices.segments):
            since, until = max(start, segment.start), min(end, segment.end)
            price = prices.price(number, resource, tenant, owner)
            if since >= until or segment.plan is None or price is None:
                continue
            seconds = counted = Fraction((until - since) // MICROSECOND, 10**6)
            lasts = Fraction((end - start) // MICROSECOND, 10**6)
            if (event or corrected) and until == end and segment.plan.increment in STEPS:
                least, step = STEPS[segment.plan.increment]
                counted += max(least, -(-lasts // step) * step) - lasts
            found = sums[tenant, owner, resource, segment.plan.pk]
            found[0] += Fraction(quantity) * seconds
            found[1] += Fraction(quantity) * counted * Fraction(price)
            plans[segment.plan.pk] = segment.plan
    lines = {}
    for key, (amount, priced) in sums.items():
        charge = half_even(priced / 3600, digits)
        shared = kind_of(key[0], key[1]) == "shared"
        fee = half_even(charge * Fraction(plans[key[3]].fee), digits) if shared else 0
        if amount or priced:
            lines[key] = (amount, charge, fee)
    return lines
