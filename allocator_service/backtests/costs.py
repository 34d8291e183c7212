"""Costs of a simulation under a price plan, rated as months are."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import MAXYEAR, UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from allocator_service.backtests.scenarios import Scenario
from allocator_service.billing.models import PricePlan
from allocator_service.billing.months import month_of
from allocator_service.billing.plans.timeline import Prices, Segment, Timeline
from allocator_service.billing.rating.amounts import Use
from allocator_service.billing.rating.lines import minor_digits, usage_lines
from allocator_service.billing.rating.savings import savings
from allocator_service.billing.statements.documents import account_totals
from allocator_service.ledger.models import Kind
from allocator_service.pools.selectors import resources_of
from policies.simulation import Simulation

# Statements count seconds to the microsecond.
_DIGITS = 6


def costs(scenario: Scenario, simulation: Simulation, plan: PricePlan) -> dict[str, Any]:
    """Return the costs of a simulation, as texts by tenant and in total.

    They are `paid`, `earned` and `saved`, with the `unpriced` resources.

    The plan's prices for use hold throughout, its spot prices as of the first instant. Commitments and
    fixed costs are left out, because they are the same under every policy. Use in a pool that counts as
    one server is charged as on the pool's own servers. `saved` is None where it cannot be computed.
    """
    start = scenario.instant(float(simulation.trace.submit.min(initial=0.0)))
    # The last month of the calendar has no end in it.
    if start is None or start.year == MAXYEAR:
        start = datetime.fromtimestamp(0, UTC)
    # One segment of any length: its prices hold for all of the simulation.
    prices = Timeline([Segment(start, start + timedelta(seconds=1), plan)], {plan.pk: Prices(plan)})
    counted = _counted(scenario, plan)
    payers = [
        # Tenants of a trace are no members: negative keys cannot be those of any tenant with prices.
        -position - 1 if tenant["pk"] is None else int(tenant["pk"])
        for position, tenant in enumerate(scenario.head["tenants"])
    ]
    uses = list(_uses(scenario, simulation, payers, counted))
    month = month_of(start, plan.pool.timezone)
    rated = usage_lines(
        pool=plan.pool,
        month=month,
        prices=prices,
        uses=uses,
        units=dict(zip(scenario.head["resources"], scenario.head["units"], strict=True)),
    )
    balance, _, _ = account_totals(rated.lines)
    digits = minor_digits(plan.pool)
    by_tenant: dict[int, list[Use]] = {payer: [] for payer in payers}
    for use in uses:
        by_tenant[use.tenant].append(use)
    charged: dict[int, Decimal] = dict.fromkeys(payers, Decimal(0))
    for line in rated.lines:
        charged[line.tenant_id] += line.tenant_amount
    saved = {
        payer: savings(
            tenant=payer, uses=by_tenant[payer], prices=prices, lines=rated.lines, digits=digits
        )
        for payer in payers
    }
    unpriced = {use.resource for use in rated.unrated} | (
        set(scenario.head["resources"]) - set(counted)
    )
    return {
        "charged": [str(charged[payer]) for payer in payers],
        "paid": [str(balance.get(payer, Decimal(0))) for payer in payers],
        "saved": [
            None if saved[payer].saved is None else str(saved[payer].saved) for payer in payers
        ],
        "total_charged": str(sum(charged.values(), Decimal(0))),
        "total_saved": _total([each.saved for each in saved.values()]),
        "unpriced": sorted(unpriced),
    }


def _counted(scenario: Scenario, plan: PricePlan) -> Sequence[str]:
    """Return the resources that the plan's pool has in the same unit.

    A trace without units matches any unit.
    """
    known = {resource.name: resource.unit for resource in resources_of(plan.pool)}
    return [
        name
        for name, unit in zip(scenario.head["resources"], scenario.head["units"], strict=True)
        if name in known and unit in ("", known[name])
    ]


def _uses(
    scenario: Scenario, simulation: Simulation, payers: Sequence[int], counted: Sequence[str]
) -> Iterator[Use]:
    """Yield each tenant's use of each owner's servers, and the use that it would have had alone."""
    resources = scenario.head["resources"]
    used = used_by_owner(simulation)
    for position, payer in enumerate(payers):
        for r, resource in enumerate(resources):
            if resource not in counted:
                continue
            for owner in np.flatnonzero(used[position, :, r]).tolist():
                of = None if owner == 0 else payers[owner - 1]
                amount = _exact(used[position, owner, r])
                yield Use(payer, of, resource, Kind.USAGE, 0, amount, amount)
            alone = _exact(simulation.alone[position, r])
            if alone:
                yield Use(payer, payer, resource, Kind.ALONE, 0, alone, alone)


def used_by_owner(simulation: Simulation) -> npt.NDArray[np.float64]:
    """Return (t, t + 1, m) resource × seconds by tenant and owner.

    Owner 0 is the pool, owner 1 the first tenant.
    """
    problem, trace = simulation.problem, simulation.trace
    # The pieces of a gang run on servers of their own. All other tasks count as one piece.
    is_whole = ~np.isnan(simulation.start)
    is_whole[simulation.piece_task] = False
    whole = np.flatnonzero(is_whole)
    task = np.concatenate([whole, simulation.piece_task])
    workload = trace.workload[task]
    kind = workload[len(whole) :].copy()
    is_second = simulation.piece_kind == 1
    kind[is_second] = problem.pieces.second[kind[is_second]]
    demand = np.concatenate([problem.demand[trace.workload[whole]], problem.pieces.demand[kind]])
    end = np.where(np.isnan(simulation.end), simulation.ended, simulation.end)[task]
    seconds = np.maximum(end - simulation.start[task], 0.0)
    row_of = np.repeat(np.arange(problem.k), problem.server_count)
    server = np.concatenate([simulation.server[whole], simulation.piece_server])
    owner = np.zeros(len(task), dtype=np.int64)
    placed = server >= 0
    # -1 stands for the pool, whose number is 0 here.
    owner[placed] = problem.contributed_by[row_of[server[placed]]] + 1
    # One number for each pair, by which `bincount` adds up all tasks at once.
    place = problem.workload_tenant[workload] * (problem.t + 1) + owner
    size = problem.t * (problem.t + 1)
    used = np.zeros((size, problem.m))
    for r in range(problem.m):
        used[:, r] = np.bincount(place, weights=demand[:, r] * seconds, minlength=size)
    return used.reshape(problem.t, problem.t + 1, problem.m)


def _exact(amount: float) -> Decimal:
    return Decimal(f"{amount:.{_DIGITS}f}")


def _total(amounts: Sequence[Decimal | None]) -> str | None:
    known = [amount for amount in amounts if amount is not None]
    return str(sum(known, Decimal(0))) if known else None


def only_of(found: Mapping[str, Any], position: int | None) -> dict[str, Any]:
    """Return the money of one tenant, or of all if `position` is None."""
    if position is None:
        return dict(found)
    hidden: dict[str, Any] = {
        name: [value if place == position else None for place, value in enumerate(found[name])]
        for name in ("charged", "paid", "saved")
    }
    return {**hidden, "total_charged": None, "total_saved": None, "unpriced": found["unpriced"]}
