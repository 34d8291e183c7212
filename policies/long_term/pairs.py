"""Tree of pairs of measures, and the first by position of the least pair.

Measures that differ by no more than the one stated tolerance are equal. Many tenants can be equal in
the first measure, so that each node of the tree holds the least second one of those below it that are.
A node has three numbers: the least first measure below it, and of the leaves within the tolerance of
that, the least second measure and the greatest first one.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.model.tolerance import DISCRETE_TOLERANCE

LEAST, SECOND, GREATEST = 0, 1, 2


@compiled
def pairs_of(count):
    """Return the tree (2 × size, 3) over so many leaves, none of which takes part."""
    size = 1
    while size < count:
        size *= 2
    return np.full((2 * size, 3), np.inf)


@compiled
def set_pair(tree, leaf, first, second):
    """Change the measures of one leaf, ``inf`` if it takes no part."""
    node = len(tree) // 2 + leaf
    tree[node, LEAST], tree[node, SECOND], tree[node, GREATEST] = first, second, first
    node //= 2
    # To the root: what is equal to the least of a node may change without the numbers of its children.
    while node >= 1:
        least = min(tree[2 * node, LEAST], tree[2 * node + 1, LEAST])
        threshold = least * (1.0 + DISCRETE_TOLERANCE)
        second, greatest = np.inf, least
        for child in range(2 * node, 2 * node + 2):
            if tree[child, LEAST] <= threshold:
                if tree[child, GREATEST] <= threshold:
                    its_second, its_greatest = tree[child, SECOND], tree[child, GREATEST]
                else:
                    its_second, its_greatest = _below(tree, child, threshold)
                second = min(second, its_second)
                greatest = max(greatest, its_greatest)
        tree[node, LEAST], tree[node, SECOND], tree[node, GREATEST] = least, second, greatest
        node //= 2


@compiled
def _below(tree, top, threshold):
    """Return the least second and the greatest first measure of leaves that are at most a threshold.

    ``top`` is the node below which they are, of which the least is at most the threshold.
    """
    second, greatest = np.inf, 0.0
    node = top
    while True:
        if tree[node, LEAST] <= threshold:
            if tree[node, GREATEST] > threshold:
                node *= 2
                continue
            second = min(second, tree[node, SECOND])
            greatest = max(greatest, tree[node, GREATEST])
        while node != top and node & 1:
            node >>= 1
        if node == top:
            return second, greatest
        node += 1


@compiled
def first_of_least(tree):
    """Among leaves with the least first measure, return the first by position with the least second.

    Some leaf must take part.
    """
    size = len(tree) // 2
    threshold = tree[1, LEAST] * (1.0 + DISCRETE_TOLERANCE)
    least = tree[1, SECOND] * (1.0 + DISCRETE_TOLERANCE)
    node = 1
    while True:
        if tree[node, LEAST] <= threshold and tree[node, SECOND] <= least:
            if node >= size:
                return node - size
            node *= 2
            continue
        while node & 1:
            node >>= 1
        node += 1
