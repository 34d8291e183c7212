"""Sums over the ledger within a period: exact, and the same as a reader of the feed would get.

An entry counts with the part of it that lies in the period: quantity × the seconds of the overlap. A
quantity has 12 fractional digits and seconds have 6, so the product has at most the 18 that amounts
have: nothing is rounded. A correction counts over the interval of the entry that it corrects, as
what that entry was (`usage` or `alone`). Entries that are not sealed yet are in no feed and count in
no report.
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
    """The sums of the pool's sealed entries in every interval of a period; `tenant` limits them to its.

    Raises `Unacceptable` where a report with so many `values` of every tenant would be too long.
    """
    return amounts_unless_too_long(
        lambda edges: amounts_between(pool=pool, edges=edges, tenant=tenant),
        period=period,
        row=lambda use: use.tenant,
        values=values,
    )


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """The sum to the last digit, however many there are."""
    with localcontext(prec=EXACT_DIGITS):
        return sum(amounts, Decimal(0))


def exact_sums(parts: Iterable[tuple[K, Decimal]]) -> dict[K, Decimal]:
    """The sums by key, to the last digit."""
    sums: dict[K, Decimal] = {}
    with localcontext(prec=EXACT_DIGITS):
        for key, amount in parts:
            sums[key] = sums.get(key, Decimal(0)) + amount
    return sums


def ratio(part: Decimal, whole: Decimal) -> float:
    """The quotient as the nearest double; `whole` is not 0."""
    with localcontext(prec=EXACT_DIGITS):
        return float(part / whole)
