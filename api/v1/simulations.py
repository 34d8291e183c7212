"""Simulations of the decision that a pool would get after changes."""

from decimal import Decimal
from http import HTTPStatus
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.models import Simulation, SimulationStatus
from allocator_service.allocation.policies import plain_options
from allocator_service.allocation.what_if.simulations import (
    simulation_get,
    simulation_request,
    simulations_of,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unacceptable
from allocator_service.core.labels import LABEL_LENGTH
from allocator_service.core.quantities import decimal_text
from allocator_service.core.selecting import missing
from allocator_service.pools.limits import MAX_LIMITS
from allocator_service.workloads.gangs import MAX_KINDS, MAX_PIECES
from api.auth import OPERATOR_AND_TENANT
from api.contract import documents
from api.contract.fields import uuid_or_none
from api.contract.operations import accepts, lists, shows
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.resources import PoolResource
from api.v1.costs import ChangeCostDocument, CostReader
from api.v1.limits import UnmetGuarantee
from api.v1.members import tier_field
from api.v1.pools import PolicyFields
from api.v1.run_documents import MAX_ROWS
from api.v1.workloads import PRIORITY, TASKS
from api.views import ContractView, writes

MAX_CHANGES = 1_000
# Up to here each whole number is exact in JSON, whose readers use doubles.
MAX_COUNT = 2**53
# The value of a field that was left out, where null means something else.
OMITTED = object()


class AddedServer(documents.Document):
    name = documents.TextField(max_length=253)
    contributed_by = documents.SlugField(required=False, allow_null=True)
    capacity = documents.PoolQuantitiesField()
    labels = documents.LabelsField(default=dict)
    count = documents.IntegerField(minimum=1, maximum=100_000, default=1)


class ServerChanges(documents.Document):
    add = documents.ListField(AddedServer, min_items=0, max_items=MAX_CHANGES, required=False)
    drain = documents.ids_field(max_items=MAX_CHANGES, required=False, description="Servers.")
    retire = documents.ids_field(max_items=MAX_CHANGES, required=False, description="Servers.")


def _dates_refused(kind: str) -> dict[str, tuple[str, str]]:
    """Return the code and detail for each date of an amount, which a simulation cannot have."""
    reason = "a simulation is of one instant. State the amounts in force at that instant."
    return {
        name: (f"{kind}.interval", f'"{name}" cannot be given here: {reason}')
        for name in ("from", "to")
    }


class LimitInForce(documents.Document):
    refused_names = _dates_refused("limit")
    where = documents.SelectorField(default=dict)
    amount = documents.PoolQuantitiesField()


class GuaranteeInForce(LimitInForce):
    refused_names = _dates_refused("guarantee")


class LoanInForce(LimitInForce):
    refused_names = _dates_refused("lend")


_IN_FORCE = {"limit": LimitInForce, "guarantee": GuaranteeInForce, "lend": LoanInForce}


def amounts_in_force(kind: str = "limit") -> documents.ListField:
    """Describe the limits, guarantees or loans that a what-if assumes."""
    return documents.ListField(
        _IN_FORCE[kind],
        min_items=0,
        max_items=MAX_LIMITS,
        code=f"{kind}.too_many",
        required=False,
        description="Entries that replace all those in force.",
    )


class SubmittedPiece(documents.Document):
    count = documents.IntegerField(minimum=1, maximum=MAX_PIECES, default=1)
    demand = documents.PoolQuantitiesField(description="Demand of one piece.")


class SubmittedWorkload(documents.Document):
    tenant = documents.SlugField(
        required=False, description="Optional for a tenant's key, which means itself."
    )
    name = documents.TextField(max_length=253)
    demand = documents.PoolQuantitiesField(
        required=False, description="Of one task. Leave it out where pieces are given."
    )
    pieces = documents.ListField(
        SubmittedPiece, max_items=MAX_KINDS, code="workload.pieces", default=lambda: OMITTED
    )
    per_server = documents.IntegerField(minimum=1, maximum=MAX_PIECES, default=lambda: OMITTED)
    together = documents.TextField(max_length=LABEL_LENGTH, required=False)
    at_least = documents.IntegerField(minimum=1, maximum=MAX_PIECES, default=1)
    tasks = documents.IntegerField(**TASKS, required=False)
    priority = documents.IntegerField(**PRIORITY, default=0)
    server_selector = documents.SelectorField(default=dict)
    limit = amounts_in_force()


class ChangedWorkload(documents.Document):
    id = documents.IdField()
    demand = documents.PoolQuantitiesField(
        required=False, description="Of one task. With pieces it is their sum."
    )
    pieces = documents.ListField(
        SubmittedPiece,
        min_items=0,
        max_items=MAX_KINDS,
        code="workload.pieces",
        allow_null=True,
        default=lambda: OMITTED,
        description="Instead of the present ones. Empty or null: tasks of one piece, without"
        " `per_server` and `together`.",
    )
    per_server = documents.IntegerField(
        minimum=1,
        maximum=MAX_PIECES,
        allow_null=True,
        default=lambda: OMITTED,
        description="Most pieces of one task on one server; null is any number.",
    )
    together = documents.TextField(
        max_length=LABEL_LENGTH,
        blank=True,
        required=False,
        description="Label of servers. Empty is any servers.",
    )
    at_least = documents.IntegerField(minimum=1, maximum=MAX_PIECES, required=False)
    tasks = documents.IntegerField(**TASKS, default=lambda: OMITTED)
    priority = documents.IntegerField(**PRIORITY, required=False)
    server_selector = documents.SelectorField(required=False)
    limit = amounts_in_force()


class WorkloadChanges(documents.Document):
    submit = documents.ListField(
        SubmittedWorkload, min_items=0, max_items=MAX_CHANGES, required=False
    )
    change = documents.ListField(
        ChangedWorkload, min_items=0, max_items=MAX_CHANGES, required=False
    )
    withdraw = documents.ids_field(max_items=MAX_CHANGES, required=False, description="Workloads.")


class ChangedMember(documents.Document):
    tenant = documents.SlugField()
    weight = documents.NumberField(required=False)
    best_effort = documents.BooleanField(required=False)
    group = documents.SlugField(
        default=lambda: OMITTED, allow_null=True, description="null: the pool itself."
    )
    tier = tier_field(required=False)
    guarantee = amounts_in_force("guarantee")
    limit = amounts_in_force()
    lend = amounts_in_force("lend")
    own_servers = documents.BooleanField(required=False)


class ChangedGroup(documents.Document):
    group = documents.SlugField()
    parent = documents.SlugField(
        default=lambda: OMITTED, allow_null=True, description="null: the pool itself."
    )
    weight = documents.NumberField(required=False)
    tier = tier_field(required=False)
    guarantee = amounts_in_force("guarantee")
    limit = amounts_in_force()


class SimulationRequest(documents.Document):
    policy = documents.DocumentField(PolicyFields, required=False)
    weights = documents.ChoiceField(choices=["explicit", "contribution"], required=False)
    own_servers = documents.BooleanField(required=False)
    count = documents.ChoiceField(choices=["total", "above"], required=False)
    groups = documents.ListField(ChangedGroup, min_items=0, max_items=MAX_CHANGES, required=False)
    members = documents.ListField(ChangedMember, min_items=0, max_items=MAX_CHANGES, required=False)
    servers = documents.DocumentField(ServerChanges, required=False)
    workloads = documents.DocumentField(WorkloadChanges, required=False)


class ShareDocument(documents.Document):
    share = documents.NumberField()
    weighted_share = documents.NumberField(allow_null=True)


class TenantComparison(documents.Document):
    tenant = documents.TextField(max_length=253)
    before = documents.DocumentField(ShareDocument, allow_null=True)
    after = documents.DocumentField(ShareDocument, allow_null=True)


class TasksDocument(documents.Document):
    id = documents.IdField(allow_null=True)
    tasks = documents.NumberField()
    limited_by = documents.LimitedByField()


class WorkloadComparison(documents.Document):
    tenant = documents.TextField(max_length=253)
    workload = documents.TextField(max_length=253)
    before = documents.DocumentField(TasksDocument, allow_null=True)
    after = documents.DocumentField(TasksDocument, allow_null=True)


class LostGangDocument(documents.Document):
    tenant = documents.TextField(max_length=253)
    workload = documents.TextField(max_length=253)
    least_tasks = documents.IntegerField(
        minimum=0,
        maximum=MAX_COUNT,
        description="Least number of tasks that end. A decision does not record which pieces are of one"
        " task.",
    )
    tasks = documents.IntegerField(
        minimum=1,
        maximum=MAX_COUNT,
        description="Most tasks that end, each with all of its pieces.",
    )
    pieces = documents.IntegerField(
        minimum=1, maximum=MAX_COUNT, description="Pieces of `tasks`, on all servers."
    )
    pieces_on_servers = documents.IntegerField(
        minimum=1, maximum=MAX_COUNT, description="Pieces on the servers that drain or retire."
    )
    detail = documents.TextField(max_length=1_000)


class OutcomeDocument(documents.Document):
    min_weighted_share = documents.NumberField(allow_null=True)
    jain_index = documents.NumberField(allow_null=True)
    utilization = documents.PoolQuantitiesField()
    guarantees_unmet = documents.ListField(
        UnmetGuarantee,
        min_items=0,
        required=False,
        description="Guarantees that are not met in full, as in the summary of a decision. Absent if"
        " all are met.",
    )


class OutcomesDocument(documents.Document):
    before = documents.DocumentField(OutcomeDocument)
    after = documents.DocumentField(OutcomeDocument)


class ResultDocument(documents.Document):
    tenants = documents.ListField(TenantComparison, min_items=0, max_items=MAX_ROWS)
    workloads = documents.ListField(WorkloadComparison, min_items=0, max_items=MAX_ROWS)
    summary = documents.DocumentField(
        OutcomesDocument,
        allow_null=True,
        description="Outcome for the pool, before and after. null for a tenant.",
    )
    lost = documents.ListField(
        LostGangDocument,
        min_items=0,
        max_items=MAX_ROWS,
        description="Running tasks of several pieces that end because a piece is on a server that the"
        " simulation drains or retires.",
    )
    cost = documents.DocumentField(
        ChangeCostDocument,
        allow_null=True,
        description="Cost of all that the tenant that asked for the simulation uses in the pool, at the"
        " prices in force when it is read. Operators see the cost of that tenant. null if an operator"
        " asked for the simulation, or without a price plan.",
    )


def _visible_result(simulation: Simulation, context: Any) -> Any:
    """Return the result. A tenant sees its own rows of it and nothing of the whole pool."""
    if simulation.result is None:
        return None
    # A simulation of a release before this one has no `lost`.
    result, tenant = {"lost": [], **simulation.result}, context.tenant
    cost = context.change_cost(simulation, result.get("uses"))
    if tenant is None:
        return {**result, "cost": cost}
    return {
        "cost": cost,
        "tenants": [row for row in result["tenants"] if row["tenant"] == tenant.slug],
        "workloads": [row for row in result["workloads"] if row["tenant"] == tenant.slug],
        "summary": None,
        "lost": [row for row in result["lost"] if row["tenant"] == tenant.slug],
    }


class SimulationDocument(documents.Document):
    id = documents.IdField()
    pool = documents.SlugField(source="pool.slug")
    status = documents.ChoiceField(choices=SimulationStatus.values)
    generation = documents.GenerationField(
        allow_null=True,
        description="Of the pool it started from.",
    )
    changes = documents.ObjectField()
    created_at = documents.TimestampField()
    finished_at = documents.TimestampField(allow_null=True)
    result = documents.DocumentField(ResultDocument, source=_visible_result, allow_null=True)
    error = documents.ObjectField(
        allow_null=True, description="`code`, `detail` and `errors` as of a problem."
    )


RETRY_SECONDS = "1"
NULLABLE = {"tasks", "group", "parent", "per_server", "pieces"}


class SimulationsView(CostReader, PoolResource):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT, "POST": OPERATOR_AND_TENANT}
    parameters = PageParameters
    document = SimulationDocument
    ordering = by_id("simulations", descending=True)

    def queryset(self) -> QuerySet[Simulation]:
        return simulations_of(pool=self.pool, tenant=self.tenant)

    @lists(SimulationDocument, "List the simulations of a pool, newest first")
    def get(self, request: Request, pool: str) -> Response:
        """List the simulations of a pool, newest first.

        An operator sees all of them; a tenant key sees those that the tenant asked for, with its
        own rows of the results.
        """
        return self.answer_list()

    @accepts(SimulationRequest, SimulationDocument, "Ask what changes of a pool would do")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Ask what a pool's decision would be after some changes to its live state.

        A worker computes it; follow `Location` for the result, before and after. It decides nothing
        and records no event. A tenant key can change its own workloads only (422
        `simulation.scope`). An operator can also change servers, groups, members, weights and the
        policy. With 20 simulations already waiting in the pool, counted per tenant and for all operators
        together, the answer is 409 `simulation.too_many`.
        """
        simulation = simulation_request(
            pool=self.pool, tenant=self.tenant, changes=self._changes(), now=utc_now()
        )
        return Response(
            self.write(simulation),
            HTTPStatus.ACCEPTED,
            headers={
                "Location": reverse("simulation", args=[simulation.pk]),
                "Retry-After": RETRY_SECONDS,
                # The changes are applied to at least this state, which a caller may compare with
                # `generation`.
                "Pool-Generation": str(self.pool.generation),
            },
        )

    def _changes(self) -> dict[str, Any]:
        """Return the changes in the body. A tenant's key may omit its own tenant."""
        read = self.read(SimulationRequest)
        if read["policy"] is not None:
            # Bodies are read with exact decimals, which neither policies nor JSON columns take.
            read["policy"]["options"] = plain_options(read["policy"]["options"])
        changes: dict[str, Any] = _named(read)
        for position, submitted in enumerate(changes.get("workloads", {}).get("submit", [])):
            # Removed as null by `_named`: an operator has to name the tenant, a tenant's key means
            # its own.
            if "tenant" not in submitted:
                if self.tenant is None:
                    raise Unacceptable(
                        '"tenant" is required.',
                        code="field.required",
                        pointer=f"/workloads/submit/{position}/tenant",
                    )
                submitted["tenant"] = self.tenant.slug
        return changes


class SimulationView(CostReader, ContractView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT}
    of_a_pool = ("GET",)

    @shows(SimulationDocument, "Show a simulation", headers=())
    def get(self, request: Request, simulation: str) -> Response:
        """Show a simulation and, once it succeeded, its result before and after the changes.

        A failed one states why in `error`, such as a change that the pool cannot take. A tenant key
        sees the simulations that the tenant asked for, with its own rows and without the pool's
        summary; any other id answers 404 `simulation.not_found`.
        """
        simulation_id = uuid_or_none(simulation)
        if simulation_id is None:
            raise missing("simulation.not_found")
        found = simulation_get(simulation_id=simulation_id, tenant=self.tenant)
        # The path names no pool, so that the binding of the key is compared with the simulation's.
        if self.caller.pool not in ("", found.pool.slug):
            raise missing("simulation.not_found")
        return Response(SimulationDocument.write(found, self))


def _named(value: Any) -> Any:
    """A document without the fields that were left out.

    `NULLABLE` fields may be null. Ids and exact numbers become texts, as JSON keeps them.
    """
    if isinstance(value, dict):
        return {
            key: _named(item)
            for key, item in value.items()
            if item is not OMITTED and (item is not None or key in NULLABLE)
        }
    if isinstance(value, list):
        return [_named(item) for item in value]
    if isinstance(value, Decimal):
        return decimal_text(value)
    return str(value) if isinstance(value, UUID) else value
