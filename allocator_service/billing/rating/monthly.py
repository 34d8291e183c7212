"""Commitment lines and fixed-cost lines of a month."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from allocator_service.billing.models import Commitment, LineKind, Posting
from allocator_service.billing.months import HOUR_SECONDS, Month, month_of
from allocator_service.billing.plans.timeline import Timeline
from allocator_service.billing.rating.amounts import Use, seconds
from allocator_service.billing.rating.coverage import CoverageKey, Covered
from allocator_service.billing.rating.lines import balanced, minor_digits, parts_stored
from allocator_service.core.money import divided, rounded
from allocator_service.core.quantities import EXACT_DIGITS
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Pool

_EXACT = Context(prec=EXACT_DIGITS)
_NOTHING = Decimal(0)


def uncovered(
    uses: Iterable[Use],
    covered: Mapping[CoverageKey, Covered],
    commitments: Sequence[Commitment],
) -> list[Use]:
    """Return the uses minus the amounts that commitments cover."""
    pairs = {each.pk: (each.tenant_id, each.resource) for each in commitments}
    taken: dict[tuple[int, int | None, str, int], Covered] = {}
    for key, part in covered.items():
        tenant, resource = pairs[key.commitment]
        place = (tenant, key.owner, resource, key.segment)
        increments = _EXACT.subtract(part.counted, part.amount)
        taken.setdefault(place, Covered()).add(part.amount, increments)
    rest = []
    for use in uses:
        place = (use.tenant, use.owner, use.resource, use.segment)
        of_use = taken.pop(place, None) if use.kind == Kind.USAGE else None
        rest.append(use if of_use is None else _less(use, of_use))
    # Amounts that cancel out over a segment are not in `uses`, but a part of the segment may be covered.
    for (tenant, owner, resource, segment), part in taken.items():
        none = Use(tenant, owner, resource, Kind.USAGE, segment, _NOTHING, _NOTHING)
        rest.append(_less(none, part))
    return rest


def _less(use: Use, part: Covered) -> Use:
    return use._replace(
        amount=_EXACT.subtract(use.amount, part.amount),
        counted=_EXACT.subtract(use.counted, part.counted),
    )


def commitment_lines(
    *,
    pool: Pool,
    month: Month,
    commitments: Sequence[Commitment],
    covered: Mapping[CoverageKey, Covered],
    units: Mapping[str, str],
) -> list[Posting]:
    """Return the lines of commitments.

    A commitment has a line of covered use per owner of the servers, one of unused hours and one of its
    upfront price. Covered use bears the fee of the plan with which the commitment was published.
    """
    by_owner: dict[int, dict[int | None, Covered]] = {}
    for key, part in covered.items():
        of_owner = by_owner.setdefault(key.commitment, {}).setdefault(key.owner, Covered())
        of_owner.add(part.amount, _EXACT.subtract(part.counted, part.amount))
    lines: list[Posting] = []
    for commitment in commitments:
        line = _Line(pool, month, commitment, units)
        unused = _committed_amount(month, commitment)
        for owner, part in by_owner.get(commitment.pk, {}).items():
            lines.append(line.priced(LineKind.COMMITMENT, part.amount, part.counted, owner))
            unused = _EXACT.subtract(unused, part.amount)
        if unused:
            lines.append(line.priced(LineKind.UNUSED, unused, unused))
        if commitment.upfront:
            lines.append(_upfront(line))
    return lines


def _committed_amount(month: Month, commitment: Commitment) -> Decimal:
    """Return the committed unit × seconds of a month."""
    lasts = min(commitment.end, month.end) - max(commitment.start, month.start)
    return _EXACT.multiply(commitment.quantity, seconds(lasts))


@dataclass(frozen=True)
class _Line:
    """Common fields of a commitment's lines in a month."""

    pool: Pool
    month: Month
    commitment: Commitment
    units: Mapping[str, str]

    def priced(
        self, kind: LineKind, amount: Decimal, counted: Decimal, owner: int | None = None
    ) -> Posting:
        """Return a line for unit × seconds at the commitment's price."""
        digits = minor_digits(self.pool)
        priced = Fraction(counted) * Fraction(self.commitment.price) / HOUR_SECONDS
        charge = rounded(priced, digits)
        tenant, fee = self.commitment.tenant_id, self.commitment.plan.fee
        return self.posting(
            kind,
            owner_id=owner,
            amount=amount,
            price=self.commitment.price,
            parts=parts_stored({self.commitment.price: Fraction(counted)}, amount),
            **balanced(charge, fee, tenant, owner, digits),
        )

    def posting(self, kind: LineKind, **more: Any) -> Posting:
        commitment, month = self.commitment, self.month
        return Posting(
            pool=self.pool,
            month=month.first,
            service_month=month.first,
            kind=kind,
            tenant_id=commitment.tenant_id,
            plan=commitment.plan,
            resource=commitment.resource,
            unit=self.units.get(commitment.resource, ""),
            start=max(commitment.start, month.start),
            end=min(commitment.end, month.end),
            currency=self.pool.currency,
            commitment=commitment,
            note=f"commitment {commitment.pk}",
            **more,
        )


def _upfront(line: _Line) -> Posting:
    """Return the upfront line, billed in the term's first month and effective over the whole term."""
    pool, month, commitment = line.pool, line.month, line.commitment
    first = month_of(commitment.start, pool.timezone).first == month.first
    # The difference of two rounded sums: the months of a term add up to the whole price exactly.
    effective = _spread(pool, commitment, month.end) - _spread(pool, commitment, month.start)
    billed = rounded(Fraction(commitment.upfront), minor_digits(pool)) if first else _NOTHING
    return line.posting(
        LineKind.UPFRONT, tenant_amount=billed, pool_amount=-billed, effective=effective
    )


def _spread(pool: Pool, commitment: Commitment, until: datetime) -> Decimal:
    """Return the part of the upfront price that falls on the term before an instant, by seconds."""
    passed = max(commitment.start, min(until, commitment.end)) - commitment.start
    part = Fraction(seconds(passed)) / Fraction(seconds(commitment.end - commitment.start))
    whole = rounded(Fraction(commitment.upfront), minor_digits(pool))
    return rounded(Fraction(whole) * part, minor_digits(pool))


def fixed_cost_lines(*, pool: Pool, month: Month, prices: Timeline) -> list[Posting]:
    """Return the fixed costs of each plan for its fraction of the month, split by largest remainder."""
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
            # By largest remainder: shares that are rounded one by one need not add up to the cost.
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
