"""The measure of best-fit, and the choice among servers that fit equally well.

Source: Wang et al., TPDS 2015, eq. 9: the task of workload ``j`` goes to the server with the
least ``H = sum_r | D[j,r]/D[j,ref] - left[l,r]/left[l,ref] |`` among those on which it fits,
and to the first by position among equal ones.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.model.tolerance import DISCRETE_TOLERANCE

NOWHERE = -1


@compiled
def misfit(task, reference, left, share_of_unit):
    """Return ``H`` of a task with ratios ``task`` (m,) to its reference resource on one server."""
    scale = 1.0 / (left[reference] * share_of_unit[reference])
    total = 0.0
    for r in range(len(task)):
        total += abs(task[r] - left[r] * share_of_unit[r] * scale)
    return total


@compiled
def tie_at(best, size):
    """Return the greatest ``H`` that counts as equal to ``best``.

    ``size`` is the sum of the task's ratios.
    """
    return best + DISCRETE_TOLERANCE * (size + best)


@compiled
def better(distance, server, best, chosen, its_distance, size):
    """Take one more server into account.

    Args:
        distance, server: its ``H`` and position.
        best, chosen, its_distance: least ``H`` so far, the first server that ties with it,
            and the ``H`` of that one; inf and -1 before the first.
        size: the sum of the task's ratios, which scales what counts as equal.

    Returns:
        The new (best, chosen, its_distance), and whether a server seen earlier may be the
        right choice after all. Then a second pass, with ``best`` known, must decide.
    """
    if distance < best:
        tie = tie_at(distance, size)
        if its_distance <= tie and chosen < server:
            return distance, chosen, its_distance, False
        return distance, server, distance, best <= tie and its_distance > tie
    if server < chosen and distance <= tie_at(best, size):
        return best, server, distance, False
    return best, chosen, its_distance, False


@compiled
def slope_of(left, share_of_unit):
    """Return the ratio of the second resource left to the first, both as shares of the pool."""
    first, second = left[0] * share_of_unit[0], left[1] * share_of_unit[1]
    if first > 0.0:
        return second / first
    return np.inf if second > 0.0 else 0.0
