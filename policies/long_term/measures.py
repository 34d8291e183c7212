"""Measures of past use that order tenants, and the tenant that is next by them.

Source: Tang et al., TPDS 2018, §5.1 (LT-DRF), §5.2 (LT-AF), Algorithm 1 (H-MRF). They differ in the
measures:

* ``lt-drf``: weighted accumulated dominant share, then weighted aggregate;
* ``lt-af``: weighted aggregate;
* ``h-mrf``: while the least sharing degree is below 1, that, then the aggregate; otherwise the
  aggregate, then the weighted accumulated dominant share.

Measures that differ by no more than the one stated tolerance are equal, and the tie goes on to the
next measure and at last to the position. In a pool with groups the same order holds among the children
of every node, by the sums of what the tenants below each have used and would have used alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.filling.group_turns import (
    BEGIN,
    CURRENT,
    FIRST_BLOCK,
    FIRST_CHILD,
    LEAF,
    OWN_BLOCK,
    PARENT,
    SIZE,
    STOP_BLOCK,
    blocks_of,
)
from policies.filling.winner_tree import set_share
from policies.model.group_tree import GroupTree
from policies.model.tolerance import DISCRETE_TOLERANCE

LT_DRF, LT_AF, H_MRF = 0, 1, 2


@compiled
def keys_of(rule, degree, aggregate, dominant, weight):
    """Return sharing degree, measure and tie-breaker of a tenant.

    Args:
        rule: one of the three constants.
        degree: sharing degree, inf without anything that the tenant would have used alone.
        aggregate, dominant: sum and largest of its accumulated shares; weight: what divides them.
    """
    aggregate /= weight
    dominant /= weight
    # Without anything that it would have used alone a tenant loses nothing; and degrees from 1 on do
    # not order: alike, they leave the tree as it is.
    least = min(degree, 1.0) if rule == H_MRF else 1.0
    return (
        least,
        dominant if rule == LT_DRF else aggregate,
        (dominant if rule == H_MRF else aggregate),
    )


@compiled
def next_by_history(degree, main, second):
    """Return the tenant that is next, of at least one that waits.

    Args:
        degree, main: trees (``winner_tree``) of the first two of ``keys_of``; second: (t,) the third.
    """
    leaves = len(main) // 2
    if degree[1] < 1.0 - DISCRETE_TOLERANCE:
        return _first_of_least(degree, main, leaves)
    return _first_of_least(main, second, 0)


@compiled
def _first_of_least(tree, second, first_leaf):
    """Among those with the least of ``tree``, the first by position with the least ``second``.

    ``second`` is read from ``first_leaf`` on.
    """
    threshold = tree[1] * (1.0 + DISCRETE_TOLERANCE)
    leaves = len(tree) // 2
    node, tied = 1, False
    # Both children are looked at on the way down, so that a unique winner needs no second search.
    while node < leaves:
        node *= 2
        right = tree[node] > threshold
        tied |= (not right) & (tree[node + 1] <= threshold)
        node += right
    first = node - leaves
    if not tied:
        return first
    least, chosen, close = second[first_leaf + first], first, False
    other = _within(tree, first + 1, threshold)
    while other != NOWHERE:
        value = second[first_leaf + other]
        if value < least:
            close = close or least <= value * (1.0 + DISCRETE_TOLERANCE)
            least, chosen = value, other
        other = _within(tree, other + 1, threshold)
    if not close:
        return chosen
    # Values that are close to the least are ties, and go to the first by position.
    while second[first_leaf + first] > least * (1.0 + DISCRETE_TOLERANCE):
        first = _within(tree, first + 1, threshold)
    return first


@compiled
def _within(tree, first, threshold):
    """Return the first leaf from ``first`` on that is at most the threshold, else NOWHERE."""
    leaves = len(tree) // 2
    if first >= leaves:
        return NOWHERE
    node = leaves + first
    while tree[node] > threshold:
        while node & 1:
            node >>= 1
        if node == 0:
            return NOWHERE
        node += 1
    while node < leaves:
        node *= 2
        if tree[node] > threshold:
            node += 1
    return node - leaves


class HistoryTurns(NamedTuple):
    """The nodes of a tree and the measures of all children that wait. Flat pools have no nodes.

    Attributes:
        node, block, child: as of :class:`policies.filling.group_turns.GroupTurns`.
        degree, main, second: the measures of ``keys_of``, in winner trees by block; of the third only
            the leaves count.
        used, alone: (v, m) sums of resource × time over the tenants below each node; weight: (v,).
    """

    node: IntArray
    block: IntArray
    child: IntArray
    degree: FloatArray
    main: FloatArray
    second: FloatArray
    used: FloatArray
    alone: FloatArray
    weight: FloatArray


def history_turns(tree: GroupTree | None, used: FloatArray, alone: FloatArray) -> HistoryTurns:
    """Return turns without any tenant that waits.

    Args:
        tree: of the pool; None of a flat one.
        used, alone: (t, m) resource × time of tenants: used so far, and alone.
    """
    if tree is None:
        nothing = np.zeros((0, used.shape[1]))
        return HistoryTurns(
            np.zeros((0, 6), dtype=np.int64), np.zeros((0, 3), dtype=np.int64),
            np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0), nothing, nothing,
            np.zeros(0),
        )  # fmt: skip
    node, block = blocks_of(tree)
    size = int(2 * block[:, SIZE].sum())
    degree, main, second = (np.full(size, np.inf) for _ in range(3))
    return HistoryTurns(
        node, block, tree.children, degree, main, second, tree.sums(used), tree.sums(alone),
        tree.weight,
    )  # fmt: skip


@compiled
def next_in_history(turns):
    """Return the tenant that is next in a pool with groups, of at least one that waits."""
    v = len(turns.node) - 1
    while turns.node[v, FIRST_BLOCK] < turns.node[v, STOP_BLOCK]:
        current = turns.node[v, CURRENT]
        begin, size = turns.block[current, BEGIN], turns.block[current, SIZE]
        stop = begin + 2 * size
        place = 0
        if size > 1:
            place = next_by_history(
                turns.degree[begin:stop], turns.main[begin:stop], turns.second[begin + size : stop]
            )
        v = turns.child[turns.block[current, FIRST_CHILD] + place]
    return v


@compiled
def set_measures(turns, tenant, rule, degree, main, second, gain, share_of_total):
    """Change a tenant's measures, inf if it has left, and those of the groups above it.

    Args:
        rule: one of the three constants; degree, main, second: of ``keys_of``.
        gain: (m,) resource × time that the tenant has received; share_of_total: (m,) one unit.
    """
    v = tenant
    while turns.node[v, PARENT] >= 0:
        block = turns.node[v, OWN_BLOCK]
        begin, size = turns.block[block, BEGIN], turns.block[block, SIZE]
        leaf = turns.node[v, LEAF]
        place = leaf - begin - size
        # A single child is its own winner.
        if size > 1:
            set_share(turns.degree[begin : begin + 2 * size], place, degree)
            set_share(turns.main[begin : begin + 2 * size], place, main)
        else:
            turns.degree[leaf] = degree
            turns.main[leaf] = main
        turns.second[leaf] = second
        v = turns.node[v, PARENT]
        # A tenant of a lower tier that waits again comes before the current tier.
        if main < np.inf:
            turns.node[v, CURRENT] = min(turns.node[v, CURRENT], block)
        for r in range(len(gain)):
            turns.used[v, r] += gain[r]
        degree, main, second = _measures_of_group(turns, v, rule, share_of_total)


@compiled
def _measures_of_group(turns, v, rule, share_of_total):
    """Return the measures of a group, inf without a tenant below it that waits."""
    current = turns.node[v, CURRENT]
    while turns.main[turns.block[current, BEGIN] + 1] == np.inf:
        current += 1
        if current == turns.node[v, STOP_BLOCK]:
            return np.inf, np.inf, np.inf
        turns.node[v, CURRENT] = current
    least, aggregate, dominant = np.inf, 0.0, 0.0
    for r in range(len(share_of_total)):
        if turns.alone[v, r] > 0.0:
            least = min(least, turns.used[v, r] / turns.alone[v, r])
        share = turns.used[v, r] * share_of_total[r]
        aggregate += share
        dominant = max(dominant, share)
    return keys_of(rule, least, aggregate, dominant, turns.weight[v])
