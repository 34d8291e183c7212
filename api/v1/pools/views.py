"""Pools: opened and changed by operators, seen by their members."""

from http import HTTPStatus
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import pools_for
from allocator_service.pools.services import pool_create, pool_retire, pool_update
from api.auth import EVERY_SCOPE, EVERY_SCOPE_GROUP_AND_AGENT, OPERATOR
from api.contract.conditional import entity_tag, expected_version
from api.contract.pagination import by_slug
from api.contract.parameters import PageParameters
from api.openapi.describing import creates, lists, retires, shows, updates
from api.v1.pools.serializers import (
    PoolDocument,
    PoolRequest,
    pool_document,
    pool_fields,
    pool_settings,
)
from api.views import ContractView, PoolView, writes

ORDERING = by_slug("pools")


class PoolsView(ContractView):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    of_a_pool = ("GET",)
    parameters = PageParameters

    @lists(PoolDocument, "List pools")
    def get(self, request: Request) -> Response:
        """List the open pools, by slug.

        A tenant key sees the pools that the tenant is a member of; operator and billing keys see
        all, or the one that they are bound to. Retired pools are not listed.
        """
        seen = pools_for(self.tenant)
        if self.caller.pool:
            seen = seen.filter(slug=self.caller.pool)
        page = ORDERING.page(seen, **self.query)
        return self.listing(page, pool_document, list(PoolDocument.fields))

    @creates(PoolRequest, PoolDocument, "Open a pool")
    @writes
    def post(self, request: Request) -> Response:
        """Open a pool with its resources, policy, window and money settings.

        Operators only. Required are `slug`, `name`, `resources` and `policy.name`; everything else
        has a default. `GET /policies/` lists the policies with their modes and options (422
        `policy.unknown`, `policy.mode`, `policy.options`). A slug that any pool has, even a retired
        one, is refused with 409 `pool.exists`.
        """
        fields = self.read(PoolRequest)
        pool = pool_create(slug=fields["slug"], settings=pool_settings(fields), now=utc_now())
        response = _shown(pool, HTTPStatus.CREATED)
        response["Location"] = f"{request.path}{pool.slug}/"
        return response


class OnePoolView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT, "PATCH": OPERATOR, "DELETE": OPERATOR}

    @shows(PoolDocument, "Show a pool")
    def get(self, request: Request, pool: str) -> Response:
        """Show the settings of a pool, its `version` and its `generation`, the number of its last
        change.

        A tenant key sees only pools that the tenant is a member of; any other slug answers 404
        `pool.not_found`.
        """
        return _shown(self.pool)

    @updates(PoolRequest, PoolDocument, "Change a pool")
    @writes
    def patch(self, request: Request, pool: str) -> Response:
        """Change the settings of a pool by JSON merge patch.

        Operators only, with `If-Match`. Another policy, window or kind of weights counts from the
        next decision on; a different policy starts with its default mode and options unless the
        patch names them. To add a resource, send the whole list: none can be dropped and no unit
        can change (409 `in_use`). Once prices are published, currency and time zone stay (409
        `pool.money_fixed`).
        """
        version = expected_version(request, actual=self.pool.version)
        current = _policy_left(pool_fields(self.pool), self.sent())
        fields = self.patched(PoolRequest, current, fixed=["slug"])
        changed = pool_update(
            pool=self.pool, settings=pool_settings(fields), version=version, now=utc_now()
        )
        return _shown(changed)

    @retires("Close a pool", pool=True)
    @writes
    def delete(self, request: Request, pool: str) -> Response:
        """Close a pool permanently.

        Operators only, with `If-Match`. A pool with servers that are not retired is refused with
        409 `in_use`. Afterwards the pool answers 404 and gets no further decisions; its runs,
        statements and billing report stay readable, and its slug stays taken.
        """
        version = expected_version(request, actual=self.pool.version)
        pool_retire(pool=self.pool, version=version, now=utc_now())
        return Response(
            status=HTTPStatus.NO_CONTENT, headers={"Pool-Generation": str(self.pool.generation)}
        )


def _policy_left(current: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The fields before a patch: mode and options belong to the policy that had them."""
    policy = patch.get("policy") if isinstance(patch, dict) else None
    if not isinstance(policy, dict) or policy.get("name") in (None, current["policy"]["name"]):
        return current
    return {**current, "policy": {}}


def _shown(pool: Pool, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(
        pool_document(pool),
        status=status,
        headers={"ETag": entity_tag(pool.version), "Pool-Generation": str(pool.generation)},
    )
