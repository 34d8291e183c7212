"""Usage in, the ledger out: each event counts exactly once, each reader gets each entry exactly once."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from http import HTTPStatus
from typing import Any, ClassVar
from uuid import UUID

from django.http import StreamingHttpResponse
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import MAX_ERRORS, FieldError, Missing, Unacceptable
from allocator_service.core.quantities import Resource, parse_quantity, vector_from
from allocator_service.ledger.exporting import entries_export
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.usage import UsageEvent, events_refuse_too_many, usage_record
from allocator_service.ledger.selectors import (
    blocks_after,
    entries_after,
    entry_get,
    position_of,
)
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_with_retired
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.selectors import workloads_named
from api.auth import EVERY_SCOPE, OPERATOR, OPERATOR_AND_BILLING, OPERATOR_AND_TENANT
from api.contract.bulk import Items, read_items, tenants_named
from api.contract.fields import uuid_or_none
from api.contract.pagination import Page, bad_cursor, make_cursor
from api.openapi.describing import creates, exports, feeds, lists, records
from api.v1.feeds import FeedView, row_in
from api.v1.ledger.parquet import copied_as, entries_streamed
from api.v1.ledger.serializers import (
    BlockDocument,
    BlockParameters,
    CorrectionRequest,
    EntryDocument,
    EntryParameters,
    ExportParameters,
    RecordedDocument,
    UsageParameters,
    UsageRequest,
    correction_document,
    entry_columns,
    entry_document,
    owner_names,
)
from api.views import ContractView, PoolView, writes

FEED = "ledger"


class UsageView(PoolView):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}
    write_parameters = UsageParameters
    large = True

    @records(UsageRequest, RecordedDocument, "Report usage")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Record usage that was measured outside the service, in a pool whose `metering` is `reported`.

        Send one event or an array of up to 10,000, late and in any order: all of them are recorded or
        none. `source` and `id` identify an event in its pool permanently. Repeat a request whose answer
        was lost: events that were recorded before count as `duplicates`, but the same identity with
        different content is refused with 409 `usage.conflict`. A pool that meters itself answers 409
        `usage.metering`. A tenant key reports for its own tenant only, and its `source` is stored as
        `tenant:<slug>/<source>`.
        """
        pool_of_route = self.pool
        items = read_items(
            UsageRequest, self.sent(), cells=False, refuse_too_many=events_refuse_too_many
        )
        recorded = usage_record(
            pool=pool_of_route,
            events=self._events(items),
            now=utc_now(),
            members_only=self.query["non_members"] == "refuse",
        )
        return Response({"accepted": recorded.accepted, "duplicates": recorded.duplicates})

    def _events(self, items: Items) -> list[UsageEvent]:
        tenants = tenants_named(
            items, "tenant", caller=self.tenant, required=True, among=tenants_with_retired()
        )
        workloads = self._workloads(items)
        resources = resources_of(self.pool)
        events: list[UsageEvent] = []
        errors: list[FieldError] = []
        for index, (fields, tenant) in enumerate(zip(items.fields, tenants, strict=True)):
            pointer = items.pointer(index)
            try:
                events.append(self._event(fields, tenant, workloads, resources, pointer))
            except Unacceptable as error:
                errors.extend(error.errors)
                if len(errors) >= MAX_ERRORS:
                    break
        if errors:
            raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:MAX_ERRORS])
        return events

    def _workloads(self, items: Items) -> dict[tuple[int, str], Workload]:
        """The workloads that are named, withdrawn ones too where no present one has the name."""
        names = {fields["workload"] for fields in items.fields} - {None}
        found = workloads_named(pool=self.pool, names=names)
        by_name: dict[tuple[int, str], Workload] = {}
        for workload in found:
            key = (workload.tenant_id, workload.name)
            present = by_name.get(key)
            if present is None or workload.state != WorkloadState.WITHDRAWN:
                by_name[key] = workload
        return by_name

    def _event(
        self,
        fields: dict[str, Any],
        tenant: Tenant | None,
        workloads: dict[tuple[int, str], Workload],
        resources: Sequence[Resource],
        pointer: str,
    ) -> UsageEvent:
        if tenant is None:
            raise Unacceptable(
                '"tenant" is required.', code="field.required", pointer=f"{pointer}/tenant"
            )
        workload = None
        if fields["workload"] is not None:
            workload = workloads.get((tenant.pk, fields["workload"]))
            if workload is None:
                raise Unacceptable(
                    f'The tenant has no workload "{fields["workload"]}" in this pool.',
                    code="workload.unknown",
                    pointer=f"{pointer}/workload",
                )
        source = fields["source"]
        return UsageEvent(
            source=source if self.tenant is None else f"tenant:{self.tenant.slug}/{source}",
            event_id=fields["id"],
            tenant=tenant,
            workload=workload,
            vector=_vector(fields, workload, resources, pointer),
            start=fields["start"],
            end=fields["end"],
            pointer=pointer,
        )


def _vector(
    fields: dict[str, Any],
    workload: Workload | None,
    resources: Sequence[Resource],
    pointer: str,
) -> list[Decimal]:
    if (fields["tasks"] is None) == (fields["resources"] is None):
        raise Unacceptable(
            "Send either tasks (of a workload) or resources.", code="usage.amount", pointer=pointer
        )
    if fields["resources"] is not None:
        return vector_from(fields["resources"], resources, pointer=f"{pointer}/resources")
    if workload is None:
        raise Unacceptable(
            "Tasks need a workload: name it.",
            code="field.required",
            pointer=f"{pointer}/workload",
        )
    with localcontext(prec=60):
        return [demand * fields["tasks"] for demand in workload.demand]


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
        return self.followed(
            lambda after, limit: entries_after(
                _position(after, self.tenant),
                caller=self.tenant,
                limit=limit,
                **{name: self.query[name] for name in ("pool", "tenant", "kind")},
            ),
            lambda row: row["id"],
            lambda row: entry_document(row, caller=self.tenant),
            entry_columns(caller=self.tenant),
        )


def _position(entry: UUID | None, caller: Tenant | None) -> int:
    """The entry's place in the sealed order; 0 is before the first."""
    position = 0 if entry is None else position_of(entry, caller=caller)
    if position is None:
        raise bad_cursor()
    return position


class ExportView(ContractView):
    """All of the ledger as one stream, from one snapshot."""

    scopes: ClassVar = {"GET": EVERY_SCOPE}
    parameters = ExportParameters
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
            _position(None if after is None else row_in(FEED, after), self.tenant),
            file_format=copied_as(renderer.format),
            columns=entry_columns(caller=self.tenant),
            caller=self.tenant,
            owners=owner_names(self.tenant),
            pool=self.query["pool"],
            tenant=self.query["tenant"],
            kind=self.query["kind"],
        )
        response = entries_streamed(export, renderer, entry_columns(caller=self.tenant))
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
        found = blocks_after(self.query["after"], pool=self.query["pool"], limit=limit + 1)
        shown = found[:limit]
        following = str(shown[-1]["number"]) if len(found) > limit else None
        return self.listing(Page(shown, following), dict, list(BlockDocument.fields))


class CorrectionsView(ContractView):
    scopes: ClassVar = {"POST": OPERATOR}

    @creates(
        CorrectionRequest,
        EntryDocument,
        "Correct an entry: the difference is a new one",
        headers=("Location",),
    )
    @writes
    def post(self, request: Request, entry: str) -> Response:
        """Correct an entry's quantity with a new entry that holds the difference.

        Only operators may. `quantity` is what the entry should have said in all, whatever was corrected
        before; the entry itself stays as it is, and the new one keeps the `reason`. A quantity that is
        right already is refused with 422 `correction.nothing`, and a correction cannot be corrected
        itself (409 `entry.correction`). If the entry's month is closed, the difference becomes an
        adjustment on the statement of the open month, at the prices of its own time.
        """
        entry_id = uuid_or_none(entry)
        if entry_id is None:
            raise Missing("There is no such entry.", code="entry.not_found")
        corrected = entry_get(entry_id=entry_id)
        fields = self.read(CorrectionRequest)
        units = {each.name: each.unit for each in resources_of(corrected.pool)}
        unit = units.get(fields["resource"], corrected.unit)
        correction = entry_correct(
            entry=corrected,
            resource=fields["resource"],
            quantity=parse_quantity(fields["quantity"], unit, pointer="/quantity"),
            reason=fields["reason"],
            now=utc_now(),
        )
        location = f"{reverse('ledger-entries')}?after={make_cursor(FEED, str(corrected.pk))}"
        return Response(
            correction_document(correction), HTTPStatus.CREATED, headers={"Location": location}
        )
