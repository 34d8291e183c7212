"""The decision in force in a pool, and its rows."""

from datetime import datetime
from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import decision_at, decision_now, run_get, slot_in_force
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from api.auth import EVERY_SCOPE, EVERY_SCOPE_AND_GROUP, EVERY_SCOPE_GROUP_AND_AGENT
from api.contract import documents
from api.contract.fields import uuid_or_none
from api.contract.operations import lists, shows
from api.contract.pagination import bad_cursor, cursor_list
from api.contract.parameters import PageParameters, Parameters
from api.v1.run_documents import (
    AllocationDocument,
    AllocationParameters,
    PlacementDocument,
    RunDocument,
    TenantAllocationDocument,
)
from api.v1.run_inputs import reader_of
from api.v1.runs import allocations_page, placements_page
from api.v1.schedules import SlotInForceDocument, SlotReader, slot_document
from api.versions import conditional, of_decision
from api.views import PoolView


class DecisionDocument(documents.Document):
    pool = documents.SlugField()
    at = documents.TimestampField()
    generation = documents.GenerationField()
    run = documents.DocumentField(RunDocument)
    slot = documents.DocumentField(
        SlotInForceDocument,
        allow_null=True,
        description="The slot in force, for time-sharing policies.",
    )


class DecisionParameters(Parameters):
    at = documents.TimestampField(
        required=False, description="The requested instant; now by default."
    )


class DecisionView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT}
    parameters = DecisionParameters

    @conditional(of_decision)
    @shows(DecisionDocument, "Show the decision in force", headers=("Pool-Generation",))
    def get(self, request: Request, pool: str) -> Response:
        """Show the decision in force in a pool, now or at the instant `at`.

        A change is included once `generation` is at least the `Pool-Generation` that the change was
        answered with. Under `tda`, `slot` is the slot in force; a tenant key sees its own tasks in
        it. The future shows planned slots of `tda` only; without any, and before the first
        decision, the answer is 404 `decision.none`. Unless the pool is transparent, a tenant key
        and a group key see the run without its `summary`.
        """
        now = utc_now()
        at: datetime = self.query["at"] or now
        # Before the decision is read: a change in between must not look as if it were included.
        generation = self.pool.generation
        if self.query["at"] is None:
            run = decision_now(pool=self.pool, now=now)
        else:
            run = decision_at(pool=self.pool, at=at)
        slot = slot_in_force(run=run, at=at)
        # The run in force would be answered for any future, but a change may end it tomorrow.
        if at > now and slot is None:
            raise Missing("Nothing is planned for then.", code="decision.none")
        document = {
            "pool": self.pool.slug,
            "at": at,
            "generation": run.generation,
            "run": RunDocument.write(run, reader_of(self, self.pool)),
            "slot": None if slot is None else slot_document(slot, self._slot_reader(run)),
        }
        return Response(document, headers={"Pool-Generation": str(generation)})

    def _slot_reader(self, run: Run) -> SlotReader:
        if self.subtree is not None:
            places = self.subtree.of_run(run)
            return SlotReader(self.pool, {key: place.tenant for key, place in places.items()})
        own = None if self.tenant is None else {self.tenant.pk: self.tenant.slug}
        return SlotReader(self.pool, own)


class DecisionRowsView(PoolView):
    """Rows of the decision in force. The first page chooses the run, its cursors stay with it."""

    scopes: ClassVar = {"GET": EVERY_SCOPE}

    def run(self) -> Run:
        if self.query["cursor"] is None:
            return decision_now(pool=self.pool, now=utc_now())
        # Cursors name their run: pages stay with the decision of the first one.
        run_id = uuid_or_none(cursor_list(self.query["cursor"]).partition(":")[2])
        if run_id is None:
            raise bad_cursor()
        run = run_get(run_id=run_id, tenant=None if self.subtree is not None else self.tenant)
        # A cursor of another pool: its rows are not those of the path.
        if run.pool_id != self.pool.pk:
            raise bad_cursor()
        return run


class PoolAllocationsView(DecisionRowsView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    parameters = AllocationParameters

    @conditional(of_decision)
    @lists(
        AllocationDocument,
        "List what every workload has; a tenant sees its own",
        other_rows=TenantAllocationDocument,
    )
    def get(self, request: Request, pool: str) -> Response:
        """List what every workload has by the decision in force, or with `by=tenant` every tenant.

        The first page chooses the decision, and its cursors stay with it when a newer one comes
        into force. A tenant key sees its own rows; in a transparent pool it sees all of them, the
        others under pseudonyms. A group key sees the rows of the tenants that were below its group
        when the run began. Before the first decision the answer is 404 `decision.none`.
        """
        return allocations_page(self, self.run(), self.subtree)


class PoolPlacementsView(DecisionRowsView):
    parameters = PageParameters

    @conditional(of_decision)
    @lists(PlacementDocument, "List where tasks run now; a tenant sees its own", problems=(410,))
    def get(self, request: Request, pool: str) -> Response:
        """List on which servers the decision in force puts the tasks.

        The first page chooses the decision, and its cursors stay with it when a newer one comes
        into force. A row names one `server`, or in `servers` a range of identical ones, in which
        `tasks` are those on each server. A tenant key sees its own tasks; in a transparent pool it
        sees all of them, with pseudonyms for other tenants, their workloads and their servers.
        """
        return placements_page(self, self.run())
