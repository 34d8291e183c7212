"""Routes of groups, the tree that the members of a pool belong to."""

from collections.abc import Collection
from contextlib import nullcontext
from http import HTTPStatus
from typing import ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.pools.group_services import (
    GroupDraft,
    group_retire,
    group_update,
    groups_create,
    refuse_too_many,
)
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import GroupTerms
from allocator_service.pools.selectors import group_history, group_missing, group_terms_of
from api.auth import (
    EVERY_SCOPE_AND_GROUP,
    EVERY_SCOPE_GROUP_AND_AGENT,
    OPERATOR,
    OPERATOR_AND_GROUP,
)
from api.contract.bodies import is_csv, rows_named
from api.contract.bulk import created_document, read_items
from api.contract.conditional import entity_tag, expected_version
from api.contract.fields import is_slug
from api.contract.pagination import by_slug, page_of_fixed
from api.contract.parameters import PageParameters
from api.openapi.describing import creates, lists, retires, shows, updates
from api.pseudonyms import groups_known
from api.v1.groups.serializers import (
    GroupDocument,
    GroupParameters,
    GroupRequest,
    GroupTermsDocument,
    group_document,
    group_fields,
    group_settings,
    group_terms_document,
)
from api.views import PoolView, writes

ORDERING = by_slug("groups", "group__slug")


class AnyGroupView(PoolView):
    """A route below the groups of a pool."""

    def terms(self, slug: str) -> GroupTerms:
        """The present terms of the group, if the caller may see it. Raises `Missing`."""
        found = None
        if is_slug(slug):
            groups = self.visible()
            found = groups.filter(group__slug=slug).first()
        if found is None:
            raise group_missing()
        found.group.pool = self.pool
        return found

    def visible(self) -> QuerySet[GroupTerms]:
        """The present terms of the groups that the caller may see."""
        if self.subtree is not None:
            return self.subtree.terms()
        return group_terms_of(pool=self.pool, tenant=self.tenant)

    def shown(self, slug: str, status: HTTPStatus, *, changed: bool) -> Response:
        """The answer that shows the group, and the pool's generation if a change made a new one."""
        terms = self.terms(slug)
        headers = {"ETag": entity_tag(terms.group.version)}
        if changed:
            headers |= self.generation()
        # A group's own key does not know the group above it.
        known = self.known() if self.subtree is not None else None
        document = group_document(terms, pool=self.pool, known=known)
        return Response(document, status, headers=headers)

    def known(self) -> Collection[str] | None:
        """The slugs of the groups that the caller may know, None for all."""
        if self.subtree is not None:
            return set(self.subtree.terms().values_list("group__slug", flat=True))
        return groups_known(pool=self.pool, caller=self.tenant)

    def generation(self) -> dict[str, str]:
        self.pool.refresh_from_db(fields=["generation"])
        return {"Pool-Generation": str(self.pool.generation)}


class GroupsView(AnyGroupView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT, "POST": OPERATOR}
    parameters = GroupParameters
    large = True

    @lists(GroupDocument, "List the groups of a pool; a tenant sees those above it")
    def get(self, request: Request, pool: str) -> Response:
        """List the groups of a pool, by slug, with their present parent, weight and tier.

        Operator and billing keys see every group. A tenant key sees the group that its tenant
        belongs to and the groups above that one, a group key its group and those below. `parent`
        filters by the group directly above.
        """
        known = self.known() if self.subtree is not None else None
        page = ORDERING.page(
            self._asked(),
            cursor=self.query["cursor"],
            limit=self.query["limit"],
        )
        return self.listing(
            page,
            lambda terms: group_document(terms, pool=self.pool, known=known),
            list(GroupDocument.fields),
        )

    def _asked(self) -> QuerySet[GroupTerms]:
        groups = self.visible().filter(**self.filters(parent="parent__slug"))
        if self.subtree is None or self.query["parent"] is None:
            return groups
        # By the parent of the key's own group its name could be guessed.
        return groups.exclude(group=self.subtree.group)

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
        of_pool = self.pool
        with rows_named() if is_csv(request) else nullcontext():
            items = read_items(
                GroupRequest,
                self.sent(),
                cells=is_csv(request),
                refuse_too_many=refuse_too_many,
            )
            drafts = [
                GroupDraft(fields["slug"], group_settings(fields), items.pointer(index))
                for index, fields in enumerate(items.fields)
            ]
            groups = groups_create(pool=of_pool, drafts=drafts, now=utc_now())
        if not items.alone:
            document = created_document([group.slug for group in groups])
            return Response(document, HTTPStatus.CREATED, headers=self.generation())
        response = self.shown(groups[0].slug, HTTPStatus.CREATED, changed=True)
        response["Location"] = f"{request.path}{groups[0].slug}/"
        return response


class GroupView(AnyGroupView):
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
        return self.shown(group, HTTPStatus.OK, changed=False)

    @updates(GroupRequest, GroupDocument, "Change or move a group", pool=True)
    @writes
    def patch(self, request: Request, pool: str, group: str) -> Response:
        """Change the name, parent, weight or tier of a group by JSON merge patch.

        With `If-Match`. A group key changes the weight and tier of groups below its own and nothing
        else (403 `auth.group`). A group moves with everything below it; `parent` null moves it to the
        pool itself. A parent that is the group or below it is refused with 422 `group.cycle`. Weight,
        parent and tier count from the next decision on, and earlier ones are kept. The slug cannot
        change (422 `field.immutable`).
        """
        if self.subtree is not None:
            pool_lock(self.pool)  # the group cannot leave the key's group meanwhile
        present = self.terms(group)
        if self.subtree is not None:
            self.subtree.refuse_own(present.group)
        version = expected_version(request, actual=present.group.version)
        fields = self.patched(GroupRequest, group_fields(present), fixed=["slug"])
        if self.subtree is not None:
            parent = present.parent.slug if present.parent else None
            self.subtree.refuse_other_changes(
                {
                    "parent": fields["parent"] != parent,
                    "name": fields["name"] != present.group.name,
                }
            )
        group_update(
            group=present.group, settings=group_settings(fields), version=version, now=utc_now()
        )
        return self.shown(group, HTTPStatus.OK, changed=True)

    @retires("Retire a group", pool=True)
    @writes
    def delete(self, request: Request, pool: str, group: str) -> Response:
        """Retire an empty group from the next decision on.

        Operators only, with `If-Match`. A group that members or other groups belong to is refused
        with 409 `group.not_empty`. Its history stays, and its slug is free for another group.
        """
        present = self.terms(group)
        version = expected_version(request, actual=present.group.version)
        group_retire(group=present.group, version=version, now=utc_now())
        return Response(status=HTTPStatus.NO_CONTENT, headers=self.generation())


class GroupHistoryView(AnyGroupView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    parameters = PageParameters

    @lists(GroupTermsDocument, "List what a group was at any time")
    def get(self, request: Request, pool: str, group: str) -> Response:
        """List the parents, weights and tiers of a group with their intervals, oldest first.

        Retired groups of the slug are included. A tenant key reads the history of the groups on
        its own path, a group key those of its group and below. Other parents have pseudonyms.
        """
        history = self._history(group)
        if not is_slug(group) or not history.exists():
            raise group_missing()
        page = page_of_fixed("group-history", history, **self.query)
        known = self.known()
        return self.listing(
            page,
            lambda terms: group_terms_document(terms, pool=self.pool, known=known),
            list(GroupTermsDocument.fields),
        )

    def _history(self, slug: str) -> QuerySet[GroupTerms]:
        if self.subtree is None:
            return group_history(pool=self.pool, slug=slug, tenant=self.tenant)
        history = group_history(pool=self.pool, slug=slug, tenant=None)
        return history.filter(group__in=self.subtree.groups())
