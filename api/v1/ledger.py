"""The ledger of sealed entries, and the blocks of its chain."""

from typing import ClassVar
from uuid import UUID

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.ledger.exporting import entries_export
from allocator_service.ledger.intake.chain import FORMAT_WITH_DOCUMENTS
from allocator_service.ledger.intake.sealing import SEALED_AT_ONCE
from allocator_service.ledger.selectors import (
    BEGINNING,
    Place,
    blocks_after,
    entries_after,
    place_of,
)
from allocator_service.tenants.models import Tenant
from api.auth import EVERY_SCOPE, OPERATOR_AND_BILLING
from api.contract import documents
from api.contract.operations import exports, feeds, lists
from api.contract.pagination import Page, bad_cursor, make_cursor
from api.contract.parameters import DEFAULT_LIMIT, MAX_LIMIT, Parameters
from api.v1.entry_documents import (
    MAX_SEQUENCE,
    EntryDocument,
    EntryParameters,
    entry_columns,
    entry_document,
    owner_names,
)
from api.v1.exports import copy_format, stream_entries
from api.v1.feeds import FeedView, row_in
from api.views import ContractView


class ExportParameters(Parameters):
    """The filters of an export of sealed entries."""

    after = documents.TextField(
        max_length=500, required=False, description="Begin after this cursor of the feed."
    )
    pool = EntryParameters.fields["pool"]
    tenant = EntryParameters.fields["tenant"]
    kind = EntryParameters.fields["kind"]


class BlockParameters(Parameters):
    """The parameters of a pool's chain, with the number to continue from."""

    pool = documents.SlugField(description="Slug of the pool whose chain it is, retired or not.")
    after = documents.IntegerField(
        minimum=0,
        maximum=MAX_SEQUENCE,
        default=0,
        description="Number of the last block that was read.",
    )
    limit = documents.IntegerField(
        minimum=1, maximum=MAX_LIMIT, default=DEFAULT_LIMIT, description="Blocks of a page."
    )


class ChainedDecisionDocument(documents.Document):
    """The line of a decision in its block, with the digests of `GET /runs/{run}/proof/`."""

    run = documents.IdField()
    pool = documents.SlugField()
    generation = documents.IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    effective_from = documents.TimestampField()
    input = documents.PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")
    answer = documents.PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")


class ChainedDigestDocument(documents.Document):
    """The line of a document in its block, with the digest of its stored bytes."""

    document = documents.TextField(max_length=20)
    pool = documents.SlugField()
    name = documents.TextField(max_length=200)
    sha256 = documents.PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")


class BlockDocument(documents.Document):
    pool = documents.SlugField()
    number = documents.IntegerField(minimum=1, maximum=MAX_SEQUENCE)
    format = documents.IntegerField(
        minimum=1,
        maximum=FORMAT_WITH_DOCUMENTS,
        description="1: sealed before digests were of exported lines; 3: holds digests of documents.",
    )
    first_sequence = documents.IntegerField(minimum=1, maximum=MAX_SEQUENCE, allow_null=True)
    last_sequence = documents.IntegerField(minimum=1, maximum=MAX_SEQUENCE, allow_null=True)
    entries = documents.IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    decisions = documents.ListField(ChainedDecisionDocument, min_items=0, max_items=SEALED_AT_ONCE)
    digests = documents.ListField(
        ChainedDigestDocument,
        min_items=0,
        max_items=SEALED_AT_ONCE,
        description="Digests of statements, months, manifests, price plans and audit records.",
    )
    digest = documents.PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")
    sealed_at = documents.TimestampField()


FEED = "ledger"


class EntriesView(FeedView):
    """The ledger in its sealed order."""

    feed = FEED
    parameters = EntryParameters

    @feeds(EntryDocument, "Follow the ledger")
    def get(self, request: Request) -> Response:
        """List the sealed ledger entries in their final order.

        Keep `next_cursor` and pass it as `after` next time: a client that follows it gets each entry
        exactly once, and the cursor does not expire. An entry appears within seconds of being written.
        Entries of kind `alone` are what would have been used without the pool: never bill them. A
        tenant key sees its own entries only, without `sequence` and `digest`, and other tenants in
        `server_owner` under pseudonyms.
        """
        return self.answer_feed(
            lambda after, limit: entries_after(
                _place(after, self.tenant),
                caller=self.tenant,
                limit=limit,
                **{name: self.query[name] for name in ("pool", "tenant", "kind")},
            ),
            lambda row: row["id"],
            lambda row: entry_document(row, caller=self.tenant),
            entry_columns(caller=self.tenant),
        )


def _place(entry: UUID | None, caller: Tenant | None) -> Place:
    """Return the place of an entry in the sealed order, the beginning for none."""
    place = BEGINNING if entry is None else place_of(entry, caller=caller)
    # An entry of another tenant, or one that is not sealed, has no place that the caller can know.
    if place is None:
        raise bad_cursor()
    return place


class ExportView(ContractView):
    """All of the ledger as one stream, from one snapshot."""

    scopes: ClassVar = {"GET": EVERY_SCOPE}
    parameters = ExportParameters
    # No HEAD, which would begin the export and drop it.
    http_method_names = ["get"]

    @exports("Export the ledger in one stream")
    def get(self, request: Request) -> StreamingHttpResponse:
        """Stream all sealed ledger entries from one snapshot, as CSV, NDJSON or Parquet.

        Use it for a first load or an archive, then continue with `GET /ledger-entries/` after the
        cursor in `X-Next-Cursor`. A tenant key gets its own entries only, with the same columns as in
        the feed. At most four exports run at a time: a further one is answered 503 `export.busy` with
        `Retry-After`.
        """
        after = self.query["after"]
        renderer = self.request.accepted_renderer
        export = entries_export(
            _place(None if after is None else row_in(FEED, after), self.tenant),
            file_format=copy_format(renderer.format),
            columns=entry_columns(caller=self.tenant),
            caller=self.tenant,
            owners=owner_names(self.tenant),
            pool=self.query["pool"],
            tenant=self.query["tenant"],
            kind=self.query["kind"],
        )
        response = stream_entries(export, renderer, entry_columns(caller=self.tenant))
        # That of the feed, so that a first load goes on there without a gap. An empty export
        # repeats it.
        cursor = after if export.last is None else make_cursor(FEED, str(export.last))
        if cursor is not None:
            response["X-Next-Cursor"] = cursor
        return response


class BlocksView(ContractView):
    """The chain of a pool, with which an auditor makes its digests again."""

    scopes: ClassVar = {"GET": OPERATOR_AND_BILLING}
    parameters = BlockParameters
    cursor_parameter = "after"

    @lists(BlockDocument, "List the blocks of a pool's chain")
    def get(self, request: Request) -> Response:
        """List the blocks of a pool's chain by number, each with its digest and its decisions.

        Only operator and billing keys may read them. An auditor recomputes each digest from the
        exported entries, the block's decisions and the digest of the block before; blocks of `format` 1
        cannot be recomputed from exports. Keep the `number` of the last block and pass it as `after` to
        continue. A slug that no pool has gives an empty list.
        """
        limit = self.query["limit"]
        # One more than is shown states whether another page follows.
        found = blocks_after(self.query["after"], pool=self.query["pool"], limit=limit + 1)
        shown = found[:limit]
        following = str(shown[-1]["number"]) if len(found) > limit else None
        return self.listing(Page(shown, following), dict, list(BlockDocument.fields))
