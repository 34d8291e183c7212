"""How much one report may answer."""

from allocator_service.core.errors import Unacceptable

MAX_CELLS = 200_000


def refuse_too_long(cells: int) -> None:
    """Raise `Unacceptable` for a report of more values than one answer takes."""
    if cells > MAX_CELLS:
        raise Unacceptable(
            f"The report would have {cells} values; at most {MAX_CELLS} are answered: choose a longer"
            " step, a shorter period or one tenant.",
            code="report.too_long",
        )
