"""Weighted envy between tenants over a period.

Source: Ghodsi et al., NSDI 2011, §3; weighted as in policies §7. A tenant's use stands for the needs of
its tasks, which run in proportion to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from django.db import connection

from allocator_service.allocation.reports.envy_pairs import Comparison, groups_of
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.models import Pool

TOLERANCE = 1e-9
# A second: 22,000 tenants of which no two are alike, with two resources.
MOST_COMPARED = 10**9


@dataclass(frozen=True)
class Bundle:
    """A tenant's use over a period and what it would have used alone, per resource.

    `requested_more` is true if some decision left it with fewer tasks than it asked for.
    """

    tenant: str
    used: Sequence[Decimal]
    alone: Sequence[Decimal]
    weight: float
    requested_more: bool


@dataclass(frozen=True)
class Envy:
    """A tenant's envy of another.

    `tenant` would have run `times` as much with what `other` used. It is None if `tenant` ran nothing.
    """

    tenant: str
    other: str
    times: float | None


def envy_order(envy: Envy) -> tuple[bool, float, str, str]:
    """Return the sort key by which tenants that ran nothing come first, then those with the most envy.

    Names break ties.
    """
    return envy.times is not None, -(envy.times or 0.0), envy.tenant, envy.other


@dataclass(frozen=True)
class Envies:
    """Number of pairs in which a tenant envies another, and the worst of them."""

    count: int
    worst: Sequence[Envy]


def envies_of(bundles: Sequence[Bundle], *, most: int) -> Envies | None:
    """Return how many would have run more with another's bundle, scaled by weights, and the worst.

    Tenants with equal bundles are compared once. None if more than `MOST_COMPARED` numbers would still
    have to be compared.
    """
    if not bundles:
        return Envies(0, [])
    ordered = sorted(bundles, key=lambda each: each.tenant)
    weight = np.array([each.weight for each in ordered])
    used, alone = (
        np.array([[float(amount) for amount in kind] for kind in kinds]).reshape(len(ordered), -1)
        for kinds in ([each.used for each in ordered], [each.alone for each in ordered])
    )
    nothing = ~(used != 0).any(axis=1)
    # A tenant that used nothing is compared by what it would have used alone.
    profile = np.where(nothing[:, None], alone, used)
    lacking = np.array([each.requested_more for each in ordered], np.bool_)
    envious = lacking & (weight > 0) & (profile > 0).any(axis=1)
    columns = groups_of(np.column_stack([weight, used]), range(len(ordered)))
    compared = [
        groups_of(np.column_stack([weight, profile])[some], np.flatnonzero(some).tolist())
        for some in (envious & nothing, envious & ~nothing)
    ]
    pairs = sum(len(each.members) for each in compared) * len(columns.members)
    if pairs * used.shape[1] > MOST_COMPARED:
        return None
    idle, busy = (
        Comparison(rows, columns, least + TOLERANCE)
        # Those that ran nothing envy any use. Others envy what would have let them run more.
        for rows, least in zip(compared, (0.0, 1.0), strict=True)
    )
    of_idle, of_busy = idle.counts(), busy.counts()
    names = [each.tenant for each in ordered]
    found: list[Envy] = [Envy(names[i], names[j], None) for i, j in idle.first(of_idle, most)]
    if len(found) < most:
        found += [Envy(names[i], names[j], t) for t, i, j in busy.worst(of_busy, most)]
    sizes = [each.sizes for each in compared]
    count = int((of_idle * sizes[0]).sum() + (of_busy * sizes[1]).sum())
    return Envies(count, sorted(found, key=envy_order)[:most])


_REQUESTED_MORE = """
SELECT tenant FROM unnest(%(tenants)s::bigint[]) AS tenant
WHERE EXISTS (
    SELECT FROM run JOIN run_allocation a ON a.run_id = run.id AND a.tenant_id = tenant
    WHERE run.pool_id = %(pool)s AND run.status = 'succeeded' AND run.effective_from < %(end)s
      AND (run.effective_until IS NULL OR run.effective_until > %(start)s)
      AND a.limited_by <> 'task_limit')
"""


def requested_more(*, pool: Pool, period: Period, tenants: Sequence[int]) -> set[int]:
    """Return the tenants with a workload that ran fewer tasks than it asked for in some decision."""
    with connection.cursor() as cursor:
        cursor.execute(
            _REQUESTED_MORE,
            {"tenants": list(tenants), "pool": pool.pk, "start": period.start, "end": period.end},
        )
        return {tenant for (tenant,) in cursor.fetchall()}
