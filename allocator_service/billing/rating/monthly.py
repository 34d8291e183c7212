"""What a month costs beside usage: commitments and fixed costs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Context, Decimal
from fractions import Fraction

from allocator_service.billing.models import Commitment, LineKind, Posting
from allocator_service.billing.months import Month, month_of
from allocator_service.billing.plans.timeline import Timeline
from allocator_service.billing.rating.amounts import Use, seconds
from allocator_service.billing.rating.lines import HOUR_SECONDS, minor_digits
from allocator_service.core.money import divided, rounded
from allocator_service.ledger.amounts.intervals import EXACT_DIGITS
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Pool

_EXACT = Context(prec=EXACT_DIGITS)
_NOTHING = Decimal(0)


def committed(
    *,
    pool: Pool,
    month: Month,
    prices: Timeline,
    commitments: Sequence[Commitment],
    uses: Sequence[Use],
    units: Mapping[str, str],
    now: datetime,
) -> tuple[list[Use], list[Posting]]:
    """The uses less what commitments cover, and the lines of the commitments.

    Use of the pool's own servers is covered, in each segment as far as the committed quantity goes;
    what is left of that until `now` is unused, in a line of its own.
    """
    left = {
        (use.tenant, use.resource, use.segment): use
        for use in uses
        if use.owner is None and use.kind == Kind.USAGE
    }
    rest = {key: (use.amount, use.counted) for key, use in left.items()}
    lines: list[Posting] = []
    for commitment in commitments:
        covered = unused = counted = _NOTHING
        for number, segment in enumerate(prices.segments):
            start = max(segment.start, commitment.start)
            end = min(segment.end, commitment.end, now)
            if start >= end:
                continue
            promised = _EXACT.multiply(commitment.quantity, seconds(end - start))
            key = (commitment.tenant_id, commitment.resource, number)
            used, of_steps = rest.get(key, (_NOTHING, _NOTHING))
            part = max(_NOTHING, min(used, promised))
            if part:
                # Steps beyond what is covered are paid at the plan's prices with the rest.
                steps = _EXACT.subtract(of_steps, used) if part == used else _NOTHING
                rest[key] = (
                    _EXACT.subtract(used, part),
                    _EXACT.subtract(of_steps, _EXACT.add(part, steps)),
                )
                covered = _EXACT.add(covered, part)
                counted = _EXACT.add(counted, _EXACT.add(part, steps))
            unused = _EXACT.add(unused, _EXACT.subtract(promised, part))
        for kind, amount, paid in (
            (LineKind.COMMITMENT, covered, counted),
            (LineKind.UNUSED, unused, unused),
        ):
            if amount:
                charge = rounded(
                    Fraction(paid) * Fraction(commitment.price) / HOUR_SECONDS, minor_digits(pool)
                )
                lines.append(
                    _line(pool, month, commitment, kind, units, charge, charge, amount=amount)
                )
        upfront = _upfront(pool, month, commitment, units)
        if upfront is not None:
            lines.append(upfront)
    uncovered = [
        use
        if left.get((use.tenant, use.resource, use.segment)) is not use
        else use._replace(
            amount=rest[use.tenant, use.resource, use.segment][0],
            counted=rest[use.tenant, use.resource, use.segment][1],
        )
        for use in uses
    ]
    return uncovered, lines


def _upfront(
    pool: Pool, month: Month, commitment: Commitment, units: Mapping[str, str]
) -> Posting | None:
    """What is paid in the term's first month, and in every month its part of that."""
    if not commitment.upfront:
        return None
    first = month_of(commitment.start, pool.timezone).first == month.first
    effective = _spread(pool, commitment, month.end) - _spread(pool, commitment, month.start)
    billed = rounded(Fraction(commitment.upfront), minor_digits(pool)) if first else _NOTHING
    return _line(pool, month, commitment, LineKind.UPFRONT, units, billed, effective)


def _spread(pool: Pool, commitment: Commitment, until: datetime) -> Decimal:
    """The part of what was paid upfront that falls on the term until an instant, per second."""
    passed = max(commitment.start, min(until, commitment.end)) - commitment.start
    part = Fraction(seconds(passed)) / Fraction(seconds(commitment.end - commitment.start))
    whole = rounded(Fraction(commitment.upfront), minor_digits(pool))
    return rounded(Fraction(whole) * part, minor_digits(pool))


def _line(
    pool: Pool,
    month: Month,
    commitment: Commitment,
    kind: LineKind,
    units: Mapping[str, str],
    billed: Decimal,
    effective: Decimal,
    amount: Decimal = _NOTHING,
) -> Posting:
    return Posting(
        pool=pool,
        month=month.first,
        service_month=month.first,
        kind=kind,
        tenant_id=commitment.tenant_id,
        plan_id=commitment.plan_id,
        resource=commitment.resource,
        unit=units.get(commitment.resource, ""),
        start=max(commitment.start, month.start),
        end=min(commitment.end, month.end),
        amount=amount,
        price=None if kind == LineKind.UPFRONT else commitment.price,
        currency=pool.currency,
        tenant_amount=billed,
        pool_amount=-billed,
        effective=effective,
        note=f"commitment {commitment.pk}",
    )


def fixed_cost_lines(*, pool: Pool, month: Month, prices: Timeline) -> list[Posting]:
    """Each plan's fixed costs, for its part of the month's seconds, divided by largest remainder."""
    lasts: dict[object, Decimal] = {}
    plans = {}
    for segment in prices.segments:
        if segment.plan is not None:
            key = segment.plan.pk
            plans[key] = segment.plan
            lasts[key] = lasts.get(key, _NOTHING) + seconds(segment.end - segment.start)
    whole = Fraction(seconds(month.end - month.start))
    lines = []
    for key, plan in plans.items():
        for cost in plan.fixed_costs.all():
            part = Fraction(cost.amount) * Fraction(lasts[key]) / whole
            digits = minor_digits(pool)
            shares = [Fraction(share) for _, share in cost.tenants]
            amounts = divided(rounded(part, digits), shares, digits)
            for (tenant, _), amount in zip(cost.tenants, amounts, strict=True):
                lines.append(
                    Posting(
                        pool=pool,
                        month=month.first,
                        service_month=month.first,
                        kind=LineKind.FIXED,
                        tenant_id=tenant,
                        plan=plan,
                        start=max(plan.start, month.start),
                        end=min(plan.end or month.end, month.end),
                        currency=pool.currency,
                        tenant_amount=amount,
                        pool_amount=-amount,
                        effective=amount,
                        note=cost.name,
                    )
                )
    return lines
