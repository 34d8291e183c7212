"""The tree of groups that a pool's tenants belong to, as arrays that solvers walk.

A pool's *nodes* are its tenants (leaves), its groups, and the pool itself (the root). Groups without
tenants below them take no part and are left out, so that a pool whose tenants all belong to the pool
itself is flat, whatever empty groups it has.

Source: docs/policies/groups.md; Bhattacharya et al., SoCC 2013 (H-DRF).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from policies.arrays import BoolArray, FloatArray, IntArray

MOST_GROUPS = 10_000
GREATEST_DEPTH = 8
LARGEST_TIER = 1_000_000
# The parent of groups and tenants that belong to the pool itself.
POOL = -1


@dataclass(frozen=True, eq=False)
class GroupTree:
    """The nodes of a pool's tree, its ``t`` tenants before its groups and the pool.

    Attributes
    ----------
    parent : (v,) int array
        Node that each node belongs to; -1 for the pool, which is the last node.
    weight : (v,) float array
        Divides a node's share into its level; 1 for the pool.
    tier : (v,) int array
        A node takes part only while no sibling of a lower tier can rise.
    children : (c,) int array
        The children of all nodes: node by node, by tier, and by position within a tier. Tenants come
        before groups.
    first_child : (v + 1,) int array
        The children of node ``v`` are ``children[first_child[v]:first_child[v + 1]]``.
    bottom_up : (g,) int array
        The groups and the pool, every node after those below it.
    group_of_node : (v,) int array
        Index of the problem's group; -1 for tenants and the pool.
    """

    parent: IntArray
    weight: FloatArray
    tier: IntArray
    children: IntArray
    first_child: IntArray
    bottom_up: IntArray
    group_of_node: IntArray

    @property
    def nodes(self) -> int:
        """Number of nodes, the pool included."""
        return len(self.parent)

    @property
    def pool(self) -> int:
        """The pool's node."""
        return len(self.parent) - 1

    @property
    def is_flat(self) -> bool:
        """True if groups and tiers decide nothing."""
        only_tenants = len(self.bottom_up) == 1
        return only_tenants and bool((self.tier[:-1] == self.tier[:1]).all())

    @classmethod
    def of(
        cls,
        *,
        tenant_group: IntArray,
        tenant_weight: FloatArray,
        tenant_tier: IntArray,
        group_parent: IntArray,
        group_weight: FloatArray,
        group_tier: IntArray,
    ) -> GroupTree:
        """Build the tree of tenants and of the groups that have any below them.

        Args:
            tenant_group: (t,) group of each tenant, ``POOL`` for the pool itself; tenant_weight,
                tenant_tier: (t,). group_parent: (g,) without cycles; group_weight, group_tier: (g,).
        """
        t, depth = len(tenant_group), depths(group_parent)
        used = np.zeros(len(group_parent), dtype=np.bool_)
        used[tenant_group[tenant_group >= 0]] = True
        # The deepest first, so that a group is marked before its parent is looked at.
        for group in np.argsort(-depth, kind="stable").tolist():
            if used[group] and group_parent[group] >= 0:
                used[group_parent[group]] = True
        groups = np.flatnonzero(used)
        pool = t + len(groups)
        node_of_group = np.full(len(group_parent) + 1, pool)  # the last stands for the pool
        node_of_group[groups] = t + np.arange(len(groups))
        parent = np.concatenate(
            [node_of_group[tenant_group], node_of_group[group_parent[groups]], [POOL]]
        ).astype(np.int64)
        tier = np.concatenate([tenant_tier, group_tier[groups], [0]]).astype(np.int64)
        children = np.lexsort((np.arange(pool), tier[:pool], parent[:pool]))
        first = np.searchsorted(parent[children], np.arange(pool + 2)).astype(np.int64)
        return cls(
            parent=parent,
            weight=np.concatenate([tenant_weight, group_weight[groups], [1.0]]),
            tier=tier,
            children=children.astype(np.int64),
            first_child=first,
            bottom_up=np.r_[t + np.argsort(-depth[groups], kind="stable"), pool].astype(np.int64),
            group_of_node=np.r_[np.full(t, -1), groups, -1].astype(np.int64),
        )

    def only(self, tenants: IntArray) -> GroupTree:
        """Return the tree of some tenants (q,), and of the groups that have any of them below."""
        groups = self.bottom_up[:-1]
        t = self.pool - len(groups)
        if np.array_equal(tenants, np.arange(t)):
            return self
        group_of = np.where(self.parent < self.pool, self.parent - t, POOL)
        return GroupTree.of(
            tenant_group=group_of[:t][tenants],
            tenant_weight=self.weight[:t][tenants],
            tenant_tier=self.tier[:t][tenants],
            group_parent=group_of[t : self.pool],
            group_weight=self.weight[t : self.pool],
            group_tier=self.tier[t : self.pool],
        )

    @cached_property
    def _levels(self) -> list[tuple[IntArray, IntArray, IntArray]]:
        """The groups and the pool by depth, the deepest first.

        Each has its nodes with children, all of these children, and the first of each node's.
        """
        depth = np.zeros(self.nodes, dtype=np.int64)
        above = self.parent
        while (above >= 0).any():
            depth[above >= 0] += 1
            above = np.where(above >= 0, self.parent[above], POOL)
        count = np.diff(self.first_child)
        levels = []
        for level in range(int(depth.max(initial=0)), -1, -1):
            nodes = np.flatnonzero((depth == level) & (count > 0))
            if len(nodes):
                first = np.cumsum(count[nodes]) - count[nodes]
                within = np.arange(count[nodes].sum()) - np.repeat(first, count[nodes])
                of = self.children[np.repeat(self.first_child[nodes], count[nodes]) + within]
                levels.append((nodes, of, first))
        return levels

    def sums(self, leaves: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return for each node the sum (v, ...) of ``leaves`` (t, ...) over the tenants below it."""
        total = np.zeros((self.nodes, *leaves.shape[1:]))
        total[: len(leaves)] = leaves
        for nodes, of, first in self._levels:
            # One call for each level: a loop over the nodes would be slow in wide trees.
            total[nodes] = np.add.reduceat(total[of], first, axis=0)
        return total

    def parts(self, counted: BoolArray) -> FloatArray:
        """Return the part (t,) of the pool that each tenant is entitled to by the weights on its path.

        Args:
            counted: (t,) tenants that are entitled to anything; siblings divide what their parent has.
        """
        part = np.zeros(self.nodes)
        part[self.pool] = 1.0
        # A group without tenants that count would keep its part from its siblings.
        weight = np.where(self.any_below(counted), self.weight, 0.0)
        for nodes, of, first in self._levels[::-1]:
            total = np.zeros(self.nodes)
            total[nodes] = np.add.reduceat(weight[of], first)
            parent = self.parent[of]
            part[of] = part[parent] * weight[of] / np.where(total > 0, total, 1.0)[parent]
        return part[: len(counted)]

    def any_below(self, leaves: BoolArray) -> BoolArray:
        """Return whether any tenant below a node (v,) is marked in ``leaves`` (t,)."""
        return self.sums(leaves.astype(np.float64)) > 0


def group_sums(tenant_group: IntArray, group_parent: IntArray, values: FloatArray) -> FloatArray:
    """Return for each group the sum over the tenants below it.

    Parameters
    ----------
    tenant_group : (t,) int array
        Group of each tenant, -1 for the pool itself.
    group_parent : (g,) int array
        Parent of each group, -1 for the pool itself.
    values : (t, ...) float array
        Values of the tenants.

    Returns
    -------
    (g, ...) float array
        One sum per group.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import group_sums
    >>> group_sums(np.array([1, 0, -1]), np.array([-1, 0]), np.array([4.0, 2.0, 1.0])).tolist()
    [6.0, 4.0]
    """
    total = np.zeros((len(group_parent), *values.shape[1:]))
    mine = tenant_group >= 0
    np.add.at(total, tenant_group[mine], values[mine])
    # The deepest first: a group is complete before it is added to its parent.
    for group in np.argsort(-depths(group_parent), kind="stable").tolist():
        if group_parent[group] >= 0:
            total[group_parent[group]] += total[group]
    return total


def depths(group_parent: IntArray) -> IntArray:
    """Return the number of groups from the pool to each group, itself included (g,).

    It is 0 for groups whose parents never end at the pool.
    """
    depth = np.zeros(len(group_parent), dtype=np.int64)
    reached = group_parent == POOL
    level = 1
    while reached.any():
        depth[reached] = level
        level += 1
        parents = np.where(group_parent >= 0, group_parent, 0)
        reached = (depth == 0) & (group_parent >= 0) & (depth[parents] == level - 1)
    return depth
