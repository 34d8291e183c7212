"""The order of turns in a tree of groups.

A turn goes from the pool down, always to the child with the least level.

Every node keeps its children in winner trees (``winner_tree``), one per tier; a child without a tenant
that still waits has the level inf. The level of a group is the largest share of any resource that the
tasks below it use, over its weight.

Source: docs/policies/groups.md; Bhattacharya et al., SoCC 2013, §3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled
from policies.model.group_tree import GroupTree
from policies.model.problem import Problem
from policies.model.queues import Queues
from policies.model.tolerance import DISCRETE_TOLERANCE

# Columns of ``GroupTurns.node`` and ``GroupTurns.block``.
PARENT, LEAF, OWN_BLOCK, FIRST_BLOCK, CURRENT, STOP_BLOCK = range(6)
BEGIN, SIZE, FIRST_CHILD = range(3)


class GroupTurns(NamedTuple):
    """The nodes of a tree, and the levels of all children that wait. Flat pools have no nodes.

    Attributes:
        node: (v, 6) parent, position of the node's level in ``level``, block that it is in; of its
            children the first block, the first one in which a child waits, and one past the last.
        block: (b, 3) one tier of one node: where its winner tree begins in ``level``, its number of
            leaves, and its first child in ``child``.
        child: (c,) nodes, block by block.
        level: winner trees of all blocks.
        held: (v, m) shares of the pool used below each node; weight: (v,).
    """

    node: IntArray
    block: IntArray
    child: IntArray
    level: FloatArray
    held: FloatArray
    weight: FloatArray


def flat_turns(resources: int) -> GroupTurns:
    """Return the turns of a pool without groups."""
    none = np.zeros(0, dtype=np.int64)
    return GroupTurns(
        np.zeros((0, 6), dtype=np.int64),
        np.zeros((0, 3), dtype=np.int64),
        none,
        np.zeros(0),
        np.zeros((0, resources)),
        np.zeros(0),
    )


def blocks_of(tree: GroupTree) -> tuple[IntArray, IntArray]:
    """Return ``node`` and ``block`` of a tree, as :class:`GroupTurns` has them."""
    node = np.full((tree.nodes, 6), -1, dtype=np.int64)
    node[:, PARENT] = tree.parent
    parent, tier = tree.parent[tree.children], tree.tier[tree.children]
    begins = np.r_[True, (parent[1:] != parent[:-1]) | (tier[1:] != tier[:-1])]
    first_child = np.flatnonzero(begins)
    count = np.diff(np.r_[first_child, len(tree.children)])
    size = 1 << np.ceil(np.log2(count)).astype(np.int64)
    begin = np.cumsum(2 * size) - 2 * size
    block = np.stack([begin, size, first_child], axis=1)
    of_child = np.cumsum(begins) - 1
    within = np.arange(len(tree.children)) - first_child[of_child]
    node[tree.children, LEAF] = (begin + size)[of_child] + within
    node[tree.children, OWN_BLOCK] = of_child
    blocks = np.bincount(parent[first_child], minlength=tree.nodes)
    node[:, STOP_BLOCK] = np.cumsum(blocks)
    node[:, FIRST_BLOCK] = node[:, STOP_BLOCK] - blocks
    node[:, CURRENT] = node[:, FIRST_BLOCK]
    return node, block


def group_turns(tree: GroupTree, level: FloatArray, used: FloatArray) -> GroupTurns:
    """Return the turns of tenants that have a level.

    Args:
        tree: of the pool; level: (t,) of tenants, inf for those that wait for nothing.
        used: (t, m) shares of the pool that each tenant uses already.
    """
    node, block = blocks_of(tree)
    turns = GroupTurns(
        node,
        block,
        tree.children,
        np.full(int(2 * block[:, SIZE].sum()), np.inf),
        tree.sums(used),
        tree.weight,
    )
    fill_in(turns, level, tree.bottom_up)
    return turns


def turns_in_stage(problem: Problem, queues: Queues, stage: int, gain: FloatArray) -> GroupTurns:
    """Return the turns of a stage's tenants, none of which has launched anything.

    Args:
        queues: workloads of each tenant; gain: (q, r) shares of the pool that one task of each uses.
    """
    if not problem.has_groups:
        return flat_turns(gain.shape[1])
    return group_turns(problem.tree(stage), queues.shares_in_stage(stage), queues.used(gain))


@compiled
def fill_in(turns, level, bottom_up):
    """Write all levels, those of groups after those of their children."""
    for tenant in range(len(level)):
        turns.level[turns.node[tenant, LEAF]] = level[tenant]
    for v in bottom_up:
        for b in range(turns.node[v, FIRST_BLOCK], turns.node[v, STOP_BLOCK]):
            begin = turns.block[b, BEGIN]
            for place in range(turns.block[b, SIZE] - 1, 0, -1):
                left = turns.level[begin + 2 * place]
                turns.level[begin + place] = min(left, turns.level[begin + 2 * place + 1])
        its_level = _level_of_group(turns, v)
        if turns.node[v, PARENT] >= 0:
            turns.level[turns.node[v, LEAF]] = its_level


@compiled
def _level_of_group(turns, v):
    """Return the level of a group, inf without a tenant below it that waits."""
    current = turns.node[v, CURRENT]
    while turns.level[turns.block[current, BEGIN] + 1] == np.inf:
        current += 1
        if current == turns.node[v, STOP_BLOCK]:
            return np.inf
        turns.node[v, CURRENT] = current
    most = 0.0
    for r in range(turns.held.shape[1]):
        most = max(most, turns.held[v, r])
    return most / turns.weight[v]


@compiled
def next_in_groups(turns):
    """Return the tenant that is next, of at least one that waits."""
    v = len(turns.node) - 1
    while turns.node[v, FIRST_BLOCK] < turns.node[v, STOP_BLOCK]:
        current = turns.node[v, CURRENT]
        begin, size = turns.block[current, BEGIN], turns.block[current, SIZE]
        threshold = turns.level[begin + 1] * (1.0 + DISCRETE_TOLERANCE)
        place = 1
        while place < size:
            place *= 2
            if turns.level[begin + place] > threshold:
                place += 1
        v = turns.child[turns.block[current, FIRST_CHILD] + place - size]
    return v


@compiled
def set_level(turns, tenant, level, gain):
    """Change a tenant's level, inf if it has left, and those of the groups above it.

    Args:
        gain: (m,) shares of the pool that the tenant has received.
    """
    v = tenant
    while turns.node[v, PARENT] >= 0:
        leaf = turns.node[v, LEAF]
        up = turns.node[v, PARENT]
        begin = turns.block[turns.node[v, OWN_BLOCK], BEGIN]
        turns.level[leaf] = level
        place = (leaf - begin) // 2
        while place >= 1:
            left = turns.level[begin + 2 * place]
            least = min(left, turns.level[begin + 2 * place + 1])
            # What does not change here changes nothing above.
            if turns.level[begin + place] == least:
                break
            turns.level[begin + place] = least
            place //= 2
        for r in range(turns.held.shape[1]):
            turns.held[up, r] += gain[r]
        v = up
        level = _level_of_group(turns, v)
