"""Members, tenants that are admitted to a pool, with the terms in force."""

from collections.abc import Collection
from decimal import Decimal
from http import HTTPStatus
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Stale
from allocator_service.core.quantities import LIMIT, parse_quantity
from allocator_service.core.selecting import get_or_missing, missing
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.member_services import AMOUNTS, member_end, member_put
from allocator_service.pools.models import LARGEST_TIER, MembershipTerms, Pool
from allocator_service.pools.selectors import members_of
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_for
from api.auth import (
    EVERY_SCOPE_AND_GROUP,
    EVERY_SCOPE_GROUP_AND_AGENT,
    OPERATOR,
    OPERATOR_AND_GROUP,
)
from api.contract import documents
from api.contract.conditional import expected_version
from api.contract.fields import slug_or_none
from api.contract.operations import lists, puts, retires, shows
from api.contract.pagination import Page, bad_cursor, by_slug, cursor_position, make_cursor
from api.contract.parameters import PageParameters
from api.pseudonyms import GroupNameField, TenantNameField, group_name, tenant_name
from api.resources import PoolResource
from api.v1.limits import (
    OwnServersField,
    amounts_field,
    amounts_read,
    changed_amounts,
    own_servers_read,
)
from api.v1.warnings import warnings_field, warns_of_guarantees
from api.versions import conditional, of_pool
from api.views import writes

ROSTER = "roster"


def tier_field(**options: Any) -> documents.IntegerField:
    """Describe the order among siblings."""
    return documents.IntegerField(
        minimum=-LARGEST_TIER,
        maximum=LARGEST_TIER,
        code="tier.out_of_range",
        description="Order among siblings: the allocation of a member or group does not rise while"
        " that of a sibling of a lower tier can.",
        **options,
    )


class MemberDocument(documents.Document):
    pool = documents.pool_field()
    tenant = TenantNameField(source="membership.tenant.slug")
    weight = documents.WeightField(writable={"default": Decimal(1)})
    best_effort = documents.BooleanField(writable={"default": False})
    group = GroupNameField(
        source="group.slug",
        allow_null=True,
        writable={
            "required": False,
            "description": "Slug of the group that it belongs to. null: the pool itself.",
        },
    )
    tier = tier_field(writable={"default": 0})
    guarantee = amounts_field("guarantee")
    limit = amounts_field()
    lend = amounts_field("lend")
    own_servers = OwnServersField()
    weight_since = documents.TimestampField(
        source="start", description="Start of the present terms: weight, group, tier and amounts."
    )
    admitted_at = documents.TimestampField(source="membership.admitted_at")
    version = documents.VersionField(source="membership.version")


class ChangedMemberDocument(MemberDocument):
    warnings = warnings_field()


MemberRequest = MemberDocument.writable("MemberRequest")


class MemberParameters(PageParameters):
    group = documents.SlugField(
        required=False, description="Only members of the group of this slug."
    )


class MemberResource(PoolResource):
    document = MemberDocument
    lookup = "membership__tenant__slug"
    not_found = "member.not_found"
    ordering = by_slug("members", "membership__tenant__slug")
    makes_generation = True

    def queryset(self) -> QuerySet[MembershipTerms]:
        if self.subtree is not None:
            return self.subtree.members()
        return members_of(pool=self.pool, tenant=self.tenant)

    def version_of(self, found: MembershipTerms) -> int:
        # A change begins new terms. The membership stays, and counts the changes.
        return found.membership.version

    def find(self, key: str) -> MembershipTerms:
        found = self.find_or_none(key)
        if found is None:
            raise missing(self.not_found)
        return found

    def find_or_none(self, key: str) -> MembershipTerms | None:
        """Return the terms of the member that the caller knows by a name, if there is one."""
        # By pseudonym: a look-up by slug would confirm a guess of a member's name.
        if self.reader is not None and self.pool.transparent:
            return roster(pool=self.pool, caller=self.reader).get(key)
        return self.queryset().filter(**{self.lookup: slug_or_none(key)}).first()

    def retire(self, found: MembershipTerms, version: int) -> None:
        tenant = found.membership.tenant
        member_end(pool=self.pool, tenant=tenant, version=version, now=utc_now())


class MembersView(MemberResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT}
    parameters = MemberParameters

    @conditional(of_pool)
    @lists(MemberDocument, "List the members of a pool; a tenant sees itself")
    def get(self, request: Request, pool: str) -> Response:
        """List the members of a pool with their present weights.

        Operator and billing keys see every member; `group` filters by the group that they belong
        to. A tenant key sees its own tenant; in a transparent pool it also sees the others, under
        stable pseudonyms, which groups that are not on its own path have, too. A group key sees the
        members below its group.
        """
        if self.reader is None or not self.pool.transparent:
            return self.answer_list()
        known = self.known_groups
        page = roster_page(pool=self.pool, caller=self.reader, known=known, **self.query)
        return self.answer_page(page)


class MemberView(MemberResource):
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
        return self.answer_one(self.find(tenant))

    @puts(MemberRequest, ChangedMemberDocument, "Admit a tenant, or change its weight")
    @warns_of_guarantees
    @writes
    def put(self, request: Request, pool: str, tenant: str) -> Response:
        """Admit a tenant to a pool (201), or change the terms of a member (200).

        For operators. A group key may change weight, tier and limits of members below its group, and
        nothing else (403 `auth.group`). Admitting needs no `If-Match`; changing a member does (428
        `version.required`, 412 `version.stale`). A field that is left out gets its default:
        `weight` 1, `best_effort` false, `group` null (the pool itself), `tier` 0. `limit`,
        `guarantee`, `lend` and `own_servers` that are left out stay as they are. The terms count
        from the next decision on, and earlier weights are kept. A weight that is not above 0 is
        refused with 422 `weight.not_positive`; a `best_effort` member is served with what the
        others leave. A group that the pool does not have is refused with 422 `group.unknown`, a
        policy that does not decide by groups and tiers with 422 `policy.no_groups`. A change of
        guarantees, own servers or loans is accepted with `warnings` if not all guarantees can be met.
        """
        of_pool = self.pool
        if self.subtree is not None:
            # The member cannot leave the group between the check and the change.
            pool_lock(of_pool)
        present = self.find_or_none(tenant)
        admitted = self._tenant(tenant, present)
        version = None
        if present is not None:
            version = expected_version(request, actual=present.membership.version)
        # The caller has read a member that is gone: to admit it again would undo that without notice.
        elif "If-Match" in request.headers:
            raise Stale("The tenant is not a member yet: admit it without If-Match.")
        fields = self.read(MemberRequest)
        if self.subtree is not None and present is not None:
            own = present.group.slug if present.group else None
            self.subtree.refuse_other_changes(
                {
                    "group": fields["group"] != own,
                    "best_effort": fields["best_effort"] != present.best_effort,
                    **changed_amounts(fields, present, ("guarantee", "lend"), self.resources),
                }
            )
        _, created = member_put(
            pool=of_pool,
            tenant=admitted,
            **{
                **fields,
                "weight": member_weight(fields["weight"]),
                "own_servers": own_servers_read(fields),
                **amounts_read(fields, AMOUNTS, self.resources),
            },
            version=version,
            now=utc_now(),
        )
        # The answer has the terms that the change made, not those that it ended.
        terms = members_of(pool=of_pool, tenant=admitted).get()
        status = HTTPStatus.CREATED if created else HTTPStatus.OK
        response = self.answer_one(terms, status, changed=True)
        if created:
            response["Location"] = request.path
        return response

    def _tenant(self, slug: str, present: MembershipTerms | None) -> Tenant:
        """Return the tenant of the path. A group key admits none. Raises `Missing`."""
        if self.subtree is None:
            visible = tenants_for(self.tenant)
            return get_or_missing(visible, "tenant.not_found", slug=slug_or_none(slug))
        if present is None:
            raise missing(self.not_found)
        return present.membership.tenant

    @retires("End a membership", pool=True)
    @writes
    def delete(self, request: Request, pool: str, tenant: str) -> Response:
        """End the membership of a tenant from the next decision on.

        Operators only, with `If-Match`. A member with servers that are not retired, or workloads
        that are not withdrawn, is refused with 409 `in_use`. Its earlier weights, runs, usage and
        statements stay; its own keys read statements only. Admitting it again continues the
        membership.
        """
        return self.answer_retire(tenant)


def member_weight(number: Decimal) -> Decimal:
    """Return the weight as it is stored, rounded as quantities are.

    A number out of range stays as it came: the service refuses it.
    """
    return parse_quantity(number) if 0 < number < LIMIT else number


def roster(*, pool: Pool, caller: Tenant) -> dict[str, MembershipTerms]:
    """Return the terms of every member of a transparent pool by the name that the caller knows.

    They are in the order of the names shown: any other order would reveal the slugs behind them.
    """
    named = {
        tenant_name(terms.membership.tenant.slug, pool=pool, caller=caller): terms
        for terms in members_of(pool=pool)
    }
    return dict(sorted(named.items()))


def roster_page(
    *,
    pool: Pool,
    caller: Tenant,
    known: Collection[str] | None,
    group: str | None,
    cursor: str | None,
    limit: int,
) -> Page:
    """Return a page of the roster, or of its members of a group by the name that the caller knows."""
    after = "" if cursor is None else cursor_position(ROSTER, cursor)
    # Clients can write cursors, and a number has no place among names.
    if not isinstance(after, str):
        raise bad_cursor()

    def is_asked_for(terms: MembershipTerms) -> bool:
        if group is None:
            return True
        own = terms.group
        return own is not None and group_name(own.slug, pool=pool, known=known) == group

    members = roster(pool=pool, caller=caller)
    # Pseudonyms are digests, which the database cannot sort by: the page is cut here.
    names = [name for name, terms in members.items() if name > after and is_asked_for(terms)]
    following = make_cursor(ROSTER, names[limit - 1]) if len(names) > limit else None
    return Page([members[name] for name in names[:limit]], following)
