"""Bills in the plain way: every instant at which anything changes, entry by entry, in fractions.

Written from the specification of money, without the product's timelines, sums or SQL.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

from django.db import connection

from tests.references.billing import half_even

_ENTRIES = """
SELECT s.sequence, e.id, e.corrects, e.tenant_id, e.server_owner_id, e.resource, e.quantity,
       extract(epoch FROM e.start), extract(epoch FROM e."end"), COALESCE(o.kind, e.kind)
FROM ledger_entry e JOIN ledger_seal s ON s.entry_id = e.id
LEFT JOIN ledger_entry o ON o.id = e.corrects WHERE e.pool_id = %s ORDER BY s.sequence
"""


@dataclass(frozen=True)
class PlainPlan:
    """Prices by (resource, kind of server, owner or None).

    `spots` are (resource, kind, from, to, price), `tiers` by (resource, owner or None) lists of (hours
    or None, price), for kinds without a price. A plan that `replaces` the past goes before the
    published ones, the last of them first.
    """

    key: object
    start: Fraction
    end: Fraction
    fee: Fraction
    prices: dict[Any, Any]
    spots: list[Any] = field(default_factory=list)
    replaces: bool = False
    tiers: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlainCommitment:
    """Committed units of a resource over a term; `fee` is that of its plan."""

    key: object
    tenant: int
    resource: str
    quantity: Fraction
    price: Fraction
    start: Fraction
    end: Fraction
    fee: Fraction


@dataclass
class Use:
    """An entry with its corrections."""

    sequence: int
    tenant: int
    owner: int | None
    resource: str
    quantity: Fraction
    start: Fraction
    end: Fraction


def plain_uses(pool, through=None):
    """What the sealed entries up to a number hold, corrections added to what they correct."""
    with connection.cursor() as cursor:
        cursor.execute(_ENTRIES, [pool.pk])
        rows = cursor.fetchall()
    uses = {}
    for sequence, id_, corrects, tenant, owner, resource, quantity, start, end, kind in rows:
        if kind != "usage" or (through is not None and sequence > through):
            continue
        times = (Fraction(start), Fraction(end))
        use = uses.setdefault(
            (corrects or id_, resource), Use(sequence, tenant, owner, resource, Fraction(0), *times)
        )
        use.quantity += Fraction(quantity)
    return list(uses.values())


def instant(moment: datetime) -> Fraction:
    """Seconds since 1970."""
    return Fraction(int(moment.timestamp()))


def kind_of_server(tenant, owner):
    if owner is None:
        return "pool"
    return "own" if owner == tenant else "shared"


def plan_at(plans, at):
    there = [plan for plan in plans if plan.start <= at < plan.end]
    replacing = [plan for plan in there if plan.replaces]
    return (replacing or there or [None])[-1]


def price_at(plan, resource, tenant, owner, at):
    """An owner's own price, else a spot price, else the price of all owners; None if there is none.

    A list is of tiers.
    """
    if plan is None:
        return None
    kind = kind_of_server(tenant, owner)
    if owner is not None and plan.prices.get((resource, kind, owner)) is not None:
        return plan.prices[resource, kind, owner]
    if owner is not None and (resource, owner) in plan.tiers:
        return plan.tiers[resource, owner]
    for of_resource, of_kind, start, end, price in plan.spots:
        if (of_resource, of_kind) == (resource, kind) and start <= at < end:
            return price
    price = plan.prices.get((resource, kind, None))
    return plan.tiers.get((resource, None)) if price is None else price


def tier_at(tiers, hours):
    return next(price for through, price in tiers if through is None or hours < through)


def tiers_cost(tiers, first, last):
    """Hours × price from one of the month's hours to another."""
    cost, begin = Fraction(0), Fraction(0)
    for through, price in tiers:
        end = last if through is None else Fraction(through)
        cost += max(Fraction(0), min(last, end) - max(first, begin)) * price
        begin = end
    return cost


def plain_bill(uses, plans, commitments, month, digits):
    """{line: (amount, charge, fee)} of a month, from its start to its end in seconds since 1970."""
    begin, end = month
    cuts = {begin, end}
    for each in (*uses, *plans, *commitments):
        cuts |= {each.start, each.end}
    for plan in plans:
        cuts |= {cut for spot in plan.spots for cut in spot[2:4]}
    amounts, priced = defaultdict(Fraction), defaultdict(Fraction)
    hours = defaultdict(Fraction)
    before = {}
    for use in sorted(uses, key=lambda each: each.sequence):
        within = max(Fraction(0), min(use.end, end) - max(use.start, begin))
        before[use.sequence] = hours[use.tenant, use.resource], max(use.start, begin)
        hours[use.tenant, use.resource] += use.quantity * within / 3600
    cuts = sorted(cut for cut in cuts if begin <= cut <= end)
    for start, stop in pairwise(cuts):
        plan = plan_at(plans, start)
        for pair in {(use.tenant, use.resource) for use in (*uses, *commitments)}:
            _instant(pair, start, stop - start, plan, uses, commitments, amounts, priced, before)
    fees = {plan.key: plan.fee for plan in plans} | {c.key: c.fee for c in commitments}
    lines = {}
    for line, cost in priced.items():
        _, key, tenant, owner, _ = line
        charge = half_even(cost / 3600, digits)
        shared = kind_of_server(tenant, owner) == "shared"
        fee = half_even(charge * fees[key], digits) if shared else Fraction(0)
        if amounts[line]:
            lines[line] = (amounts[line], charge, fee)
    return lines


def _instant(pair, at, lasts, plan, uses, commitments, amounts, priced, before):
    """One interval of one tenant and resource: what is covered, what is not, and what is unused."""
    tenant, resource = pair

    def rate(use):
        return price_at(plan, resource, tenant, use.owner, at)

    def rank(use):
        found = rate(use)
        if isinstance(found, list):
            found = tier_at(found, before[use.sequence][0])
        return (Fraction(-1) if found is None else found) * -1, use.sequence

    def cost(use):
        if not isinstance(rate(use), list):
            return left[use.sequence] * lasts * rate(use)
        first, begun = before[use.sequence]
        since = first + use.quantity * (at - begun) / 3600
        until = since + use.quantity * lasts / 3600
        return left[use.sequence] / use.quantity * tiers_cost(rate(use), since, until) * 3600

    active = [u for u in uses if (u.tenant, u.resource) == pair and u.start <= at < u.end]
    left = {use.sequence: use.quantity for use in active}
    for each in commitments:
        if (each.tenant, each.resource) != pair or not each.start <= at < each.end:
            continue
        free = each.quantity
        for use in sorted(active, key=rank):
            taken = min(free, left[use.sequence])
            free -= taken
            left[use.sequence] -= taken
            line = ("commitment", each.key, tenant, use.owner, resource)
            amounts[line] += taken * lasts
            priced[line] += taken * lasts * each.price
        line = ("commitment_unused", each.key, tenant, None, resource)
        amounts[line] += free * lasts
        priced[line] += free * lasts * each.price
    for use in active:
        if rate(use) is not None and use.quantity:
            line = ("usage", plan.key, tenant, use.owner, resource)
            amounts[line] += left[use.sequence] * lasts
            priced[line] += cost(use)
