"""Feeds, lists that clients follow without end and exactly once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from rest_framework.response import Response

from api.auth import EVERY_SCOPE
from api.contract import documents
from api.contract.fields import uuid_or_none
from api.contract.pagination import Page, bad_cursor, cursor_position, make_cursor
from api.contract.parameters import DEFAULT_LIMIT, MAX_LIMIT, Parameters
from api.views import ContractView


class FeedParameters(Parameters):
    """The parameters of a feed, its cursor and page size."""

    after = documents.TextField(
        max_length=500, required=False, description="The `next_cursor` of the last page."
    )
    limit = documents.IntegerField(
        minimum=1, maximum=MAX_LIMIT, default=DEFAULT_LIMIT, description="Rows of a page."
    )


class FeedView(ContractView):
    """A list in its final order, with `next_cursor` on every page, even an empty one."""

    scopes: ClassVar = {"GET": EVERY_SCOPE}
    parameters = FeedParameters
    cursor_parameter = "after"
    feed: ClassVar[str]

    def answer_feed(
        self,
        rows_after: Callable[[UUID | None, int], Sequence[Any]],
        row_id: Callable[[Any], object],
        document: Callable[[Any], Mapping[str, Any]],
        columns: Sequence[str],
    ) -> Response:
        """The page after the cursor that was given, of as many rows as were asked for.

        Args: `rows_after` takes the id of the last row that was seen, or None, and how many rows.
        """
        after, limit = self.query["after"], self.query["limit"]
        # One row more than is shown states whether another page follows, without counting all.
        rows = rows_after(None if after is None else row_in(self.feed, after), limit + 1)
        shown = rows[:limit]
        # An empty page repeats the cursor, so that clients store it without looking at the rows.
        cursor = make_cursor(self.feed, str(row_id(shown[-1]))) if shown else after
        page = Page(shown, cursor if len(rows) > limit else None)
        response = self.listing(page, document, columns)
        response.data["next_cursor"] = cursor
        if cursor is not None:
            response["X-Next-Cursor"] = cursor
        return response


def row_in(feed: str, cursor: str) -> UUID:
    """The id of the row that a cursor of the feed stands after. Raises `Unreadable`."""
    position = cursor_position(feed, cursor)
    found = uuid_or_none(position) if isinstance(position, str) else None
    if found is None:
        raise bad_cursor()
    return found
