"""Servers: contributed by tenants or the pool's own, drained and retired by whoever brought them."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from http import HTTPStatus
from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.core.quantities import Resource, vector_from
from allocator_service.pools.models import Server, ServerState
from allocator_service.pools.selectors import key_pool_and_server, resources_of, servers_for
from allocator_service.pools.server_services import (
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
from api.contract.bodies import is_csv, rows_named
from api.contract.bulk import Items, created_document, read_items, tenants_named
from api.contract.conditional import entity_tag, expected_version, optional_version
from api.contract.documents import NoFields
from api.contract.fields import uuid_or_none
from api.contract.pagination import by_id
from api.openapi.describing import acts, creates, lists, retires, shows, updates
from api.v1.servers.serializers import (
    SERVER_COLUMNS,
    ServerChange,
    ServerDocument,
    ServerParameters,
    ServerRequest,
    server_columns,
    server_document,
    server_fields,
    server_row,
)
from api.views import PoolView, writes

ORDERING = by_id("servers")


class ServersView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_AGENT, "POST": OPERATOR_AND_TENANT}
    parameters = ServerParameters
    large = True

    @lists(ServerDocument, "List the servers of a pool; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List the servers of a pool, oldest first, without the retired ones unless `state=retired`
        asks for them.

        A tenant key sees the servers that the tenant contributed; operator and billing keys see
        all.
        """
        servers = servers_for(pool=self.pool, tenant=self.tenant).select_related(None)
        if self.query["state"] is None:
            servers = servers.exclude(state=ServerState.RETIRED)
        page = ORDERING.page(
            servers.filter(**self.filters(contributed_by="contributed_by__slug")).values_list(
                *SERVER_COLUMNS, named=True
            ),
            cursor=self.query["cursor"],
            limit=self.query["limit"],
        )
        resources = resources_of(self.pool)
        return self.listing(
            page,
            lambda row: server_row(row, row.contributed_by__slug, self.pool, resources),
            server_columns(resources),
        )

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
        resources = resources_of(self.pool)
        with rows_named() if is_csv(request) else nullcontext():
            items = read_items(ServerRequest, self.sent(), cells=is_csv(request))
            created = servers_contribute(
                pool=self.pool, drafts=self._drafts(items, resources), now=utc_now()
            )
        headers = {"Pool-Generation": str(created.generation)}
        if not items.alone or len(created.ids) > 1:
            return Response(created_document(created.ids), HTTPStatus.CREATED, headers=headers)
        server = servers_for(pool=self.pool, tenant=None).get(pk=created.ids[0])
        headers |= {"Location": f"{request.path}{server.pk}/", "ETag": entity_tag(server.version)}
        document = server_document(server, self.pool, resources)
        return Response(document, HTTPStatus.CREATED, headers=headers)

    def _drafts(self, items: Items, resources: Sequence[Resource]) -> list[ServerDraft]:
        contributors = tenants_named(items, "contributed_by", caller=self.tenant, required=False)
        return [
            ServerDraft(
                name=fields["name"],
                capacity=vector_from(
                    fields["capacity"], resources, pointer=f"{items.pointer(index)}/capacity"
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


class OneServerView(PoolView):
    """A route of one server, which is absent for other tenants."""

    _present: Server | None = None

    def _key_of(self, text: str) -> ApiKey | None:
        """The key, and with it the pool and the server if its holder may see them."""
        key, self._visible, self._present = key_pool_and_server(
            text=text,
            slug=self._slug,
            server_id=uuid_or_none(self.kwargs["server"]),
        )
        return key

    @property
    def server(self) -> Server:
        """The server of the path. Raises `Missing` unless the caller may see it and its pool."""
        pool = self.pool  # that there is no such pool is said first
        if self._present is None or self._present.pool_id != pool.pk:
            raise Missing("There is no such server.", code="server.not_found")
        return self._present

    def shown(self, server: Server, *, generation: bool) -> Response:
        headers = {"ETag": entity_tag(server.version)}
        if generation:
            headers["Pool-Generation"] = str(server.pool.generation)
        document = server_document(server, self.pool, resources_of(self.pool))
        return Response(document, headers=headers)


class ServerView(OneServerView):
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
        return self.shown(self.server, generation=False)

    @updates(ServerChange, ServerDocument, "Change a server", pool=True)
    @writes
    def patch(self, request: Request, pool: str, server: str) -> Response:
        """Change the name, capacity or labels of a server by JSON merge patch.

        For operators and the tenant that contributed it, with `If-Match`. Capacity and labels count
        from the next decision on; what was contributed until now keeps its old capacity.
        `contributed_by` cannot change (422 `field.immutable`), nor can a retired server (409
        `server.retired`).
        """
        present = self.server
        version = expected_version(request, actual=present.version)
        resources = resources_of(self.pool)
        current = server_fields(present, resources)
        fields = self.patched(ServerChange, current, fixed=["contributed_by"])
        changed = server_update(
            server=present,
            settings=ServerSettings(
                name=fields["name"],
                capacity=vector_from(fields["capacity"], resources, pointer="/capacity"),
                labels=fields["labels"],
            ),
            version=version,
            now=utc_now(),
        )
        return self.shown(changed, generation=True)

    @retires("Retire a server", pool=True)
    @writes
    def delete(self, request: Request, pool: str, server: str) -> Response:
        """Retire a server, as `POST .../retire/` does, but only with `If-Match`.

        For operators and the tenant that contributed it. Its contribution ends now, and it leaves
        the capacity at the next decision. Its past contribution is kept, and `GET` still shows it
        as `retired`. Retiring a retired server changes nothing.
        """
        present = self.server
        version = expected_version(request, actual=present.version)
        retired = server_retire(server=present, version=version, now=utc_now())
        return Response(
            status=HTTPStatus.NO_CONTENT,
            headers={"Pool-Generation": str(retired.pool.generation)},
        )


class ServerActionView(OneServerView):
    """POST of an action on a server, with If-Match or without."""

    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}

    def act(self, request: Request, action: Callable[..., Server]) -> Response:
        present = self.server
        version = optional_version(request, actual=present.version)
        self.read(NoFields)
        changed = action(server=present, version=version, now=utc_now())
        return self.shown(changed, generation=True)


class DrainView(ServerActionView):
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
        return self.act(request, server_drain)


class ActivateView(ServerActionView):
    @acts(ServerDocument, "Put a draining server back to work")
    @writes
    def post(self, request: Request, pool: str, server: str) -> Response:
        """Put a draining server back into the capacity from the next decision on.

        For operators and the tenant that contributed it. An active server stays as it is; a retired
        one is refused with 409 `server.retired`. `If-Match` is optional.
        """
        return self.act(request, server_activate)


class RetireView(ServerActionView):
    @acts(ServerDocument, "Retire a server: its contribution ends now")
    @writes
    def post(self, request: Request, pool: str, server: str) -> Response:
        """End the contribution of a server now and for good.

        For operators and the tenant that contributed it. The server leaves the capacity at the next
        decision, its past contribution is kept, and its name is free for another server. Retiring a
        retired server changes nothing. `If-Match` is optional. To give running tasks time to leave,
        drain it first.
        """
        return self.act(request, server_retire)
