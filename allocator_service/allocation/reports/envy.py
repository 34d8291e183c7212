"""Who would rather have had what another used: envy over a period, weighted.

Source: Ghodsi et al., NSDI 2011, §3; weighted as in policies §7. What a tenant used stands for what
its tasks need: they run in proportion to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from django.db import connection

from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.models import Pool

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Bundle:
    """What a tenant used over a period and would have used alone, per resource.

    `wanted_more`: some decision left it with fewer tasks than it asked for.
    """

    tenant: str
    used: Sequence[Decimal]
    alone: Sequence[Decimal]
    weight: float
    wanted_more: bool


@dataclass(frozen=True)
class Envy:
    """`tenant` would have run `times` as much with what `other` used; None if it ran nothing."""

    tenant: str
    other: str
    times: float | None


def envy_order(envy: Envy) -> tuple[bool, float, str, str]:
    """Who ran nothing first, then who would have run most, then by name."""
    return envy.times is not None, -(envy.times or 0.0), envy.tenant, envy.other


def envy_pairs(bundles: Sequence[Bundle]) -> list[Envy]:
    """Who would have run more with another's bundle, scaled by their weights; the worst first."""
    used = np.array([[float(a) for a in each.used] for each in bundles])
    weight = np.array([each.weight for each in bundles])
    found = []
    for i, each in enumerate(bundles):
        nothing = not any(each.used)
        profile = np.array([float(a) for a in (each.alone if nothing else each.used)])
        needed = profile > 0
        if not (each.wanted_more and each.weight and needed.any()):
            continue
        scale = np.divide(each.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        times = (used[:, needed] * scale[:, None] / profile[needed]).min(axis=1)
        times[i] = 0.0
        least = 0.0 if nothing else 1.0
        found += [
            Envy(each.tenant, other.tenant, None if nothing else more)
            for other, more in zip(bundles, times.tolist(), strict=True)
            if more > least + TOLERANCE
        ]
    return sorted(found, key=envy_order)


_WANTED_MORE = """
SELECT tenant FROM unnest(%(tenants)s::bigint[]) AS tenant
WHERE EXISTS (
    SELECT FROM run JOIN run_allocation a ON a.run_id = run.id AND a.tenant_id = tenant
    WHERE run.pool_id = %(pool)s AND run.status = 'succeeded' AND run.effective_from < %(end)s
      AND (run.effective_until IS NULL OR run.effective_until > %(start)s)
      AND a.limited_by <> 'task_limit')
"""


def wanted_more(*, pool: Pool, period: Period, tenants: Sequence[int]) -> set[int]:
    """The tenants of which some workload ran fewer tasks than it asked for, in some decision."""
    with connection.cursor() as cursor:
        cursor.execute(
            _WANTED_MORE,
            {"tenants": list(tenants), "pool": pool.pk, "start": period.start, "end": period.end},
        )
        return {tenant for (tenant,) in cursor.fetchall()}
