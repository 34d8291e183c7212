"""Events, in the order in which they were committed."""

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.outbox import event_document, events_after
from allocator_service.pools.selectors import pools_for
from api.contract import documents
from api.contract.operations import feeds
from api.v1.feeds import FeedView


class EventDocument(documents.Document):
    id = documents.IdField()
    kind = documents.TextField(max_length=100)
    pool = documents.SlugField(allow_null=True)
    tenant = documents.SlugField(allow_null=True)
    payload = documents.ObjectField()
    occurred_at = documents.TimestampField()


class EventsView(FeedView):
    feed = "events"

    @feeds(EventDocument, "Follow what happens")
    def get(self, request: Request) -> Response:
        """Follow what happens, in the order in which it was committed.

        Keep `next_cursor` and send it as `after`: every event comes exactly once, however many
        clients write meanwhile, and an empty page repeats the cursor that you sent. Without `after`
        the feed starts with the oldest event that is kept. A tenant key sees its own events and
        those of its pools that concern no tenant in particular. A cursor past the retention of 90
        days answers 410 `cursor.expired`.
        """
        tenant = self.tenant
        return self.answer_feed(
            lambda after, limit: events_after(
                after,
                tenant=None if tenant is None else tenant.slug,
                pools=[] if tenant is None else [pool.slug for pool in pools_for(tenant)],
                limit=limit,
            ),
            lambda event: event.pk,
            event_document,
            list(EventDocument.fields),
        )
