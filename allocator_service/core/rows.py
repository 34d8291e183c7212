"""Objects from rows of plain SQL.

For the reads of every request, where building a query costs more than running it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import psycopg
from django.db import connection
from django.db.backends.utils import CursorDebugWrapper, CursorWrapper
from django.db.models import JSONField, Model

M = TypeVar("M", bound=Model)


class RowReader(Generic[M]):
    """Makes objects of a model from rows that hold all its columns, in the order of `columns`."""

    def __init__(self, model: type[M], alias: str) -> None:
        fields = model._meta.concrete_fields
        self._model = model
        self._names = [field.attname for field in fields]
        # Django leaves jsonb as text for its fields to read.
        self._json = [at for at, field in enumerate(fields) if isinstance(field, JSONField)]
        self.columns = ", ".join(f'{alias}."{field.column}"' for field in fields)
        self.width = len(fields)

    def read(self, row: Sequence[Any]) -> M:
        """Return the object in the first `width` values of a row."""
        values = list(row[: self.width])
        for at in self._json:
            if values[at] is not None:
                values[at] = json.loads(values[at])
        return self._model.from_db(connection.alias, self._names, values)


class Columns(Protocol):
    """A reader of objects from rows, with the columns that a row must have, in this order."""

    columns: str


def selecting(template: str, **readers: Columns) -> str:
    """Return the statement with each `{name}` replaced by the columns of the reader of that name."""
    return template.format(**{name: reader.columns for name, reader in readers.items()})


def only_row(
    statement: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """Return the first row of a statement, or None.

    The server keeps the plan of a statement that a connection has sent a few times: planning a join
    takes several times as long as running it for one row.
    """
    with _preparing_cursor() as cursor:
        cursor.execute(statement, parameters)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row


def _preparing_cursor() -> CursorWrapper:
    """Return a cursor as from `connection.cursor()` that leaves parameters to the server.

    Django's own writes them into the text, so that no two statements are the same to the server.
    """
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    wrapper = CursorDebugWrapper if connection.queries_logged else CursorWrapper
    return wrapper(psycopg.Cursor(connection.connection), connection)


def prefetched(instance: Model, relation: str, items: Sequence[Model]) -> None:
    """Give an object the items of a related manager, as `prefetch_related` does."""
    manager: Any = getattr(instance, relation)
    queryset = manager.get_queryset()
    queryset._result_cache = list(items)
    queryset._prefetch_done = True
    cache: Any = instance.__dict__.setdefault("_prefetched_objects_cache", {})
    cache[relation] = queryset
