"""Events: what happened, in the order in which it was committed, each once for whoever follows."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.models import Event
from allocator_service.core.outbox import events_after
from allocator_service.pools.selectors import pools_for
from api.auth import EVERY_SCOPE
from api.describing import feeds
from api.documents import StrictSerializer
from api.fields import IdField, IntegerField, SlugField, TextField, TimestampField, uuid_or_none
from api.pagination import Page, bad_cursor, cursor_position, make_cursor
from api.parameters import DEFAULT_LIMIT, MAX_LIMIT, Parameters
from api.structures import ObjectField
from api.views import ContractView

FEED = "events"


class EventDocument(StrictSerializer):
    id = IdField()
    kind = TextField(max_length=100)
    pool = SlugField(allow_null=True)
    tenant = SlugField(allow_null=True)
    payload = ObjectField()
    occurred_at = TimestampField()


class FeedParameters(Parameters):
    """Of a feed: after which row it goes on, for ever."""

    after = TextField(
        max_length=500, required=False, help_text="The `next_cursor` of the last page."
    )
    limit = IntegerField(minimum=1, maximum=MAX_LIMIT, default=DEFAULT_LIMIT)


class EventsView(ContractView):
    """A feed: `next_cursor` is there on an empty page too, and stays valid."""

    scopes: ClassVar = {"GET": EVERY_SCOPE}
    parameters = FeedParameters
    listed = True
    cursor_parameter = "after"

    @feeds(EventDocument, "Follow what happens")
    def get(self, request: Request) -> Response:
        after, limit = self.query["after"], self.query["limit"]
        events = events_after(
            None if after is None else _position(after),
            tenant=None if self.tenant is None else self.tenant.slug,
            pools=[] if self.tenant is None else [pool.slug for pool in pools_for(self.tenant)],
            limit=limit + 1,
        )
        shown = events[:limit]
        cursor = make_cursor(FEED, str(shown[-1].pk)) if shown else after
        more = len(events) > limit
        response = self.listing(
            Page(shown, cursor if more else None), _document, list(EventDocument.strict_fields())
        )
        response.data["next_cursor"] = cursor
        if cursor is not None:
            response["X-Next-Cursor"] = cursor
        return response


def _position(cursor: str) -> Any:
    position = cursor_position(FEED, cursor)
    event_id = uuid_or_none(position) if isinstance(position, str) else None
    if event_id is None:
        raise bad_cursor()
    return event_id


def _document(event: Event) -> dict[str, Any]:
    return {
        "id": event.pk,
        "kind": event.kind,
        "pool": event.pool,
        "tenant": event.tenant,
        "payload": event.payload,
        "occurred_at": event.occurred_at,
    }
