"""Pages of a list by key, which stay stable while rows are added.

A cursor is opaque to clients: URL-safe base64 of `[version, list, position]`. It holds nothing that
the caller has not seen in the page before.
"""

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import orjson
from django.db.models import QuerySet

from allocator_service.core.errors import Unreadable
from api.contract.fields import is_slug, uuid_or_none

CURSOR_VERSION = 1
MAX_OFFSET = 10**9
_BASE64 = re.compile(r"[A-Za-z0-9_-]{4,400}", re.ASCII)


@dataclass(frozen=True)
class Page:
    """Rows, and the cursor of the page after them if there is one."""

    rows: Sequence[Any]
    next_cursor: str | None


@dataclass(frozen=True)
class Ordering:
    """By which unique column a list is ordered, and how its cursors are read.

    `name` binds a cursor to the list: that of another list is refused. `attribute` is where a row
    carries the column's value, by default under the column's own name.
    """

    name: str
    column: str
    read: Callable[[Any], Any]
    descending: bool = False
    attribute: str = ""

    def page(self, rows: QuerySet[Any], *, cursor: str | None, limit: int) -> Page:
        """Return the page after `cursor`. Raises `Unreadable` for a cursor of another list."""
        if cursor is not None:
            comparison = "lt" if self.descending else "gt"
            position = self.read(cursor_position(self.name, cursor))
            # By key, not by OFFSET, which counts through all rows before and shifts as rows come and go.
            rows = rows.filter(**{f"{self.column}__{comparison}": position})
        found = list(
            # One more row than the page shows whether another page follows, without a count.
            rows.order_by(f"-{self.column}" if self.descending else self.column)[: limit + 1]
        )
        if len(found) <= limit:
            return Page(found, None)
        del found[limit:]
        return Page(found, make_cursor(self.name, self._position(found[-1])))

    def _position(self, row: Any) -> Any:
        value = row
        for attribute in (self.attribute or self.column).split("__"):
            value = getattr(value, attribute)
        return value


def by_id(name: str, *, descending: bool = False) -> Ordering:
    """Order by id, oldest or newest first, since UUIDv7 ascend with time."""
    return Ordering(name, "id", _id_position, descending)


def by_slug(name: str, column: str = "slug") -> Ordering:
    return Ordering(name, column, _slug_position)


class Sliced(Protocol):
    """Ordered rows, of which a slice is read."""

    def __getitem__(self, part: slice, /) -> Iterable[Any]: ...


def page_of_fixed(
    name: str, rows: Sliced | QuerySet[Any], *, cursor: str | None, limit: int
) -> Page:
    """Return a page of ordered rows that never change, whose cursor counts the rows before it."""
    start = 0 if cursor is None else _offset(cursor_position(name, cursor))
    found = list(rows[start : start + limit + 1])
    following = make_cursor(name, start + limit) if len(found) > limit else None
    return Page(found[:limit], following)


def page_of_sorted(
    name: str,
    rows: Iterable[Any],
    key: Callable[[Any], list[str]],
    *,
    cursor: str | None,
    limit: int,
) -> Page:
    """Return a page of rows by a unique key of texts, which rows that come or go do not move."""
    ordered = sorted(rows, key=key)
    start = 0
    if cursor is not None:
        # The row of the cursor may be gone: continue behind its place.
        start = bisect_right(ordered, _texts_position(cursor_position(name, cursor)), key=key)
    found = ordered[start : start + limit]
    more = start + limit < len(ordered)
    return Page(found, make_cursor(name, key(found[-1])) if more else None)


def _texts_position(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise bad_cursor()
    return value


def _offset(value: Any) -> int:
    # Clients can write cursors: what PostgreSQL would refuse must not reach it.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_OFFSET:
        raise bad_cursor()
    return value


def _id_position(value: Any) -> UUID:
    found = uuid_or_none(value) if isinstance(value, str) else None
    if found is None:
        raise bad_cursor()
    return found


def _slug_position(value: Any) -> str:
    if not isinstance(value, str) or not is_slug(value):
        raise bad_cursor()
    return value


def make_cursor(name: str, position: Any) -> str:
    content = orjson.dumps([CURSOR_VERSION, name, position])
    # Without padding, which would have to be escaped in a query.
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def cursor_position(name: str, cursor: str) -> Any:
    """Return the position in a cursor of the list `name`. Raises `Unreadable`."""
    made_for, position = _content(cursor)
    if made_for != name:
        raise bad_cursor()
    return position


def cursor_list(cursor: str) -> str:
    """Return the name of the list of a cursor. Raises `Unreadable`."""
    return _content(cursor)[0]


def _content(cursor: str) -> tuple[str, Any]:
    if not _BASE64.fullmatch(cursor):
        raise bad_cursor()
    try:
        content = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, orjson.JSONDecodeError) as error:
        raise bad_cursor() from error
    match content:
        case [version, str(made_for), position] if version == CURSOR_VERSION:
            return made_for, position
    raise bad_cursor()


def bad_cursor() -> Unreadable:
    return Unreadable(
        "The cursor is not from this list.", code="cursor.invalid",
        extra={"parameter": "cursor"},
    )  # fmt: skip
