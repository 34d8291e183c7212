"""Tournament tree that finds the tenant with the least share, the first by position among equals.

A binary tree of minima over the tenants. Shares that differ by no more than the one stated
tolerance (:data:`policies.model.tolerance.DISCRETE_TOLERANCE`, relative) are equal: the tenant that
goes next is the first by position whose share is within it of the least.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.model.tolerance import DISCRETE_TOLERANCE


@compiled
def tree_of(shares):
    """Return the tree (2 × size,) over shares (t,).

    The share of a tenant that has left is ``inf``.
    """
    size = 1
    while size < len(shares):
        size *= 2
    tree = np.empty(2 * size)
    plant(tree, shares)
    return tree


@compiled
def plant(tree, shares):
    """Write the tree over shares (t,) into ``tree`` (2 × size,), size a power of two, at least t."""
    size = len(tree) // 2
    tree[0] = np.inf
    for leaf in range(len(shares)):
        tree[size + leaf] = shares[leaf]
    tree[size + len(shares) :] = np.inf
    for node in range(size - 1, 0, -1):
        tree[node] = min(tree[2 * node], tree[2 * node + 1])


@compiled
def set_share(tree, tenant, share):
    """Change one tenant's share."""
    node = len(tree) // 2 + tenant
    tree[node] = share
    node //= 2
    while node >= 1:
        least = min(tree[2 * node], tree[2 * node + 1])
        if tree[node] == least:
            break
        tree[node] = least
        node //= 2


@compiled
def next_tenant(tree):
    """Return the first tenant with the least share.

    Some share must be finite.
    """
    threshold = tree[1] * (1.0 + DISCRETE_TOLERANCE)
    size = len(tree) // 2
    node = 1
    while node < size:
        node *= 2
        if tree[node] > threshold:
            node += 1
    return node - size
