"""Reratings: a backdated plan is applied to closed months, by lines in the month that is open."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Q

from allocator_service.billing.models import (
    Closing,
    LineKind,
    PlanState,
    Posting,
    PricePlan,
    Rerating,
)
from allocator_service.billing.months import Month, month_of
from allocator_service.billing.plans.services import plan_number
from allocator_service.billing.plans.timeline import timeline
from allocator_service.billing.rating.amounts import used_between
from allocator_service.billing.rating.lines import Priced, minor_digits
from allocator_service.billing.statements.documents import money_text
from allocator_service.billing.statements.drafting import closings_of, units_of
from allocator_service.core.audit import audit_record
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.locks import Lock, lock_in_transaction
from allocator_service.core.outbox import event_record
from allocator_service.core.planning import without_time_limit
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

_FROM_ENTRIES = (LineKind.USAGE, LineKind.ADJUSTMENT, LineKind.RERATED)
_NEGATED = (
    "amount",
    "tenant_amount",
    "owner_amount",
    "fee_amount",
    "pool_amount",
    "effective",
)


def rerating_preview(
    *, pool: Pool, plan: PricePlan, reason: str, now: datetime
) -> tuple[Rerating, bool]:
    """What a rerating would do: the same, and then undone. Answers and raises as `rerating_apply`."""
    with transaction.atomic():
        answer = rerating_apply(pool=pool, plan=plan, reason=reason, now=now)
        transaction.set_rollback(True)
    return answer


@transaction.atomic
def rerating_apply(
    *, pool: Pool, plan: PricePlan, reason: str, now: datetime
) -> tuple[Rerating, bool]:
    """Reverse what was posted for the time of a draft, and post it at the draft's prices.

    Returns the rerating, and whether it is new: a plan is applied once, a repeat does nothing. Raises
    `Conflict` for a published plan, `Unacceptable` for a plan that reaches beyond the closed months, or
    without a reason.
    """
    lock_in_transaction(Lock.BILLING, pool.slug)
    applied = Rerating.objects.filter(plan=plan).first()
    if applied is not None:
        return applied, False
    if not reason.strip():
        raise Unacceptable("A rerating needs a reason.", code="rerating.reason", pointer="/reason")
    plan = PricePlan.objects.select_for_update(of=("self",), no_key=True).get(pk=plan.pk)
    if plan.state != PlanState.DRAFT:
        raise Conflict("The plan is published: a rerating applies a draft.", code="plan.published")
    closings = _covered_closings(pool, plan)
    without_time_limit()
    plan_number(plan, PlanState.RERATED, now)
    last = closings_of(pool)[-1]
    open_ = month_of(last.start, pool.timezone).next
    months = [month_of(closing.start, pool.timezone) for closing in closings]
    lines = [
        line for month in months for line in _of_month(pool, plan, month, open_, last.sequence)
    ]
    rerating = Rerating.objects.create(
        pool=pool,
        plan=plan,
        month=open_.first,
        sequence=last.sequence,
        months=[month.first for month in months],
        reason=reason.strip(),
        changes=_changes(pool, lines),
        created_at=now,
    )
    for line in lines:
        line.rerating = rerating
    Posting.objects.bulk_create(lines, batch_size=1_000)
    audit_record(action="rerating.apply", instance=rerating, now=now, pool=pool.slug)
    event_record(
        kind="rerating.applied",
        pool=pool.slug,
        payload={"rerating": str(rerating.pk), "price_plan": str(plan.pk)},
        now=now,
    )
    return rerating, True


def _covered_closings(pool: Pool, plan: PricePlan) -> list[Closing]:
    """The closed months that a plan reaches into, which are all of its time."""
    closings = closings_of(pool)
    within = (
        closings
        and plan.end is not None
        and closings[0].start <= plan.start
        and plan.end <= closings[-1].end
    )
    if not within:
        raise Unacceptable(
            "A rerating is of closed months: its plan begins and ends within them. Publish a plan for"
            " what comes after.",
            code="rerating.interval",
            pointer="/plan",
        )
    end = plan.end or closings[-1].end
    return [closing for closing in closings if closing.start < end and plan.start < closing.end]


def _of_month(
    pool: Pool, plan: PricePlan, month: Month, open_: Month, sequence: int
) -> Iterable[Posting]:
    """What reverses the lines of the plans that held before, and the lines that take their place."""
    before = timeline(pool=pool, start=month.start, end=month.end, without=plan)
    end = plan.end or month.end
    replaced = {
        segment.plan.pk
        for segment in before.segments
        if segment.plan is not None and segment.start < end and plan.start < segment.end
    }
    live = (
        Posting.objects.filter(
            pool=pool, service_month=month.first, kind__in=_FROM_ENTRIES, plan__in=replaced
        )
        .exclude(
            Q(pk__in=Posting.objects.filter(pool=pool, reverses__isnull=False).values("reverses"))
        )
        .select_related("plan")
        .order_by("id")
    )
    for line in live:
        yield _reversal(line, open_)
    prices = timeline(pool=pool, start=month.start, end=month.end)
    priced = Priced(pool, prices, month)
    affected = replaced | {plan.pk}
    uses = used_between(pool=pool, edges=prices.edges, increments=prices.increments, upto=sequence)
    for use in uses:
        holds = prices.segments[use.segment].plan
        if use.kind == Kind.USAGE and holds is not None and holds.pk in affected:
            priced.add(use)
    yield from priced.lines(LineKind.RERATED, month=open_, units=units_of(pool))


def _reversal(line: Posting, month: Month) -> Posting:
    kept = ("pool", "service_month", "tenant_id", "owner_id", "plan", "resource", "unit", "start",
            "end", "price", "currency", "note")  # fmt: skip
    return Posting(
        **{name: getattr(line, name) for name in kept},
        **{name: -getattr(line, name) for name in _NEGATED},
        month=month.first,
        kind=LineKind.REVERSAL,
        reverses=line.pk,
    )


def _changes(pool: Pool, lines: Sequence[Posting]) -> list[dict[str, Any]]:
    """What each tenant's account was charged for that time before, and is now."""
    sums: dict[int, list[Decimal]] = {}
    for line in lines:
        for key, amount in (
            (line.tenant_id, line.tenant_amount),
            (line.owner_id, line.owner_amount),
        ):
            if key is not None and amount:
                both = sums.setdefault(key, [Decimal(0), Decimal(0)])
                if line.kind == LineKind.REVERSAL:
                    both[0] -= amount
                else:
                    both[1] += amount
    slugs = dict(Tenant.objects.filter(pk__in=sums).values_list("pk", "slug"))
    digits = minor_digits(pool)
    return [
        {
            "tenant": slugs[key],
            "before": money_text(before, digits),
            "after": money_text(after, digits),
            "difference": money_text(after - before, digits),
        }
        for key, (before, after) in sorted(sums.items(), key=lambda item: slugs[item[0]])
    ]
