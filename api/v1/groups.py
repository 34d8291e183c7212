"""Groups, the tree that the members of a pool belong to."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import Resource
from allocator_service.core.selecting import missing
from allocator_service.pools.group_services import (
    AMOUNTS,
    GroupDraft,
    GroupSettings,
    group_retire,
    group_update,
    groups_create,
    refuse_too_many,
)
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import GroupTerms
from allocator_service.pools.selectors import group_history, group_terms_of
from api.auth import (
    EVERY_SCOPE_AND_GROUP,
    EVERY_SCOPE_GROUP_AND_AGENT,
    OPERATOR,
    OPERATOR_AND_GROUP,
)
from api.contract import documents
from api.contract.bulk import Items
from api.contract.conditional import expected_version
from api.contract.fields import is_slug
from api.contract.operations import creates, lists, retires, shows, updates
from api.contract.pagination import by_slug, page_of_fixed
from api.contract.parameters import PageParameters
from api.pseudonyms import GroupNameField, groups_known
from api.resources import PoolResource
from api.v1.limits import (
    OwnServersField,
    amounts_field,
    amounts_read,
    changed_amounts,
    own_servers_read,
)
from api.v1.members import member_weight, tier_field
from api.v1.warnings import warnings_field, warns_of_guarantees
from api.versions import conditional, of_pool
from api.views import writes


class GroupTermsDocument(documents.Document):
    group = documents.SlugField(source="group.slug")
    parent = GroupNameField(source="parent.slug", allow_null=True)
    weight = documents.WeightField()
    tier = tier_field()
    guarantee = amounts_field("guarantee")
    limit = amounts_field()
    own_servers = OwnServersField()
    start = documents.TimestampField()
    end = documents.TimestampField(allow_null=True, description="null: in force.")


class GroupDocument(documents.Document):
    pool = documents.pool_field()
    slug = documents.SlugField(source="group.slug", writable=True)
    name = documents.TextField(max_length=200, source="group.name", writable=True)
    parent = GroupNameField(
        source="parent.slug",
        allow_null=True,
        writable={
            "required": False,
            "description": "Slug of the group that it belongs to. null: the pool itself.",
        },
    )
    weight = documents.WeightField(writable={"default": Decimal(1)})
    tier = tier_field(writable={"default": 0})
    guarantee = amounts_field("guarantee")
    limit = amounts_field()
    own_servers = OwnServersField()
    terms_since = documents.TimestampField(
        source="start", description="Start of the present parent, weight, tier and amounts."
    )
    version = documents.VersionField(source="group.version")
    created_at = documents.TimestampField(source="group.created_at")


class ChangedGroupDocument(GroupDocument):
    warnings = warnings_field()


GroupRequest = GroupDocument.writable("GroupRequest")


class GroupParameters(PageParameters):
    parent = documents.SlugField(
        required=False, description="Only groups directly below this group."
    )


class GroupResource(PoolResource):
    document: ClassVar[type[documents.Document]] = GroupDocument
    change = GroupRequest
    fixed = ("slug",)
    lookup = "group__slug"
    not_found = "group.not_found"
    ordering = by_slug("groups", "group__slug")
    makes_generation = True

    def queryset(self) -> QuerySet[GroupTerms]:
        if self.subtree is not None:
            return self.subtree.terms()
        return group_terms_of(pool=self.pool, tenant=self.tenant)

    def find(self, key: str) -> GroupTerms:
        found: GroupTerms = super().find(key)
        # Read already: services would otherwise read the pool of the group once more.
        found.group.pool = self.pool
        return found

    def version_of(self, found: GroupTerms) -> int:
        # A change begins new terms. The group stays, and counts the changes.
        return found.group.version

    @cached_property
    def known_groups(self) -> Collection[str] | None:
        if self.subtree is None:
            return groups_known(pool=self.pool, caller=self.tenant)
        # A group's own key does not know the group above it.
        return set(self.subtree.terms().values_list("group__slug", flat=True))

    def update(self, found: GroupTerms, fields: Mapping[str, Any], version: int) -> GroupTerms:
        group, settings = found.group, group_settings(fields, self.resources)
        group_update(group=group, settings=settings, version=version, now=utc_now())
        # The answer has the terms that the change made, not those that it ended.
        return self.find(group.slug)

    def retire(self, found: GroupTerms, version: int) -> None:
        group_retire(group=found.group, version=version, now=utc_now())


class GroupsView(GroupResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT, "POST": OPERATOR}
    parameters = GroupParameters
    large = True

    @conditional(of_pool)
    @lists(GroupDocument, "List the groups of a pool; a tenant sees those above it")
    def get(self, request: Request, pool: str) -> Response:
        """List the groups of a pool, by slug, with their present parent, weight and tier.

        Operator and billing keys see every group. A tenant key sees the group that its tenant
        belongs to and the groups above that one, a group key its group and those below. `parent`
        filters by the group directly above.
        """
        groups = self.queryset()
        if self.subtree is not None and self.query["parent"] is not None:
            # The filter would confirm a guess of the slug above the key's own group.
            groups = groups.exclude(group=self.subtree.group)
        return self.answer_list(groups)

    @creates(GroupRequest, GroupDocument, "Create groups", pool=True, bulk=True, named=True)
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Create one group, or many at once as a JSON array or as CSV.

        Operators only. A bulk request is all-or-nothing, names the failing item, and may name
        parents that it creates itself, in any order. A pool has at most 10,000 groups (422
        `group.too_many`), 8 levels deep (422 `group.too_deep`). A slug that another group of the
        pool has is refused with 409 `group.exists`, a policy that does not decide by groups with
        422 `policy.no_groups`. The groups count from the next decision on.
        """
        return self.answer_many_created(GroupRequest, self._create, refuse_too_many=refuse_too_many)

    def _create(self, items: Items) -> Sequence[str]:
        drafts = [
            GroupDraft(
                fields["slug"],
                group_settings(fields, self.resources, pointer=items.pointer(index)),
                items.pointer(index),
            )
            for index, fields in enumerate(items.fields)
        ]
        created = groups_create(pool=self.pool, drafts=drafts, now=utc_now())
        return [group.slug for group in created]


class GroupView(GroupResource):
    scopes: ClassVar = {
        "GET": EVERY_SCOPE_AND_GROUP,
        "PATCH": OPERATOR_AND_GROUP,
        "DELETE": OPERATOR,
    }

    @shows(GroupDocument, "Show a group")
    def get(self, request: Request, pool: str, group: str) -> Response:
        """Show one group of a pool.

        Its `ETag` is what a change sends as `If-Match`. A tenant key can read the groups on its
        own path, a group key its group and those below. Any other slug answers 404 `group.not_found`.
        """
        return self.answer_one(self.find(group))

    @updates(GroupRequest, ChangedGroupDocument, "Change or move a group", pool=True)
    @warns_of_guarantees
    @writes
    def patch(self, request: Request, pool: str, group: str) -> Response:
        """Change the name, parent, weight, tier or limits of a group by JSON merge patch.

        With `If-Match`. A group key changes weight, tier and limits of groups below its own and nothing
        else (403 `auth.group`). A group moves with everything below it; `parent` null moves it to the
        pool itself. A parent that is the group or below it is refused with 422 `group.cycle`. Weight,
        parent, tier and limits count from the next decision on, and earlier ones are kept. The slug
        cannot change (422 `field.immutable`). A change of guarantees or own servers is accepted with
        `warnings` if the present servers cannot meet all guarantees.
        """
        if self.subtree is not None:
            # The group cannot leave the key's group between the check and the change.
            pool_lock(self.pool)
        present = self.find(group)
        if self.subtree is not None:
            self.subtree.refuse_own(present.group)
        version = expected_version(request, actual=present.group.version)
        fields = self.read_patch(GroupRequest, self.current(present), fixed=["slug"])
        if self.subtree is not None:
            parent = present.parent.slug if present.parent else None
            self.subtree.refuse_other_changes(
                {
                    "parent": fields["parent"] != parent,
                    "name": fields["name"] != present.group.name,
                    **changed_amounts(fields, present, ("guarantee",), self.resources),
                }
            )
        return self.answer_one(self.update(present, fields, version), changed=True)

    @retires("Retire a group", pool=True)
    @writes
    def delete(self, request: Request, pool: str, group: str) -> Response:
        """Retire an empty group from the next decision on.

        Operators only, with `If-Match`. A group that members or other groups belong to is refused
        with 409 `group.not_empty`. Its history stays, and its slug is free for another group.
        """
        return self.answer_retire(group)


class GroupHistoryView(GroupResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    parameters = PageParameters
    document = GroupTermsDocument

    @conditional(of_pool)
    @lists(GroupTermsDocument, "List what a group was at any time")
    def get(self, request: Request, pool: str, group: str) -> Response:
        """List the parents, weights and tiers of a group with their intervals, oldest first.

        Retired groups of the slug are included. A tenant key reads the history of the groups on
        its own path, a group key those of its group and below. Other parents have pseudonyms.
        """
        history = self._history(group)
        # An empty list for an unknown slug would look like a group that was never changed.
        if not is_slug(group) or not history.exists():
            raise missing(self.not_found)
        return self.answer_page(page_of_fixed("group-history", history, **self.query))

    def _history(self, slug: str) -> QuerySet[GroupTerms]:
        if self.subtree is None:
            return group_history(pool=self.pool, slug=slug, tenant=self.tenant)
        history = group_history(pool=self.pool, slug=slug, tenant=None)
        return history.filter(group__in=self.subtree.groups())


def group_settings(
    fields: Mapping[str, Any], resources: Sequence[Resource], *, pointer: str = ""
) -> GroupSettings:
    """Return the settings in the fields of a request at `pointer`."""
    return GroupSettings(
        name=fields["name"],
        parent=fields["parent"],
        weight=member_weight(fields["weight"]),
        tier=fields["tier"],
        own_servers=own_servers_read(fields),
        **amounts_read(fields, AMOUNTS, resources, pointer),
    )
