"""FFMRA's division of one server between the users that it hosts, as described in MRFS §II–III.

The paper that defines FFMRA is not among the sources, and the figures in MRFS §III contradict each
other; this is the reading of policies §6. Every resource is divided by itself: first between the
users for which it is dominant and the others, in proportion to what the two groups need of it, then
evenly inside each group.
"""

from __future__ import annotations

import numpy as np

from papers.arrays import BoolArray, FloatArray
from policies import dominant_on


def divide_server(capacity: FloatArray, need: FloatArray, weight: FloatArray) -> FloatArray:
    """Divide a server's resources between its users.

    Args:
        capacity: (m,) of the server.
        need: (u, m) what each user needs of each resource, in the same units.
        weight: (u,) above 0; users of a group get amounts in proportion to it.

    Returns:
        (u, m) amounts; none above its need, none of a resource beyond the capacity, and all of it
        where the needs exceed it.
    """
    dominant = np.array([dominant_on(row, capacity) for row in need], dtype=np.int64)
    given = np.zeros(need.shape)
    for r in range(len(capacity)):
        given[:, r] = _divide_resource(float(capacity[r]), need[:, r], dominant == r, weight)
    return given


def _divide_resource(
    capacity: float, need: FloatArray, dominated: BoolArray, weight: FloatArray
) -> FloatArray:
    """Return the amounts (u,) of one resource.

    A round that satisfies no user leaves nothing to divide, so that there are at most u rounds.
    """
    given = np.zeros(len(need))
    wanting = need > 0
    left = min(capacity, float(need.sum()))
    for _ in range(len(need)):
        if not wanting.any():
            break
        missing = np.where(wanting, need - given, 0.0)
        offer = np.zeros(len(need))
        for group in (dominated, ~dominated):
            members = wanting & group
            if members.any():
                part = left * missing[members].sum() / missing.sum()
                offer[members] = part * weight[members] / weight[members].sum()
        satisfied = wanting & (given + offer >= need)
        given = np.where(satisfied, need, given + np.where(wanting, offer, 0.0))
        # Only what a user lacks is used: the rest of its offer is divided in the next round.
        left -= float(np.minimum(offer, missing).sum())
        wanting &= ~satisfied
        if not satisfied.any():
            break
    return given
