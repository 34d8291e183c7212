"""The tree of a pool's groups on a tenant's pages, and the page of one group."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from allocator_service.allocation.branches import Branch, Branches, branches
from allocator_service.allocation.models import Run
from allocator_service.allocation.trees import GROUP, MEMBER, Tree, TreeNode
from allocator_service.core.clock import utc_now
from allocator_service.core.snapshots import one_snapshot
from allocator_service.enforcement.selectors import decision_in_force
from allocator_service.pools.models import GroupTerms, OwnServers, Pool
from allocator_service.pools.selectors import (
    group_history,
    group_missing,
    group_terms_of,
    members_of,
    resources_of,
)
from allocator_service.tenants.models import Tenant
from api.contract.fields import is_slug
from api.pages.amounts import KINDS, AmountRow, Terms, amount_rows
from api.pages.views import PoolPage
from api.pseudonyms import group_name, groups_known
from api.v1.trees import tree_for

CHILDREN_A_PAGE = 100
TERMS_SHOWN = 100


@dataclass(frozen=True)
class PoolTree:
    """The tree of the decision in force as a tenant may see it, and the tenant's path in it."""

    pool: Pool
    tree: Tree
    path: list[TreeNode]

    @property
    def groups(self) -> list[Branch]:
        """The groups that the tenant belongs to, the pool's own first."""
        return [
            Branch(
                node,
                self.tree.resources,
                self.link(node),
                own=True,
                timezone=self.tree.timezone,
            )
            for node in self.path
            if node.kind == GROUP
        ]

    @property
    def branches(self) -> Branches:
        """The tree from the pool down, as far as there is room."""
        return branches(self.tree, link=self.link, own=self.path)

    def below(self, group: str, start: int) -> Branches:
        """A page of a group's children, from position `start` on."""
        return branches(
            self.tree,
            link=self.link,
            parent=group,
            start=start,
            children=CHILDREN_A_PAGE,
            own=self.path,
        )

    def link(self, node: TreeNode) -> str:
        """Return the address of a group's page, or nothing for a member."""
        if node.kind != GROUP:
            return ""
        return reverse("my-group", args=[self.pool.slug, node.name])


def terms_above(*, pool: Pool, tenant: Tenant) -> list[Terms]:
    """Return the present terms of a member and of the groups above it, the nearest first."""
    members = list(members_of(pool=pool, tenant=tenant))
    if not members or members[0].group_id is None:
        return [*members]
    # Read at once: a statement per level would make a deep tree slow.
    groups = {terms.group_id: terms for terms in group_terms_of(pool=pool, tenant=tenant)}
    found: list[Terms] = [*members]
    above: int | None = members[0].group_id
    while above is not None:
        found.append(groups[above])
        above = groups[above].parent_id
    return found


def has_amounts(terms: Terms, pool: Pool) -> bool:
    """Return whether a node has amounts of any kind, or may be guaranteed its own servers."""
    is_own = pool.own_servers or terms.own_servers == OwnServers.YES
    return is_own or any(getattr(terms, kind.field, ()) for kind in KINDS)


def amounts_above(
    path: Iterable[Terms], *, pool: Pool, tree: PoolTree | None, now: datetime
) -> list[AmountRow]:
    """Return the amounts of a member and of the groups above it, in this order."""
    # By kind as well: a group and a tenant may have one slug.
    nodes = {} if tree is None else {(node.kind, node.name): node for node in tree.path}
    path = list(path)
    known = {terms.group.slug for terms in path if isinstance(terms, GroupTerms)}
    resources = resources_of(pool)
    rows: list[AmountRow] = []
    for terms in path:
        if isinstance(terms, GroupTerms):
            slug, key = terms.group.slug, (GROUP, terms.group.slug)
            named = {"whose": terms.group.name, "href": reverse("my-group", args=[pool.slug, slug])}
        else:
            key, named = (MEMBER, terms.membership.tenant.slug), {"whose": "you"}
        rows += amount_rows(
            terms, nodes.get(key), resources=resources, now=now, known=known, **named
        )
    return rows


def pool_tree(*, pool: Pool, run: Run, tenant: Tenant) -> PoolTree:
    """Return the tree of a decision."""
    tree = tree_for(run, caller=tenant)
    return PoolTree(pool, tree, tree.path_to(MEMBER, tenant.slug))


class GroupPage(PoolPage):
    """Page of one group with its path, children and earlier terms.

    In a transparent pool also of other groups, by the names under which the tenant sees them.
    `?from=` is the position of the first child to show.
    """

    def get(self, request: HttpRequest, pool: str, group: str) -> HttpResponseBase:
        with one_snapshot():
            of_pool = self.pool
            run = decision_in_force(pool=of_pool, now=utc_now())
            found = None if run is None else pool_tree(pool=of_pool, run=run, tenant=self.tenant)
            path = [] if found is None else found.tree.path_to(GROUP, group)
            terms = self._terms(of_pool, group)
            # A group may be in the decision alone, if it was retired since, or in the present tree
            # alone.
            if not path and terms is None:
                raise group_missing()
            content: dict[str, Any] = {}
            if found is not None and path:
                above, node = path[:-1], path[-1]
                content = {
                    "above": [
                        Branch(each, (), found.link(each), timezone=found.tree.timezone)
                        for each in above
                    ],
                    "branch": Branch(
                        node,
                        found.tree.resources,
                        own=node in found.path,
                        timezone=found.tree.timezone,
                    ),
                    "tree": found.below(group, self._start()),
                }
            return self.shown(
                "group",
                amounts=self._amounts(of_pool, terms, path[-1] if path else None),
                pool=of_pool,
                slug=group,
                name=group if terms is None else terms.group.name,
                whole=of_pool.transparent,
                history=self._history(of_pool, group),
                **content,
            )

    def _amounts(
        self, pool: Pool, terms: GroupTerms | None, node: TreeNode | None
    ) -> list[AmountRow]:
        """Return the amounts of a group above the tenant. Those of others are in the tree alone."""
        if terms is None:
            return []
        known = groups_known(pool=pool, caller=self.tenant)
        return amount_rows(terms, node, resources=resources_of(pool), now=utc_now(), known=known)

    def _start(self) -> int:
        text = self.request.GET.get("from", "1")
        # Short, because `int` refuses texts of thousands of digits with an error.
        return int(text) if text.isdecimal() and text.isascii() and len(text) < 8 else 1

    def _terms(self, pool: Pool, slug: str) -> GroupTerms | None:
        if not is_slug(slug):
            return None
        mine = group_terms_of(pool=pool, tenant=self.tenant)
        return mine.filter(group__slug=slug).first()

    def _history(self, pool: Pool, slug: str) -> list[dict[str, Any]]:
        """Return the newest terms of a group above the tenant, newest first."""
        if not is_slug(slug):
            return []
        rows = group_history(pool=pool, slug=slug, tenant=self.tenant).reverse()[:TERMS_SHOWN]
        known = groups_known(pool=pool, caller=self.tenant)
        return [
            {
                "terms": terms,
                "parent": group_name(terms.parent.slug, pool=pool, known=known)
                if terms.parent
                else None,
            }
            for terms in rows
        ]
