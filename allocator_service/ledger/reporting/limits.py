"""How much one report may answer, and how much it may read."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError
from psycopg.errors import QueryCanceled

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


@contextmanager
def in_time() -> Iterator[None]:
    """Raise `Unacceptable` for a statement that the database gives up: it would do so again."""
    try:
        yield
    except OperationalError as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        raise Unacceptable(
            "The period has too many entries to add up while you wait: choose a shorter one, or add"
            " up the export of the ledger.",
            code="report.too_long",
        ) from error
