"""Exact sums over the ledger within a period, equal to those that a reader of the feed computes.

An entry counts with its overlap with the period: quantity × the seconds of the overlap. A quantity
has 12 fractional digits and seconds have 6, so the product has at most the 18 that amounts have:
nothing is rounded. A correction counts over the interval of the entry that it corrects, as what
that entry was (`usage` or `alone`). Entries that are not sealed yet are in no feed and count in no
report.
"""

from collections.abc import Iterable
from decimal import Decimal, localcontext
from typing import TypeVar

from allocator_service.core.quantities import EXACT_DIGITS
from allocator_service.ledger.amounts.intervals import Amounts, Use
from allocator_service.ledger.amounts.rate_changes import amounts_between
from allocator_service.ledger.reporting.limits import amounts_unless_too_long
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

K = TypeVar("K")


def amounts_within(
    *, pool: Pool, period: Period, tenant: Tenant | None = None, values: int
) -> Amounts[Use]:
    """Return the sums of a pool's sealed entries, or of one tenant's, in every interval of a period.

    Raises `Unacceptable` if a report with this number of `values` per tenant would be too long.
    """
    return amounts_unless_too_long(
        lambda edges: amounts_between(pool=pool, edges=edges, tenant=tenant),
        period=period,
        row=lambda use: use.tenant,
        values=values,
    )


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum, without rounding to the context's precision."""
    with localcontext(prec=EXACT_DIGITS):
        return sum(amounts, Decimal(0))


def exact_sums(parts: Iterable[tuple[K, Decimal]]) -> dict[K, Decimal]:
    """Return the exact sums by key."""
    sums: dict[K, Decimal] = {}
    with localcontext(prec=EXACT_DIGITS):
        for key, amount in parts:
            sums[key] = sums.get(key, Decimal(0)) + amount
    return sums


def ratio(part: Decimal, whole: Decimal) -> float:
    """Return the quotient as the nearest double. `whole` must not be 0."""
    with localcontext(prec=EXACT_DIGITS):
        return float(part / whole)
