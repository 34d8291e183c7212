"""The size limit of reports."""

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime

from allocator_service.core.errors import Unacceptable
from allocator_service.ledger.amounts.intervals import Amounts, Use
from allocator_service.ledger.reporting.periods import Period

MAX_CELLS = 200_000
MANY_INTERVALS = 100


def amounts_unless_too_long(
    read: Callable[[Sequence[datetime]], Amounts[Use]],
    *,
    period: Period,
    row: Callable[[Use], Hashable],
    values: int,
) -> Amounts[Use]:
    """Read the amounts between the edges of a period.

    Raises `Unacceptable` if this number of `values` for every `row` in every interval exceeds the
    limit. For many intervals the rows are counted over the whole period first, before the intervals
    are read.
    """
    if len(period.intervals) >= MANY_INTERVALS:
        rows = {row(use) for use in read([period.start, period.end]).present}
        refuse_too_long(len(rows) * len(period.intervals) * values)
    return read(period.edges)


def refuse_too_long(cells: int) -> None:
    """Raise `Unacceptable` for a report of more than 200,000 values."""
    if cells > MAX_CELLS:
        raise Unacceptable(
            f"The report would have {cells} values; the limit is {MAX_CELLS}: choose a longer"
            " step, a shorter period or one tenant.",
            code="report.too_long",
        )
