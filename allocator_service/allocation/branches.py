"""The tree of a decision as nested nodes of a bounded number."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from allocator_service.allocation.trees import GROUP, Tree, TreeNode
from allocator_service.core.quantities import Resource
from allocator_service.pools.budgets import stop_text
from allocator_service.pools.limits import selector_text

NODES_SHOWN = 200
SIBLINGS_SHOWN = 20
# Larger trees are folded except along the reader's path.
NODES_UNFOLDED = 40
_Key = tuple[str, str]


@dataclass
class Branch:
    """A node to draw, with the nodes below it that there is room for.

    `href` leads to the node's own page and `edit` to its form, empty without any. `own` marks the
    reader's path. `unfolded` groups show their children at once. `more_groups` and `more_members`
    count the children that are left out. Dates are in `timezone`.
    """

    node: TreeNode
    resources: Sequence[Resource]
    href: str = ""
    edit: str = ""
    own: bool = False
    unfolded: bool = True
    below: list["Branch"] = field(default_factory=list)
    more_groups: int = 0
    more_members: int = 0
    timezone: str = "UTC"

    @property
    def is_group(self) -> bool:
        """True for a group, False for a member."""
        return self.node.kind == GROUP

    @property
    def amounts(self) -> list[tuple[Resource, float | None, float | None]]:
        """Amounts that the node has and wants, by resource. Empty if hidden from the reader."""
        if self.node.has is None or self.node.wants is None:
            return []
        return list(zip(self.resources, self.node.has, self.node.wants, strict=True))

    @property
    def limits(self) -> list["BranchLimit"]:
        """Limits of the node that were in force."""
        return [
            BranchLimit(
                selector_text(limit.where),
                [
                    (
                        each,
                        limit.amount[each.name],
                        None if limit.has is None else limit.has[each.name],
                    )
                    for each in self.resources
                    if each.name in limit.amount
                ],
                "" if limit.budget is None else stop_text(limit.budget, self.timezone),
            )
            for limit in self.node.limit
        ]


@dataclass(frozen=True)
class BranchLimit:
    """A limit of a node to draw.

    `servers` is empty for all. `parts` are the resource, the amount and what is allocated of it, None
    if hidden from the reader. `budget` has the words of an exhausted budget whose limit it is.
    """

    servers: str
    parts: list[tuple[Resource, float, float | None]]
    budget: str = ""


@dataclass(frozen=True)
class Branches:
    """Children of a group or of the pool.

    `first` is the position of the first one of `total`, from 1; `before` and `after` are the
    positions at which other pages start, None without any.
    """

    shown: Sequence[Branch]
    first: int
    total: int
    before: int | None
    after: int | None
    more_groups: int
    more_members: int
    resources: Sequence[Resource]

    @property
    def last(self) -> int:
        """Position of the last child shown."""
        return self.first + len(self.shown) - 1


def branches(
    tree: Tree,
    *,
    link: Callable[[TreeNode], str],
    edit: Callable[[TreeNode], str] = lambda _: "",
    parent: str | None = None,
    start: int = 1,
    children: int = SIBLINGS_SHOWN,
    own: Iterable[TreeNode] = (),
) -> Branches:
    """Return `children` children of a group, from position `start` on, and what is below them.

    At most 200 nodes are shown, the upper levels first, and at most 20 children of any node below.
    The path `own` is always among them. The children of the pool itself have no pages: `start` is 1.
    """
    below: dict[str | None, list[TreeNode]] = {}
    for node in tree.nodes:
        below.setdefault(node.parent, []).append(node)
    path = {(node.kind, node.name) for node in own}

    def branch(node: TreeNode) -> Branch:
        mine = (node.kind, node.name) in path
        unfolded = mine or len(tree.nodes) <= NODES_UNFOLDED
        return Branch(
            node,
            tree.resources,
            link(node),
            edit(node),
            mine,
            unfolded,
            timezone=tree.timezone,
        )

    siblings = below.get(parent, [])
    # The position comes from an address, which may be older than the tree.
    start = max(1, min(start, len(siblings)))
    chosen = siblings[start - 1 : start - 1 + children]
    if parent is None:
        chosen = _chosen(siblings, children, path)
    top = [branch(node) for node in chosen]
    # The path has places of its own, so that upper levels cannot take them.
    room, level = NODES_SHOWN - len(top) - len(path), top
    # Level by level: in depth first, one large branch would take all places.
    while level:
        following: list[Branch] = []
        for each in level:
            if not each.is_group:
                continue
            nodes = below.get(each.node.name, [])
            chosen = _chosen(nodes, max(0, min(SIBLINGS_SHOWN, room)), path)
            each.below = [branch(node) for node in chosen]
            each.more_groups, each.more_members = _left_out(nodes, chosen)
            room -= len(chosen)
            following += each.below
        level = following
    after = start + children if start - 1 + children < len(siblings) else None
    more = _left_out(siblings, [each.node for each in top])
    before = max(1, start - children) if start > 1 else None
    return Branches(top, start, len(siblings), before, after, *more, tree.resources)


def _chosen(nodes: Sequence[TreeNode], count: int, path: set[_Key]) -> list[TreeNode]:
    """Return the first siblings, in their order, and the one on the path if there is any."""
    kept = [node for node in nodes if (node.kind, node.name) in path]
    first = [node for node in nodes[:count] if node not in kept]
    chosen = {id(node) for node in kept + first[: max(count - len(kept), 0)]}
    return [node for node in nodes if id(node) in chosen]


def _left_out(nodes: Sequence[TreeNode], shown: Sequence[TreeNode]) -> tuple[int, int]:
    """Return the numbers of groups and of members among the nodes that are not shown."""
    groups = sum(node.kind == GROUP for node in nodes) - sum(node.kind == GROUP for node in shown)
    return groups, len(nodes) - len(shown) - groups
