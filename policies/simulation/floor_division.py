"""Division of guaranteed amounts among whole tasks that wait or run.

The pool of a guarantee is divided as a decision divides it (``policies.floors``): one server, filled one
task after the other, the floors of guarantees inside it first. A pool is divided again if an event can
change its floors, which is the case only if the tasks of a workload fall below its floor, or exceed a
floor that was all its tasks.

Source: docs/policies/guarantees.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import compiled
from policies.filling.group_turns import (
    CURRENT,
    FIRST_BLOCK,
    PARENT,
    GroupTurns,
    fill_in,
    next_in_groups,
    set_level,
)
from policies.filling.winner_tree import next_tenant, plant, set_share

# Columns of ``FloorPools.begin``.
(
    ENTRY, TENANT, ROOM, DEMAND, GAIN, NODE, BLOCK, CHILD, LEVEL, HELD, BOTTOM, PART,
) = range(12)  # fmt: skip


class FloorPools(NamedTuple):
    """Pools of guarantees, each after the pools of the guarantees inside it.

    An entry is a workload in a pool. Entries of a pool are in the order in which its tenants launch
    tasks. Tables of a pool are flat: rows of entries or nodes, one after the other.

    Attributes:
        begin: (P + 1, 12) where the entries, tenants, room and other parts of each pool begin.
        alone: (P,) True for a pool with one workload.
        parent: (P,) pool of the guarantee around it; -1 for a guarantee of the problem.
        counts: (P,) True if levels count what is guaranteed.
        job: (E,) workload; share: (E,) what one task adds to its tenant's share.
        most: (E,) tasks that the amount is for, in a pool with one workload.
        first, stop: (T,) entries of each tenant; weight, stage: (T,).
        room: amounts, whole; demand: of one task of each entry; gain: what one task adds to the vector
            by which groups are compared.
        node, block, child, bottom, group_weight: trees of pools with groups, as ``GroupTurns`` has them.
            ``group_weight`` has one row for each stage.
        part_child, part_entry: entry of a pool inside, and the entry of the same workload in this pool.
        job_begin, job_entry: entries of each workload, in all pools.
        floor: (E,) tasks of each entry; dirty: (P,) whether a pool must be divided again.
        pending: (q,) tasks that wait or run, as of the last division.
        level, held, left, met, launched, size, line, tree, current, passed: scratch.
    """

    begin: IntArray
    alone: BoolArray
    parent: IntArray
    counts: BoolArray
    job: IntArray
    share: FloatArray
    most: FloatArray
    first: IntArray
    stop: IntArray
    weight: FloatArray
    stage: IntArray
    room: FloatArray
    demand: FloatArray
    gain: FloatArray
    node: IntArray
    block: IntArray
    child: IntArray
    bottom: IntArray
    group_weight: FloatArray
    part_child: IntArray
    part_entry: IntArray
    job_begin: IntArray
    job_entry: IntArray
    floor: FloatArray
    dirty: BoolArray
    pending: FloatArray
    level: FloatArray
    held: FloatArray
    left: FloatArray
    met: FloatArray
    launched: FloatArray
    size: FloatArray
    line: FloatArray
    tree: FloatArray
    current: IntArray
    passed: FloatArray


@compiled
def set_pending(job, tasks, pools):
    """Write how many tasks of a workload wait or run, and mark the pools whose floors can change."""
    before = pools.pending[job]
    pools.pending[job] = tasks
    for at in range(pools.job_begin[job], pools.job_begin[job + 1]):
        floor = pools.floor[pools.job_entry[at]]
        if tasks < floor or (floor == before and tasks > before):
            pools.dirty[_pool_of_entry(pools, pools.job_entry[at])] = True


@compiled
def _pool_of_entry(pools, entry):
    low, high = 0, len(pools.dirty)
    while high - low > 1:
        middle = (low + high) // 2
        if pools.begin[middle, ENTRY] <= entry:
            low = middle
        else:
            high = middle
    return low


@compiled
def divide(pool, pools):
    """Divide a pool among its workloads. Returns whether any floor has changed."""
    begin, end = pools.begin[pool, ENTRY], pools.begin[pool + 1, ENTRY]
    if pools.alone[pool]:
        for e in range(begin, end):
            pools.launched[e - begin] = min(pools.most[e], pools.pending[pools.job[e]])
    # Where all tasks fit there are no turns to take.
    elif not _all_fit(pool, pools):
        n, columns = end - begin, pools.begin[pool + 1, ROOM] - pools.begin[pool, ROOM]
        demand = pools.demand[pools.begin[pool, DEMAND] : pools.begin[pool + 1, DEMAND]]
        demand = demand.reshape((n, columns))
        left = pools.left[:columns]
        left[:] = pools.room[pools.begin[pool, ROOM] : pools.begin[pool + 1, ROOM]]
        pools.met[:n] = 0.0
        if pools.begin[pool, PART] < pools.begin[pool + 1, PART]:
            _raise_parts(pool, demand, left, pools)
        pools.launched[:n] = 0.0
        for stage in range(2):
            _fill(pool, stage, demand, left, pools)
        for e in range(n):
            pools.launched[e] += pools.met[e]
    changed = False
    for e in range(begin, end):
        changed |= pools.floor[e] != pools.launched[e - begin]
        pools.floor[e] = pools.launched[e - begin]
    return changed


@compiled
def _all_fit(pool, pools):
    """Write all tasks of all workloads if they fit together. Returns whether they do."""
    columns = pools.begin[pool + 1, ROOM] - pools.begin[pool, ROOM]
    left = pools.left[:columns]
    left[:] = pools.room[pools.begin[pool, ROOM] : pools.begin[pool + 1, ROOM]]
    begin, at = pools.begin[pool, ENTRY], pools.begin[pool, DEMAND]
    for e in range(begin, pools.begin[pool + 1, ENTRY]):
        tasks = pools.pending[pools.job[e]]
        pools.launched[e - begin] = tasks
        for column in range(columns):
            # A product is exact, or beyond 2^53 and so more than any room.
            needed = tasks * pools.demand[at + column]
            if needed > left[column]:
                return False
            left[column] -= needed
        at += columns
    return True


@compiled
def _raise_parts(pool, demand, left, pools):
    """Launch tasks of the floors of pools inside, always for the least fraction."""
    begin, first = pools.begin[pool, ENTRY], pools.begin[pool, PART]
    parts = pools.begin[pool + 1, PART] - first
    pools.launched[: len(demand)] = 0.0
    for k in range(parts):
        e = pools.part_entry[first + k] - begin
        # All guarantees of one server have the same servers, so that each counts those before it.
        pools.size[k] = max(pools.floor[pools.part_child[first + k]] - pools.launched[e], 0.0)
        pools.launched[e] += pools.size[k]
        pools.line[k] = 0.0 if pools.size[k] > 0.0 else np.inf
    leaves = 1
    while leaves < parts:
        leaves *= 2
    tree = pools.tree[: 2 * leaves]
    plant(tree, pools.line[:parts])
    pools.line[:parts] = 0.0  # tasks of each part that run
    while tree[1] < np.inf:
        k = next_tenant(tree)
        e = pools.part_entry[first + k] - begin
        if pools.line[k] < pools.size[k] and _take(demand[e], left):
            pools.line[k] += 1.0
            pools.met[e] += 1.0
            share = pools.share[begin + e]
            # Multiplied and divided by the share, so that it is rounded as a decision rounds it.
            set_share(tree, k, pools.line[k] * share / (pools.size[k] * share))
        else:
            set_share(tree, k, np.inf)


@compiled
def _take(demand, left):
    """Take what one task needs. Returns whether it fits."""
    for column in range(len(left)):
        if demand[column] > left[column]:
            return False
    for column in range(len(left)):
        left[column] -= demand[column]
    return True


@compiled
def _fill(pool, stage, demand, left, pools):
    """Launch the tasks of one stage's tenants until none fits."""
    begin, n = pools.begin[pool, ENTRY], len(demand)
    tenant0 = pools.begin[pool, TENANT]
    tenants = pools.begin[pool + 1, TENANT] - tenant0
    waiting = 0
    for i in range(tenants):
        first, stop = pools.first[tenant0 + i], pools.stop[tenant0 + i]
        passed = 0.0
        if pools.counts[pool]:
            for e in range(first, stop):
                passed += pools.met[e - begin] * pools.share[e]
        pools.current[i], pools.passed[i] = first, passed
        pools.line[i] = np.inf
        if first < stop and pools.stage[tenant0 + i] == stage:
            pools.line[i] = pools.passed[i] / pools.weight[tenant0 + i]
            waiting += 1
    if waiting == 0:
        return
    grouped = pools.begin[pool, NODE] < pools.begin[pool + 1, NODE]
    turns, gain = _turns(pool, stage, n, pools)
    nothing = np.zeros(gain.shape[1])
    leaves = 1
    while leaves < tenants:
        leaves *= 2
    tree = pools.tree[: 2 * leaves]
    if grouped:
        _plant_groups(pool, turns, gain, tenants, pools)
    else:
        plant(tree, pools.line[:tenants])
    while waiting:
        i = next_in_groups(turns) if grouped else next_tenant(tree)
        e = pools.current[i]
        tasks = pools.pending[pools.job[e]] - pools.met[e - begin]
        fits = pools.launched[e - begin] < tasks and _take(demand[e - begin], left)
        reached = np.inf
        if fits:
            pools.launched[e - begin] += 1.0
            reached = pools.passed[i] + pools.launched[e - begin] * pools.share[e]
            reached /= pools.weight[tenant0 + i]
        else:
            pools.passed[i] += pools.launched[e - begin] * pools.share[e]
            pools.current[i] += 1
            if pools.current[i] < pools.stop[tenant0 + i]:
                continue
            waiting -= 1
        if grouped:
            set_level(turns, i, reached, gain[e - begin] if fits else nothing)
        else:
            set_share(tree, i, reached)


@compiled
def _turns(pool, stage, n, pools):
    """Return the turns of a pool's tree, and what one task of each entry adds to its vector."""
    here, after = pools.begin[pool], pools.begin[pool + 1]
    gain = pools.gain[here[GAIN] : after[GAIN]]
    gain = gain.reshape((n, len(gain) // n))
    nodes = after[NODE] - here[NODE]
    turns = GroupTurns(
        pools.node[here[NODE] : after[NODE]],
        pools.block[here[BLOCK] : after[BLOCK]],
        pools.child[here[CHILD] : after[CHILD]],
        pools.level[here[LEVEL] : after[LEVEL]],
        pools.held[here[HELD] : after[HELD]].reshape((nodes, gain.shape[1])),
        pools.group_weight[stage, here[NODE] : after[NODE]],
    )
    return turns, gain


@compiled
def _plant_groups(pool, turns, gain, tenants, pools):
    """Write the levels of tenants in line, and what is used below each node."""
    begin, tenant0 = pools.begin[pool, ENTRY], pools.begin[pool, TENANT]
    bottom_up = pools.bottom[pools.begin[pool, BOTTOM] : pools.begin[pool + 1, BOTTOM]]
    turns.level[:] = np.inf
    turns.held[:] = 0.0
    for v in range(len(turns.node)):
        turns.node[v, CURRENT] = turns.node[v, FIRST_BLOCK]
    for i in range(tenants):
        for e in range(pools.first[tenant0 + i], pools.stop[tenant0 + i]):
            tasks = pools.launched[e - begin]
            if pools.counts[pool]:
                tasks += pools.met[e - begin]
            for r in range(gain.shape[1]):
                turns.held[i, r] += tasks * gain[e - begin, r]
        for r in range(gain.shape[1]):
            turns.held[turns.node[i, PARENT], r] += turns.held[i, r]
    for v in bottom_up:
        if turns.node[v, PARENT] >= 0:
            for r in range(gain.shape[1]):
                turns.held[turns.node[v, PARENT], r] += turns.held[v, r]
    fill_in(turns, pools.line[:tenants], bottom_up)
