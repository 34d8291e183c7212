"""Reratings of closed months by a backdated plan, with lines in the open month."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from allocator_service.billing.models import (
    Closing,
    LineKind,
    PlanState,
    Posting,
    PricePlan,
    Rerating,
)
from allocator_service.billing.months import month_of
from allocator_service.billing.plans.services import plan_number
from allocator_service.billing.rating.differences import Difference, differences
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.rating.months import month_rated
from allocator_service.billing.statements.documents import money_text
from allocator_service.billing.statements.drafting import billed_lines, closings_of
from allocator_service.core.audit import audit_record
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.locks import Lock, lock_in_transaction
from allocator_service.core.money import exactly
from allocator_service.core.outbox import event_record
from allocator_service.core.planning import without_time_limit
from allocator_service.pools.models import Pool
from allocator_service.pools.moving import refuse_moved
from allocator_service.tenants.models import Tenant


def reratings_of(pool: Pool) -> QuerySet[Rerating]:
    """Return the pool's reratings."""
    return Rerating.objects.filter(pool=pool).select_related("pool")


def rerating_preview(
    *, pool: Pool, plan: PricePlan, reason: str, now: datetime
) -> tuple[Rerating, bool]:
    """Return the result of `rerating_apply` without storing it. Raises as `rerating_apply`."""
    with transaction.atomic():
        answer = rerating_apply(pool=pool, plan=plan, reason=reason, now=now)
        # The preview runs the whole application and undoes it, so that the two cannot differ.
        transaction.set_rollback(True)
    return answer


@transaction.atomic
def rerating_apply(
    *, pool: Pool, plan: PricePlan, reason: str, now: datetime
) -> tuple[Rerating, bool]:
    """Rate the closed months of a draft's interval again at its prices, and post the difference.

    Returns the rerating, and whether it is new. Idempotent: a plan is applied once. Raises `Conflict`
    for a published plan, and `Unacceptable` for a plan that reaches beyond the closed months, or without
    a reason.
    """
    refuse_moved(pool.pk)
    lock_in_transaction(Lock.BILLING, pool.slug)
    # Under the lock: of two callers, the second finds the first one's rerating.
    applied = Rerating.objects.filter(plan=plan).first()
    if applied is not None:
        return applied, False
    if not reason.strip():
        raise Unacceptable("A rerating needs a reason.", code="rerating.reason", pointer="/reason")
    plan = PricePlan.objects.select_for_update(of=("self",), no_key=True).get(pk=plan.pk)
    if plan.state != PlanState.DRAFT:
        raise Conflict("The plan is published: a rerating applies a draft.", code="plan.published")
    closings = _covered_closings(pool, plan)
    # Months are read as a whole, however many entries they have.
    without_time_limit()
    plan_number(plan, PlanState.RERATED, now)
    last = closings_of(pool)[-1]
    open_ = month_of(last.start, pool.timezone).next
    months = [month_of(closing.start, pool.timezone) for closing in closings]
    found = [
        difference
        for month in months
        for difference in differences(
            # Entries after the last closing are adjusted for with the open month, and would count twice.
            rated=month_rated(pool=pool, month=month, through=last.sequence).rated.lines,
            billed=billed_lines(pool, month),
            kind=LineKind.RERATED,
            month=open_,
        )
    ]
    rerating = Rerating.objects.create(
        pool=pool,
        plan=plan,
        month=open_.first,
        sequence=last.sequence,
        months=[month.first for month in months],
        reason=reason.strip(),
        changes=_changes(pool, found),
        created_at=now,
    )
    for difference in found:
        difference.line.rerating = rerating
    # Closed statements stay as they are. The lines are on that of the open month.
    Posting.objects.bulk_create([each.line for each in found], batch_size=1_000)
    audit_record(action="rerating.apply", instance=rerating, now=now, pool=pool.slug)
    event_record(
        kind="rerating.applied",
        pool=pool.slug,
        payload={"rerating": str(rerating.pk), "price_plan": str(plan.pk)},
        now=now,
    )
    return rerating, True


def _covered_closings(pool: Pool, plan: PricePlan) -> list[Closing]:
    """Return the closed months that a plan reaches into, which must cover its whole interval."""
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


@exactly
def _changes(pool: Pool, found: Sequence[Difference]) -> list[dict[str, Any]]:
    """Return the charges of each tenant's account before and after, for the lines that differ."""
    sums: dict[int, list[Decimal]] = {}
    for difference in found:
        for side, lines in enumerate((difference.billed, difference.rated)):
            for line in lines:
                for key, amount in (
                    (line.tenant_id, line.tenant_amount),
                    (line.owner_id, line.owner_amount),
                ):
                    if key is not None and amount:
                        sums.setdefault(key, [Decimal(0), Decimal(0)])[side] += amount
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
