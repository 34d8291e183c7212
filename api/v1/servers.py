"""Servers, which tenants contribute or the pool owns, and which are drained and retired."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import vector_from
from allocator_service.core.selecting import missing
from allocator_service.pools.clusters import CLUSTER_LABEL, cluster_of
from allocator_service.pools.models import Server, ServerState
from allocator_service.pools.selectors import key_pool_and_server, servers_for
from allocator_service.pools.server_services import (
    MAX_SERVERS_PER_REQUEST,
    ServerDraft,
    ServerSettings,
    server_activate,
    server_drain,
    server_retire,
    server_update,
    servers_contribute,
)
from allocator_service.tenants.models import ApiKey
from api.auth import EVERY_SCOPE_AND_AGENT, OPERATOR_AND_TENANT, OPERATOR_TENANT_AND_AGENT
from api.contract import documents
from api.contract.bulk import Items, tenants_named
from api.contract.errors import Forbidden
from api.contract.fields import uuid_or_none
from api.contract.operations import acts, creates, lists, retires, shows, updates
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.resources import PoolResource
from api.versions import conditional, of_pool
from api.views import writes


class ClusterField(documents.StringField):
    """The cluster of a server by its labels."""

    def write(self, value: Any, context: Any) -> str:
        return cluster_of(value, context.pool.slug)


class ServerDocument(documents.Document):
    id = documents.IdField()
    pool = documents.pool_field()
    name = documents.TextField(max_length=253, writable=True)
    contributed_by = documents.SlugField(
        source="contributed_by.slug", allow_null=True, writable={"required": False}
    )
    capacity = documents.VectorField(writable=True)
    labels = documents.LabelsField(writable={"default": dict})
    cluster = ClusterField(source="labels", description="The label `cluster`, or the pool's slug.")
    state = documents.ChoiceField(choices=ServerState.values)
    version = documents.VersionField()
    created_at = documents.TimestampField()
    retired_at = documents.TimestampField(allow_null=True)


ServerRequest = ServerDocument.writable(
    "ServerRequest",
    # Room for the number that `count` appends.
    name=documents.TextField(max_length=240),
    contributed_by=documents.SlugField(
        required=False, allow_null=True, description="null: the pool's own. A tenant's key: itself."
    ),
    # The service refuses a number that is too large, as 413.
    count=documents.IntegerField(
        minimum=1,
        maximum=10**12,
        default=1,
        description=f"Identical servers name-0001, ...: at most {MAX_SERVERS_PER_REQUEST} a request.",
    ),
)
ServerChange = ServerDocument.writable("ServerChange")


class ServerParameters(PageParameters):
    state = documents.ChoiceField(
        choices=ServerState.values, required=False, description="All but retired ones by default."
    )
    name = documents.TextField(
        max_length=253, required=False, description="Only servers of exactly this name."
    )
    contributed_by = documents.SlugField(
        required=False, description="Only servers that the tenant of this slug contributed."
    )


class ServerResource(PoolResource):
    document = ServerDocument
    change = ServerChange
    fixed = ("contributed_by",)
    not_found = "server.not_found"
    ordering = by_id("servers")
    by_rows = True
    makes_generation = True

    def queryset(self) -> QuerySet[Server]:
        return servers_for(pool=self.pool, tenant=self.tenant)

    def refuse_cluster(self, labels: Mapping[str, str], before: Mapping[str, str]) -> None:
        """Raise `Forbidden` if a tenant puts a server under the scheduler of a cluster."""
        if self.tenant is not None and labels.get(CLUSTER_LABEL) != before.get(CLUSTER_LABEL):
            raise Forbidden(
                "The label cluster names the scheduler of a server, which its agent or an operator"
                " states.",
                code="auth.cluster",
            )

    def update(self, found: Server, fields: Mapping[str, Any], version: int) -> Server:
        self.refuse_cluster(fields["labels"], found.labels)
        settings = ServerSettings(
            name=fields["name"],
            capacity=vector_from(fields["capacity"], self.resources, pointer="/capacity"),
            labels=fields["labels"],
        )
        return server_update(server=found, settings=settings, version=version, now=utc_now())

    def retire(self, found: Server, version: int) -> None:
        server_retire(server=found, version=version, now=utc_now())


class ServersView(ServerResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_AGENT, "POST": OPERATOR_AND_TENANT}
    parameters = ServerParameters
    large = True

    @conditional(of_pool)
    @lists(ServerDocument, "List the servers of a pool; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List the servers of a pool, oldest first, without the retired ones unless `state=retired`
        asks for them.

        A tenant key sees the servers that the tenant contributed; operator and billing keys see
        all.
        """
        if self.query["state"] is not None:
            return self.answer_list()
        return self.answer_list(self.queryset().exclude(state=ServerState.RETIRED))

    @creates(ServerRequest, ServerDocument, "Contribute servers", pool=True, bulk=True)
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Contribute one server, or many at once by `count`, as a JSON array or as CSV.

        A bulk request is all-or-nothing and names the failing item. An operator contributes for any
        tenant, which admits it to the pool, or for the pool itself (`contributed_by` null); a
        tenant key contributes for its own tenant. The servers take part from the next decision on.
        The service refuses a name that the contributor already uses in the pool (409
        `server.exists`), a server without capacity (422 `capacity.zero`) and more than 100,000
        servers (413 `servers.too_many`).
        """
        return self.answer_many_created(ServerRequest, self._create)

    def _create(self, items: Items) -> Sequence[UUID]:
        for fields in items.fields:
            # The label decides which agent may drain a server: no tenant may put it under another's.
            self.refuse_cluster(fields["labels"], {})
        contributors = tenants_named(items, "contributed_by", caller=self.tenant, required=False)
        drafts = [
            ServerDraft(
                name=fields["name"],
                capacity=vector_from(
                    fields["capacity"], self.resources, pointer=f"{items.pointer(index)}/capacity"
                ),
                contributed_by=contributor,
                labels=fields["labels"],
                count=fields["count"],
                pointer=items.pointer(index),
            )
            for index, (fields, contributor) in enumerate(
                zip(items.fields, contributors, strict=True)
            )
        ]
        return servers_contribute(pool=self.pool, drafts=drafts, now=utc_now()).ids


class OneServerResource(ServerResource):
    """Base of the routes of one server, which one statement reads with the key and the pool."""

    _present: Server | None = None

    def _key_of(self, text: str) -> ApiKey | None:
        key, self._visible, self._present = key_pool_and_server(
            text=text,
            slug=self._slug,
            server_id=uuid_or_none(self.kwargs["server"]),
        )
        return key

    def find(self, key: str) -> Server:
        # A pool that the caller may not see is refused before its servers.
        pool = self.pool
        if self._present is None or self._present.pool_id != pool.pk:
            raise missing(self.not_found)
        return self._present

    def answer_action(self, server: str, act: Callable[..., Server]) -> Response:
        """Answer the server after an action on it."""
        return self.answer_act(
            server, lambda found, version: act(server=found, version=version, now=utc_now())
        )


class ServerView(OneServerResource):
    scopes: ClassVar = {
        "GET": EVERY_SCOPE_AND_AGENT,
        "PATCH": OPERATOR_AND_TENANT,
        "DELETE": OPERATOR_AND_TENANT,
    }

    @shows(ServerDocument, "Show a server")
    def get(self, request: Request, pool: str, server: str) -> Response:
        """Show one server of a pool, even after it was retired.

        A tenant key sees the servers that the tenant contributed; any other id answers 404
        `server.not_found`.
        """
        return self.answer_one(self.find(server))

    @updates(ServerChange, ServerDocument, "Change a server", pool=True)
    @writes
    def patch(self, request: Request, pool: str, server: str) -> Response:
        """Change the name, capacity or labels of a server by JSON merge patch.

        For operators and the tenant that contributed it, with `If-Match`. Capacity and labels count
        from the next decision on; what was contributed until now keeps its old capacity.
        `contributed_by` cannot change (422 `field.immutable`), nor can a retired server (409
        `server.retired`).
        """
        return self.answer_update(server)

    @retires("Retire a server", pool=True)
    @writes
    def delete(self, request: Request, pool: str, server: str) -> Response:
        """Retire a server, as `POST .../retire/` does, but only with `If-Match`.

        For operators and the tenant that contributed it. Its contribution ends now, and it leaves
        the capacity at the next decision. Its past contribution is kept, and `GET` still shows it
        as `retired`. Retiring a retired server changes nothing.
        """
        return self.answer_retire(server)


class DrainView(OneServerResource):
    scopes: ClassVar = {"POST": OPERATOR_TENANT_AND_AGENT}

    @acts(ServerDocument, "Drain a server: no capacity from the next decision on")
    @writes
    def post(self, request: Request, pool: str, server: str) -> Response:
        """Take a server out of the capacity from the next decision on.

        For operators and the tenant that contributed it. The server counts as contributed until it
        is retired, and `POST .../activate/` takes the draining back. Wait for a decision whose
        `generation` is at least the `Pool-Generation` of the answer before you stop its work.
        Draining a draining server changes nothing; a retired one is refused with 409
        `server.retired`. `If-Match` is optional.
        """
        self._refuse_other_cluster(self.find(server))
        return self.answer_action(server, server_drain)

    def _refuse_other_cluster(self, found: Server) -> None:
        """Raise `Forbidden` if the caller's key is bound to another cluster."""
        self.cluster(cluster_of(found.labels, self.pool.slug))


class ActivateView(OneServerResource):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}

    @acts(ServerDocument, "Put a draining server back to work")
    @writes
    def post(self, request: Request, pool: str, server: str) -> Response:
        """Put a draining server back into the capacity from the next decision on.

        For operators and the tenant that contributed it. An active server stays as it is; a retired
        one is refused with 409 `server.retired`. `If-Match` is optional.
        """
        return self.answer_action(server, server_activate)


class RetireView(OneServerResource):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}

    @acts(ServerDocument, "Retire a server: its contribution ends now")
    @writes
    def post(self, request: Request, pool: str, server: str) -> Response:
        """End the contribution of a server now and for good.

        For operators and the tenant that contributed it. The server leaves the capacity at the next
        decision, its past contribution is kept, and its name is free for another server. Retiring a
        retired server changes nothing. `If-Match` is optional. To give running tasks time to leave,
        drain it first.
        """
        return self.answer_action(server, server_retire)
