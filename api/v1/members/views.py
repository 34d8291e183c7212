"""Members: tenants admitted to a pool, each with the weight it has at present."""

from collections.abc import Collection
from http import HTTPStatus
from typing import ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing, Stale
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.member_services import member_end, member_put
from allocator_service.pools.models import MembershipTerms
from allocator_service.pools.selectors import members_of
from allocator_service.tenants.models import Tenant
from api.auth import (
    EVERY_SCOPE_AND_GROUP,
    EVERY_SCOPE_GROUP_AND_AGENT,
    OPERATOR,
    OPERATOR_AND_GROUP,
)
from api.contract.conditional import entity_tag, expected_version
from api.contract.fields import is_slug
from api.contract.pagination import Page, by_slug
from api.openapi.describing import lists, puts, retires, shows
from api.pseudonyms import groups_known
from api.v1.members.roster import roster, roster_page
from api.v1.members.serializers import (
    MemberDocument,
    MemberParameters,
    MemberRequest,
    member_document,
    member_weight,
)
from api.v1.tenants.views import visible_tenant
from api.views import PoolView, writes

ORDERING = by_slug("members", "membership__tenant__slug")


class MembersView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT}
    parameters = MemberParameters

    @lists(MemberDocument, "List the members of a pool; a tenant sees itself")
    def get(self, request: Request, pool: str) -> Response:
        """List the members of a pool with their present weights.

        Operator and billing keys see every member; `group` filters by the group that they belong
        to. A tenant key sees its own tenant; in a transparent pool it also sees the others, under
        stable pseudonyms, which groups that are not on its own path have, too. A group key sees the
        members below its group.
        """
        if self.subtree is not None:
            return self._page(self.subtree.members(), caller=None, known=None)
        known = groups_known(pool=self.pool, caller=self.tenant)
        if self.tenant is not None and self.pool.transparent:
            page = roster_page(pool=self.pool, caller=self.tenant, known=known, **self.query)
        else:
            members = members_of(pool=self.pool, tenant=self.tenant)
            return self._page(members, caller=self.tenant, known=known)
        return self._shown(page, caller=self.tenant, known=known)

    def _page(
        self,
        members: QuerySet[MembershipTerms],
        *,
        caller: Tenant | None,
        known: Collection[str] | None,
    ) -> Response:
        page = ORDERING.page(
            members.filter(**self.filters(group="group__slug")),
            cursor=self.query["cursor"],
            limit=self.query["limit"],
        )
        return self._shown(page, caller=caller, known=known)

    def _shown(
        self, page: Page, *, caller: Tenant | None, known: Collection[str] | None
    ) -> Response:
        return self.listing(
            page,
            lambda terms: member_document(terms, pool=self.pool, caller=caller, known=known),
            list(MemberDocument.fields),
        )


class MemberView(PoolView):
    scopes: ClassVar = {
        "GET": EVERY_SCOPE_AND_GROUP,
        "PUT": OPERATOR_AND_GROUP,
        "DELETE": OPERATOR,
    }

    @shows(MemberDocument, "Show a member")
    def get(self, request: Request, pool: str, tenant: str) -> Response:
        """Show one member of a pool, the weight it has and since when it has it.

        A tenant key can read its own tenant and, in a transparent pool, the others by their
        pseudonyms, a group key the members below its group. Any other name answers 404
        `member.not_found`.
        """
        terms = self._terms(tenant)
        if terms is None:
            raise Missing("There is no such member.", code="member.not_found")
        return self._shown(terms, HTTPStatus.OK)

    @puts(MemberRequest, MemberDocument, "Admit a tenant, or change its weight")
    @writes
    def put(self, request: Request, pool: str, tenant: str) -> Response:
        """Admit a tenant to a pool (201), or change the terms of a member (200).

        Operators only. Admitting needs no `If-Match`; changing a member does (428
        `version.required`, 412 `version.stale`). A field that is left out gets its default:
        `weight` 1, `best_effort` false, `group` null (the pool itself), `tier` 0. The terms count
        from the next decision on, and earlier weights are kept. A weight that is not above 0 is
        refused with 422 `weight.not_positive`; a `best_effort` member is served with what the
        others leave. A group that the pool does not have is refused with 422 `group.unknown`, a
        policy that does not decide by groups and tiers with 422 `policy.no_groups`. A group key
        changes the weight and tier of members below its group and nothing else (403 `auth.group`).
        """
        pool_of = self.pool
        if self.subtree is not None:
            pool_lock(pool_of)  # the member cannot leave the group meanwhile
        present = self._terms(tenant)
        if self.subtree is None:
            admitted = visible_tenant(tenant, self.tenant)
        elif present is None:
            raise Missing("There is no such member.", code="member.not_found")
        else:
            admitted = present.membership.tenant
        version = None
        if present is not None:
            version = expected_version(request, actual=present.membership.version)
        elif "If-Match" in request.headers:
            raise Stale("The tenant is not a member yet: admit it without If-Match.")
        fields = self.read(MemberRequest)
        if self.subtree is not None and present is not None:
            own = present.group.slug if present.group else None
            self.subtree.refuse_other_changes(
                {
                    "group": fields["group"] != own,
                    "best_effort": fields["best_effort"] != present.best_effort,
                }
            )
        _, created = member_put(
            pool=pool_of,
            tenant=admitted,
            weight=member_weight(fields["weight"]),
            best_effort=fields["best_effort"],
            group=fields["group"],
            tier=fields["tier"],
            version=version,
            now=utc_now(),
        )
        terms = members_of(pool=self.pool, tenant=admitted).get()
        self.pool.refresh_from_db(fields=["generation"])
        response = self._shown(terms, HTTPStatus.CREATED if created else HTTPStatus.OK)
        response["Pool-Generation"] = str(self.pool.generation)
        if created:
            response["Location"] = request.path
        return response

    @retires("End a membership", pool=True)
    @writes
    def delete(self, request: Request, pool: str, tenant: str) -> Response:
        """End the membership of a tenant from the next decision on.

        Operators only, with `If-Match`. A member with servers that are not retired, or workloads
        that are not withdrawn, is refused with 409 `in_use`. Its earlier weights, runs, usage and
        statements stay; its own keys read statements only. Admitting it again continues the
        membership.
        """
        of_pool = self.pool
        terms = self._terms(tenant)
        if terms is None:
            raise Missing("There is no such member.", code="member.not_found")
        version = expected_version(request, actual=terms.membership.version)
        member_end(pool=of_pool, tenant=terms.membership.tenant, version=version, now=utc_now())
        self.pool.refresh_from_db(fields=["generation"])
        return Response(
            status=HTTPStatus.NO_CONTENT, headers={"Pool-Generation": str(self.pool.generation)}
        )

    def _terms(self, slug: str) -> MembershipTerms | None:
        if not is_slug(slug):
            return None
        if self.subtree is not None:
            return self.subtree.members().filter(membership__tenant__slug=slug).first()
        if self.tenant is not None and self.pool.transparent:
            return roster(pool=self.pool, caller=self.tenant).get(slug)
        members = members_of(pool=self.pool, tenant=self.tenant)
        return members.filter(membership__tenant__slug=slug).first()

    def _shown(self, terms: MembershipTerms, status: HTTPStatus) -> Response:
        caller = self.tenant if self.subtree is None else None
        known = groups_known(pool=self.pool, caller=caller)
        return Response(
            member_document(terms, pool=self.pool, caller=caller, known=known),
            status=status,
            headers={"ETag": entity_tag(terms.membership.version)},
        )
