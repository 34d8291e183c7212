"""The tree of groups on a pool's page in the admin."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from allocator_service.allocation.branches import Branch, Branches, branches
from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.trees import GROUP, TreeNode, run_tree
from allocator_service.core.errors import Gone
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import groups_of

CHILDREN_A_PAGE = 50


@dataclass(frozen=True)
class AskedTree:
    """A page of the tree.

    It begins with child `start` of `group`, or of the pool if that is empty.
    """

    group: str = ""
    start: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "AskedTree":
        """Read the query of a URL. Malformed values are ignored."""
        text = query.get("from", "1")
        start = int(text) if text.isdecimal() and text.isascii() and len(text) < 8 else 1
        return cls(query.get("group", "")[:63], start)


@dataclass(frozen=True)
class GroupTree:
    """A page of the tree, with the path from the pool to its group."""

    path: list[Branch]
    branches: Branches


def group_tree(pool: Pool, run: Run, asked: AskedTree) -> GroupTree | None:
    """Return the tree of a succeeded run from the pool or a group down.

    None without groups, and once the run's input is pruned. An unknown group shows the whole tree.
    """
    try:
        if "groups" not in input_of(run):
            return None
        tree = run_tree(run)
    except Gone:
        return None
    keys = dict(groups_of(pool=pool).values_list("slug", "pk"))

    def link(node: TreeNode) -> str:
        return f"?{urlencode({'group': node.name})}#groups" if node.kind == GROUP else ""

    def edit(node: TreeNode) -> str:
        if node.kind != GROUP or node.name not in keys:
            return ""
        return reverse("admin:pools_group_change", args=[keys[node.name]])

    path = tree.path_to(GROUP, asked.group)
    shown = branches(
        tree,
        link=link,
        edit=edit,
        parent=path[-1].name if path else None,
        start=asked.start if path else 1,
        children=CHILDREN_A_PAGE,
    )
    above = [
        Branch(node, tree.resources, link(node), edit(node), timezone=tree.timezone)
        for node in path
    ]
    return GroupTree(above, shown)
