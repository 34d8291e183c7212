"""The fairness of a pool over a period, by weighted shares, Jain's index and envy.

Sources: Jain, Chiu, Hawe 1984 (the index); Ghodsi et al., NSDI 2011, §3 (envy), weighted as in policies
§7. Shares are of what was contributed over the period, so that they sum over time.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from allocator_service.allocation.reports.envy import (
    Bundle,
    Envy,
    envies_of,
    envy_order,
    requested_more,
)
from allocator_service.core.charts import BarRow, Chart, StepLine, bar_chart, column, steps_chart
from allocator_service.core.quantities import Resource
from allocator_service.ledger.models import Kind
from allocator_service.ledger.reporting.amounts import amounts_within, exact_sums, ratio
from allocator_service.ledger.reporting.limits import refuse_too_long
from allocator_service.ledger.reporting.periods import Period
from allocator_service.ledger.reporting.tenants import tenants_reported
from allocator_service.pools.contributed import capacity_within, mean_weights
from allocator_service.pools.models import Pool, WeightsMode
from allocator_service.pools.selectors import resources_of
from policies import jain_index

DEFINITIONS = {
    "dominant_share": "The greatest over the resources of used / capacity: resource × seconds of the"
    " entries of kind usage with their corrections, over that of the servers in the pool.",
    "weight": "The member's weight, as a mean over the time in which it was no best-effort member;"
    " where weights are contributions, times the greatest over the resources of what it contributed"
    " / capacity. If every weight is 0, the members' own weights count.",
    "weighted_share": "dominant_share / weight.",
    "jain_index": "(Σ x)² / (n · Σ x²) over the weighted shares x of the n tenants with a weight that"
    " used something or would have alone: 1 when all are equal, 1/n when one has everything.",
    "envy": "Tenant i envies j if i wanted more in some decision of the period, and what j used, times"
    " weight i / weight j, would have let i run more of what it ran (of what it would have run alone,"
    " if it ran nothing); times: how much more.",
    "rounding": "Amounts are exact: nothing is rounded. Shares are the nearest double.",
}
PAIRS_SHOWN = 100

# Why there is no weighted share.
NO_CAPACITY = "no_capacity"
NO_WEIGHT = "no_weight"
REASONS = {
    NO_CAPACITY: "No server was in the pool.",
    NO_WEIGHT: "It was a best-effort member, contributed nothing, or was no member: it shared what"
    " the others left.",
}
TENANTS_SHOWN = 25


@dataclass(frozen=True)
class Share:
    """A tenant's use and share of the pool over the period.

    `used` is resource × seconds in the pool's order of resources. `intervals` are its weighted shares in
    the period's intervals.
    """

    tenant: str
    used: Sequence[Decimal]
    dominant_share: float | None
    weight: float | None
    weighted_share: float | None
    reason: str | None
    counts: bool
    intervals: Sequence[float | None]


@dataclass(frozen=True)
class FairnessReport:
    """Shares by slug, Jain's indices in `series`, and the worst `pairs`.

    `envy_pairs` is the number of all pairs, None if there are too many tenants to compare.
    """

    pool: Pool
    period: Period
    resources: Sequence[Resource]
    shares: Sequence[Share]
    jain_index: float | None
    series: Sequence[float | None]
    envy_pairs: int | None
    pairs: Sequence[Envy]

    def under(
        self, name: Callable[[str], str], is_shown: Callable[[str], bool]
    ) -> "FairnessReport":
        """Return the report of the shown tenants, renamed and in the order of their new names."""
        shares = [replace(each, tenant=name(each.tenant)) for each in self.shares]
        pairs = [
            replace(each, tenant=name(each.tenant), other=name(each.other)) for each in self.pairs
        ]
        return replace(
            self,
            shares=sorted((s for s in shares if is_shown(s.tenant)), key=lambda each: each.tenant),
            pairs=sorted(
                (each for each in pairs if is_shown(each.tenant) or is_shown(each.other)),
                key=envy_order,
            ),
        )


def fairness_report(*, pool: Pool, period: Period) -> FairnessReport:
    """Return the fairness of a pool's use. Raises `Unacceptable` for a period that is too long."""
    resources = resources_of(pool)
    amounts = amounts_within(pool=pool, period=period, values=1)
    slugs = tenants_reported(
        pool=pool, period=period, found={use.tenant for use in amounts.present}, tenant=None
    )
    refuse_too_long(len(slugs) * len(period.intervals))
    within = list(amounts.all_intervals())
    sums = exact_sums(((use.tenant, use.kind, use.resource), amount) for use, _, amount in within)
    intervals = {
        (use.tenant, interval, use.resource): amount
        for use, interval, amount in within
        if use.kind == Kind.USAGE
    }
    capacity = [
        (each.tenant, each.interval, each.resource, each.amount)
        for each in capacity_within(pool=pool, edges=period.edges)
    ]
    whole = exact_sums((r, amount) for _, _, r, amount in capacity)
    of_interval = exact_sums(((interval, r), amount) for _, interval, r, amount in capacity)
    contributed = exact_sums(((tenant, r), amount) for tenant, _, r, amount in capacity)
    weights = _weights(pool, period, slugs, contributed, whole, len(resources))

    def amount(tenant: int, kind: Kind) -> list[Decimal]:
        return [sums.get((tenant, kind.value, each.name), Decimal(0)) for each in resources]

    shares, bundles = [], []
    envious = requested_more(pool=pool, period=period, tenants=list(slugs))
    for tenant, slug in slugs.items():
        used, alone = amount(tenant, Kind.USAGE), amount(tenant, Kind.ALONE)
        weight = weights.get(tenant)
        dominant = _dominant(used, [whole.get(r) for r in range(len(resources))])
        series = [
            _weighted(
                _dominant(
                    [intervals.get((tenant, p, each.name), Decimal(0)) for each in resources],
                    [of_interval.get((p, r)) for r in range(len(resources))],
                ),
                weight,
            )
            for p in range(len(period.intervals))
        ]
        shares.append(
            Share(
                slug,
                used,
                dominant,
                weight,
                _weighted(dominant, weight),
                NO_CAPACITY if dominant is None else None if weight else NO_WEIGHT,
                bool(weight) and (any(used) or any(alone)),
                series,
            )
        )
        bundles.append(Bundle(slug, used, alone, weight or 0.0, tenant in envious))
    counted = [share for share in shares if share.counts]
    envies = envies_of(bundles, most=PAIRS_SHOWN)
    return FairnessReport(
        pool,
        period,
        resources,
        shares,
        _jain_index(share.weighted_share for share in counted),
        [
            _jain_index(share.intervals[interval] for share in counted)
            for interval in range(len(period.intervals))
        ],
        None if envies is None else envies.count,
        [] if envies is None else envies.worst,
    )


def _jain_index(shares: Iterable[float | None]) -> float | None:
    return jain_index([math.nan if share is None else share for share in shares])


def _dominant(used: Sequence[Decimal], capacity: Sequence[Decimal | None]) -> float | None:
    """Return the greatest share of any resource that the pool had, or None if it had none."""
    shares = [ratio(amount, c) for amount, c in zip(used, capacity, strict=True) if c]
    return max(shares, default=None)


def _weighted(share: float | None, weight: float | None) -> float | None:
    return share / weight if share is not None and weight else None


def _weights(
    pool: Pool,
    period: Period,
    slugs: Mapping[int, str],
    contributed: Mapping[tuple[int | None, int], Decimal],
    whole: Mapping[int, Decimal],
    count: int,
) -> dict[int, float]:
    """Return the weights greater than 0, by tenant."""
    own = {
        tenant: float(weight)
        for tenant, weight in mean_weights(pool=pool, start=period.start, end=period.end).items()
        if tenant in slugs
    }
    if pool.weights == WeightsMode.EXPLICIT:
        return own
    brought = {
        tenant: weight
        * max(
            (
                ratio(contributed.get((tenant, r), Decimal(0)), whole[r])
                for r in range(count)
                if whole.get(r)
            ),
            default=0.0,
        )
        for tenant, weight in own.items()
    }
    above = {tenant: weight for tenant, weight in brought.items() if weight > 0}
    return above or own


def fairness_chart(report: FairnessReport) -> Chart:
    """Return a bar for each tenant, the least share first.

    A period of several intervals adds a line of Jain's index.
    """
    known = sorted(
        (share for share in report.shares if share.counts),
        key=lambda share: share.weighted_share or 0.0,
    )
    shown = known[:TENANTS_SHOWN]
    jain = "none" if report.jain_index is None else f"{report.jain_index:.4f}"
    which = "" if len(shown) == len(known) else f", the {len(shown)} least of {len(known)}"
    bars = bar_chart(
        title=f"Weighted shares in {report.pool.slug}{which}: Jain's index {jain}",
        unit="dominant share ÷ weight",
        series=["weighted share"],
        rows=[BarRow(share.tenant, [share.weighted_share]) for share in shown],
    )
    if len(report.period.intervals) == 1:
        return bars
    index = StepLine(
        "Jain's index",
        [
            (start, end, value)
            for (start, end), value in zip(report.period.intervals, report.series, strict=True)
        ],
    )
    lines = steps_chart(title="Jain's index over time", unit="index (1: all equal)", lines=[index])
    return column(bars.title, [bars, lines])
