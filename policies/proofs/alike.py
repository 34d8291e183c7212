"""Groups and workloads of a leximin's tenants, in its normal form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
)
from policies.model.group_tree import GroupTree
from policies.model.problem import Problem
from policies.model.share_definition import ShareUnits


@dataclass(frozen=True, eq=False)
class Groups:
    """Tree of the tenants with something to run, and the proportions in which they use resources.

    Attributes:
        trees: the tree with the weights of the first stage, and with those of the second stage.
        direction: (t, m) shares of the pool per unit of share, scaled to a largest entry of 1; (t, 1)
            ones if shares add up whatever resources are used.
        part: (t,) part of the pool that each tenant is entitled to among the tenants of its stage.
    """

    trees: tuple[GroupTree, GroupTree]
    direction: FloatArray
    part: FloatArray


def groups_of(
    problem: Problem, units: ShareUnits, tenants: IntArray, workloads: IntArray, owner: IntArray
) -> Groups | None:
    """Return the tree of tenants with something to run, or None if the pool is flat.

    Args:
        tenants: (t',) with something to run, as indices of the problem.
        workloads: (q,) that can run; owner: (q,) position of their tenants in ``tenants``.
    """
    if not problem.has_groups:
        return None
    second = problem.second_stage[tenants]
    early = problem.tree(0).only(tenants)
    # Weights that are not derived are the same in both stages.
    late = early if problem.tree(1) is problem.tree(0) else problem.tree(1).only(tenants)
    part = early.parts(~second)
    if second.any():
        part = np.where(second, late.parts(second), part)
    direction = np.ones((len(tenants), 1))  # the shares of a group's tenants add up
    if units.by_resource:
        limit = units.limit[workloads]
        # Beside endless tasks finite ones have no proportion, so that all workloads count alike.
        endless = np.isin(owner, owner[np.isinf(limit)])
        total = np.zeros((len(tenants), problem.m))
        taken = np.where(endless, 1.0, limit)[:, None] * units.demand[workloads]
        np.add.at(total, owner, taken)
        if problem.direction is not None:
            stated = problem.direction[tenants]
            total = np.where(np.isnan(stated), total, stated)
        direction = total / total.max(axis=1, initial=0.0)[:, None]
    return Groups((early, late), direction, part)


def alike_workloads(
    demand: FloatArray,
    allowed: BoolArray,
    workloads: IntArray,
    owner: IntArray,
    own_limits: IntArray,
    *,
    adjacent: bool = False,
) -> tuple[IntArray, IntArray]:
    """Merge alike workloads of a tenant.

    Workloads are alike if they have equal rows of ``demand``, ``allowed`` and ``own_limits``.

    Args:
        demand: (n, m), allowed: (n, K), own_limits: (n,) of all workloads.
        workloads: (q,) workloads to merge: each tenant's together, in priority order.
        owner: (q,) tenant of each of them.
        adjacent: merge only workloads that follow each other in this order.

    Returns:
        (q,) the merged workload that each is part of, and the position in ``workloads`` of the first
        (preferred) workload of each merged one.
    """
    if len(owner) == 0 or (owner[1:] > owner[:-1]).all():
        identity = np.arange(len(workloads))
        return identity, identity
    index: dict[tuple[int, int, bytes, bytes], int] = {}
    first: list[int] = []
    merged = np.empty(len(workloads), dtype=np.int64)
    for position, j in enumerate(workloads.tolist()):
        key = (
            int(owner[position]),
            int(own_limits[j]),
            demand[j].tobytes(),
            allowed[j].tobytes(),
        )
        # A workload that differs ends the run, which no later workload may continue.
        if adjacent and key not in index:
            index.clear()
        merged[position] = index.setdefault(key, len(first))
        if merged[position] == len(first):
            first.append(position)
    return merged, np.array(first, dtype=np.int64)
