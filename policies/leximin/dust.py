"""Removal of the parts of a tenant's share that are rounding errors."""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.tolerance import AGREEMENT, DUST


def above_dust(
    share: FloatArray, workload: IntArray, owner: IntArray, limit: FloatArray
) -> BoolArray:
    """Return which parts of shares are more than rounding.

    All that is left out of a tenant's share is at most ``DUST`` of it. A workload that runs all its
    tasks keeps them, however small it is: there the parts are compared with its own share.

    Args:
        share: (p,) of each part.
        workload: (p,) whose part it is.
        owner: (n,) tenant of each workload.
        limit: (n,) share of all tasks of each workload; inf without a limit.
    """
    of_workload = grouped_sum(share, workload, len(owner))
    complete = of_workload >= limit * (1 - AGREEMENT)
    whole = owner.max(initial=-1) + 1
    of = np.where(complete, whole + np.arange(len(owner)), owner)[workload]
    total = grouped_sum(share, of, int(whole) + len(owner))
    of_tenant = grouped_sum(share, owner[workload], int(whole))
    total[: len(of_tenant)] = of_tenant
    part = share / np.where(total > 0, total, 1.0)[of]
    stays = part > 0
    small = np.flatnonzero(stays & (part <= DUST))
    if not len(small):
        return stays
    # The smallest first, as long as their sum is next to nothing.
    order = small[np.lexsort((part[small], of[small]))]
    sums = np.cumsum(part[order])
    first = np.searchsorted(of[order], of[order])
    stays[order[sums - (sums - part[order])[first] <= DUST]] = False
    return stays
