"""Rating of a month from its sealed entries and the prices in force at their time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from allocator_service.billing.models import Commitment, Posting
from allocator_service.billing.months import Month
from allocator_service.billing.plans.timeline import Timeline, commitments_of, timeline
from allocator_service.billing.rating.amounts import Use, used_between, used_by_now
from allocator_service.billing.rating.coverage import coverage
from allocator_service.billing.rating.entries import entries_used
from allocator_service.billing.rating.lines import Rated, usage_lines
from allocator_service.billing.rating.monthly import (
    commitment_lines,
    fixed_cost_lines,
    uncovered,
)
from allocator_service.billing.rating.tiered import TieredCosts
from allocator_service.core.money import exactly
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of


@dataclass(frozen=True)
class RatedMonth:
    """Rated lines of a month with the uses and prices behind them."""

    month: Month
    rated: Rated
    uses: Sequence[Use]
    prices: Timeline


def units_of(pool: Pool) -> Mapping[str, str]:
    """Return the units of the pool's resources."""
    return {resource.name: resource.unit for resource in resources_of(pool)}


@exactly
def month_rated(
    *,
    pool: Pool,
    month: Month,
    through: int | None = None,
    tenant: int | None = None,
    prices: Timeline | None = None,
) -> RatedMonth:
    """Rate a month from the entries numbered up to `through`, or from all sealed entries.

    `tenant` limits the lines to those that it pays or is paid by. `prices` defaults to those in force.
    If no entry may be numbered meanwhile, the caller must hold the sealer's lock or read one snapshot.
    """
    if prices is None:
        prices = timeline(pool=pool, start=month.start, end=month.end)
    uses = list(_uses(pool, prices, through, tenant))
    # Also those of users of the tenant's servers: covered use is credited at another price.
    commitments = _commitments(pool, month, uses, tenant)
    tiered = TieredCosts(prices)
    pairs = tiered.pairs(uses) if prices.has_tiers else []
    for entry in entries_used(pool=pool, prices=prices, pairs=pairs, through=through):
        tiered.add(entry)
    covered = coverage(
        pool=pool, prices=prices, commitments=commitments, through=through, tiered=tiered
    )
    units = units_of(pool)
    rest = uncovered(uses, covered, commitments)
    if tenant is not None:  # others' coverage was computed from all their uses
        rest = [use for use in rest if tenant in (use.tenant, use.owner)]
    rated = usage_lines(
        pool=pool, month=month, prices=prices, uses=rest, units=units, tiered=tiered
    )
    rated.lines += commitment_lines(
        pool=pool, month=month, commitments=commitments, covered=covered, units=units
    )
    rated.lines += fixed_cost_lines(pool=pool, month=month, prices=prices)
    rated.lines = concerning(rated.lines, tenant)
    return RatedMonth(month, rated, uses, prices)


def concerning(lines: Iterable[Posting], tenant: int | None) -> list[Posting]:
    """Return the lines that a tenant pays or is paid by, all lines if `tenant` is None."""
    return [line for line in lines if tenant in (None, line.tenant_id, line.owner_id)]


def _commitments(
    pool: Pool, month: Month, uses: Sequence[Use], tenant: int | None
) -> list[Commitment]:
    """Return the commitments of a tenant and of the users of its servers."""
    found = commitments_of(pool, month.start, month.end)
    if tenant is None:
        return found
    users = {(use.tenant, use.resource) for use in uses}
    return [
        each
        for each in found
        if each.tenant_id == tenant or (each.tenant_id, each.resource) in users
    ]


def _uses(pool: Pool, prices: Timeline, through: int | None, tenant: int | None) -> Iterable[Use]:
    if prices.exact and through is None:
        # Totals are sums already, but know neither increments nor an earlier end of the ledger.
        return used_by_now(pool=pool, edges=prices.edges, tenant=tenant)
    return used_between(
        pool=pool, edges=prices.edges, increments=prices.increments, through=through, tenant=tenant
    )
