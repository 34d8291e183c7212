"""Differences between a rerated closed month and its billed lines."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Context, Decimal
from typing import NamedTuple

from allocator_service.billing.models import LineKind, Posting
from allocator_service.billing.months import Month
from allocator_service.billing.rating.late import Late
from allocator_service.core.quantities import EXACT_DIGITS

_EXACT = Context(prec=EXACT_DIGITS)
LEGS = ("tenant_amount", "owner_amount", "fee_amount", "pool_amount", "effective")
REASON_LENGTH = 2_000


class LineKey(NamedTuple):
    """Identity that a line shares with its adjustments."""

    service_month: date
    kind: str
    tenant: int
    owner: int | None
    resource: str
    plan: object
    commitment: int | None
    name: str


def line_key(line: Posting) -> LineKey:
    """Return the key of an original line or of a difference."""
    kind = line.rated_kind
    return LineKey(
        line.service_month,
        kind,
        line.tenant_id,
        line.owner_id,
        line.resource,
        line.plan_id,
        line.commitment_key,
        # Fixed costs of a plan differ by their name alone. Other notes are texts for people.
        line.note if kind == LineKind.FIXED else "",
    )


@dataclass
class _Both:
    """Rated and billed lines of one key."""

    rated: list[Posting] = field(default_factory=list)
    billed: list[Posting] = field(default_factory=list)

    def difference(self, name: str) -> Decimal:
        sum_ = Decimal(0)
        for line in self.rated:
            sum_ = _EXACT.add(sum_, getattr(line, name))
        for line in self.billed:
            sum_ = _EXACT.subtract(sum_, getattr(line, name))
        return sum_


@dataclass(frozen=True)
class Difference:
    """Adjusting line with the rated and billed lines behind it."""

    line: Posting
    rated: Sequence[Posting]
    billed: Sequence[Posting]


def differences(
    *,
    rated: Iterable[Posting],
    billed: Iterable[Posting],
    kind: LineKind,
    month: Month,
    causes: Callable[[Posting], Sequence[Late]] | None = None,
) -> list[Difference]:
    """Return one adjusting line per key whose rated and billed amounts differ.

    The lines go to the statement of `month`. With them, the billed amounts equal the rated ones.
    """
    both: dict[LineKey, _Both] = {}
    for line in rated:
        both.setdefault(line_key(line), _Both()).rated.append(line)
    for line in billed:
        both.setdefault(line_key(line), _Both()).billed.append(line)
    found = []
    for key, of_key in both.items():
        values = {name: of_key.difference(name) for name in ("amount", *LEGS)}
        if any(values.values()):
            line = _line(key, of_key, kind, month, values)
            if causes is not None:
                _name_causes(line, causes(line))
            found.append(Difference(line, of_key.rated, of_key.billed))
    return found


def _line(
    key: LineKey, both: _Both, kind: LineKind, month: Month, values: dict[str, Decimal]
) -> Posting:
    lines = [*both.rated, *both.billed]
    like = lines[0]
    prices = {line.price for line in lines}
    return Posting(
        pool=like.pool,
        month=month.first,
        service_month=key.service_month,
        kind=kind,
        adjusted_kind=key.kind,
        tenant_id=key.tenant,
        owner_id=key.owner,
        plan=like.plan,
        resource=key.resource,
        unit=like.unit,
        start=like.start,
        end=like.end,
        # A difference of two prices is of neither.
        price=like.price if len(prices) == 1 else None,
        currency=like.currency,
        commitment_id=key.commitment,
        note=key.name,
        **values,
    )


def _name_causes(line: Posting, entries: Sequence[Late]) -> None:
    """Record the entries that caused a difference, and their reason if it is the same for all."""
    line.entries = [entry.id for entry in entries]
    if len(entries) == 1 and line.kind == LineKind.ADJUSTMENT:
        line.entry = entries[0].id
    reasons = {entry.reason for entry in entries}
    if not line.note and len(reasons) == 1:
        line.note = entries[0].reason[:REASON_LENGTH]


def causes_of(line: Posting, entries: Sequence[Late]) -> Sequence[Late]:
    """Return the late entries of a line's tenant and resource that caused it.

    Entries on the same owner's servers within the line's time take precedence. Without any, all entries
    are causes, because an entry elsewhere changes how much of a commitment is left for the line.
    """

    def overlaps(start: datetime, end: datetime) -> bool:
        return start < line.end and line.start < end

    here = [e for e in entries if e.owner == line.owner_id and overlaps(e.start, e.end)]
    return here or entries
