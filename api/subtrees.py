"""Limits of callers who are bound to a group, by a key or as people.

They see their group, the groups below and their members. The tree counts as of the time that is
shown. What a tenant did elsewhere, before it entered the group or after it left, is absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import QuerySet

from allocator_service.allocation.models import Run
from allocator_service.allocation.trees import GROUP, MEMBER, Tree, TreeNode, run_tree
from allocator_service.core.selecting import missing
from allocator_service.pools.models import Group, GroupTerms, MembershipTerms, Pool
from allocator_service.pools.selectors import group_missing, group_terms_of, members_of
from allocator_service.pools.tree_history import (
    Place,
    group_named,
    groups_before,
    places_before,
    slugs_before,
)
from allocator_service.tenants.models import Tenant
from api.contract.errors import Forbidden
from api.contract.fields import is_slug
from api.pseudonyms import pseudonym


@dataclass(frozen=True)
class Subtree:
    """The part of a pool's tree that a caller is bound to."""

    group: Group

    @property
    def pool(self) -> Pool:
        return self.group.pool

    def places(self, before: datetime) -> Mapping[int, Place]:
        """Return the tenants below the group just before an instant, by key."""
        return places_before(group=self.group, before=before)

    def of_run(self, run: Run) -> Mapping[int, Place]:
        """Return the tenants that were below the group when a run began."""
        # A run that waits has no start yet. Its tree is the present one until then.
        return self.places(run.started_at or run.created_at)

    def groups_of_run(self, run: Run) -> set[str]:
        """Return the slugs of the groups that were below when a run began, including the group's own."""
        before = run.started_at or run.created_at
        found = groups_before(group=self.group, before=before)
        # Retired groups are left out: another group of the same slug may have been elsewhere.
        return slugs_before(groups=found, before=before)

    def tree_of_run(self, run: Run) -> Tree:
        """Return the tree of a decision from the group down, as if the group were the pool's child."""
        tree = run_tree(run)
        tenants = Tenant.objects.filter(pk__in=self.of_run(run)).values_list("slug", flat=True)
        below = {GROUP: self.groups_of_run(run), MEMBER: set(tenants)}
        nodes: list[TreeNode] = []
        reached, above = set(), 0
        # Each node follows its parent. Only what the decision itself had below the group counts.
        for node in tree.nodes:
            if node.name not in below[node.kind]:
                continue
            if (node.kind, node.name) == (GROUP, self.group.slug):
                # The group above, and how many there are, are not the caller's to know.
                above, node = node.depth, replace(node, parent=None)
            elif node.parent not in reached:
                continue
            if node.kind == GROUP:
                reached.add(node.name)
            nodes.append(replace(node, depth=node.depth - above))
        return replace(tree, nodes=nodes)

    def nodes_of_run(self, run: Run) -> dict[tuple[str, str], TreeNode]:
        """Return the nodes of a decision that were below when its run began, by kind and name."""
        tenants = Tenant.objects.filter(pk__in=self.of_run(run)).values_list("slug", flat=True)
        below = {GROUP: self.groups_of_run(run), MEMBER: set(tenants)}
        return {
            (node.kind, node.name): node
            for node in run_tree(run, levels=False).nodes
            if node.name in below[node.kind]
        }

    def groups(self) -> set[int]:
        """Return the primary keys of the present groups below, including the group itself."""
        # One statement for the tree of at most 10,000 groups, instead of one for each level.
        parents = dict(group_terms_of(pool=self.pool).values_list("group_id", "parent_id"))
        below: dict[int | None, list[int]] = {}
        for group, parent in parents.items():
            below.setdefault(parent, []).append(group)
        found, reached = {self.group.pk}, [self.group.pk]
        while reached:
            reached = [child for each in reached for child in below.get(each, ())]
            found.update(reached)
        return found

    def terms(self) -> QuerySet[GroupTerms]:
        """Return the present terms of the groups that the key sees."""
        return group_terms_of(pool=self.pool).filter(group__in=self.groups())

    def members(self) -> QuerySet[MembershipTerms]:
        """Return the present terms of the members that the key sees."""
        return members_of(pool=self.pool).filter(group__in=self.groups())

    def tenants(self) -> set[int]:
        """Return the primary keys of the present members."""
        return set(self.members().values_list("membership__tenant", flat=True))

    def group_at(self, slug: str, before: datetime) -> Group:
        """Return the group of a slug. Raises `Missing` unless it was below just before an instant."""
        found = group_named(pool=self.pool, slug=slug, before=before)
        if found.pk not in groups_before(group=self.group, before=before):
            raise group_missing()
        return found

    def tenant_of_run(self, slug: str, run: Run) -> Tenant:
        """Return a tenant. Raises `Missing` unless it was below when a run began."""
        found = Tenant.objects.filter(slug=slug, retired_at=None).first() if is_slug(slug) else None
        if found is None or found.pk not in self.of_run(run):
            raise missing("tenant.not_found")
        return found

    def refuse_own(self, group: Group) -> None:
        """Raise `Forbidden` for the group itself, whose terms are for those above it."""
        if group.pk == self.group.pk:
            raise Forbidden(
                "A group's manager changes weights, tiers and limits below the group, never the group's"
                " own. Ask an operator.",
                code="auth.group",
            )

    def refuse_other_changes(self, changed: Mapping[str, bool]) -> None:
        """Raise `Forbidden` for a changed field other than weight, tier and limit."""
        names = [name for name, differs in changed.items() if differs]
        if names:
            raise Forbidden(
                f'A group\'s manager changes weights, tiers and limits; "{names[0]}" must stay as it is.'
                " Ask an operator.",
                code="auth.group",
            )

    def outsider(self, slug: str) -> str:
        """Return the pseudonym of a tenant outside the group."""
        return pseudonym("member", slug, pool=self.pool)


def subtree_of(*, group: int, pool: Pool) -> Subtree:
    """Return the subtree of a caller. Raises `Missing` unless the group is one of the pool."""
    # The key names its group by number: compared with the pool, it opens none of another pool's groups.
    found = Group.objects.filter(pk=group, pool=pool, retired_at=None).first()
    if found is None:
        raise group_missing()
    found.pool = pool
    return Subtree(found)
