"""Floors of a simulation, with the running tasks that count for them."""

from __future__ import annotations

from typing import NamedTuple

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.simulation.floor_division import FloorPools

# Positions in ``Floors.numbers``: workloads to look at, and parts that lack tasks.
CHANGED_JOBS, LACKING = range(2)


class OwnFloors(NamedTuple):
    """Own servers of tenants, and the tasks that each tenant would run there alone.

    Attributes:
        of_tenant: (t,) position of a tenant with own servers; -1 for the others.
        tenant: (o,); server_begin: (o + 1,) its servers are from ``server_begin[i]`` on in ``server``.
        server: the simulation's servers, ascending; capacity: (S', p) of each of these.
        demand: (q, p) of one task of each workload.
        cell_begin: (o + 1,) its tasks by workload and row are from ``cell_begin[i]`` on in ``cell``.
        row_begin: (o + 1,), row: its rows; place: position of each server's row among these.
        cell: tasks by ``static``; kept: those that exceed no limit. dirty: (o,).
        limit: (a,) whole amounts of limits, of which nothing is used; limit_left: (a,) scratch.
        by_kind: (g, K) kept tasks of each workload with floors, by kind of servers.
        left: (S', p) scratch.
    """

    of_tenant: IntArray
    tenant: IntArray
    server_begin: IntArray
    server: IntArray
    capacity: FloatArray
    demand: FloatArray
    cell_begin: IntArray
    row_begin: IntArray
    row: IntArray
    place: IntArray
    cell: FloatArray
    kept: FloatArray
    dirty: BoolArray
    limit: FloatArray
    limit_left: FloatArray
    by_kind: FloatArray
    left: FloatArray


class Floors(NamedTuple):
    """Floors of workloads, and the running tasks that count for them.

    A part is a floor of one workload on some servers. Servers are of one kind if the same guarantees
    match them.

    Attributes:
        pools: pools of guarantees; own: own servers.
        above: (1,) whether levels count what is held above guarantees.
        position: (q,) number of each workload that has parts; -1 for the others. job: (g,).
        part_begin: (g + 1,) parts of each workload, fewest servers first, from ``part_begin[j]`` on in
            ``part``.
        part_job, part_set, part_entry: (s,) workload, set of servers, and entry in ``pools``, -1 for own
            servers. Parts are in the order of ties.
        matches: (sets, R) rows of each set; of_kind: (sets, K); contains: (sets, sets) whether the first
            contains the second.
        kind: (R,) kind of each row; on_kind: (g, K) running tasks.
        tasks, held: (s,) tasks of each part, and running ones that count for it.
        counted: (q,) running tasks that levels count, if not all.
        noted: (g,) whether a workload is among ``changed``; changed: (g,).
        lacks: (s,) whether a part is among ``lacking``; lacking: (s,).
        chosen: (s,) scratch, parts with a task that may fit.
        stalled, stalled_on_own: (s,) whether a task found no server before the freed ones.
        numbers: (2,) lengths; line, tree, allowed: scratch.
    """

    pools: FloorPools
    own: OwnFloors
    above: BoolArray
    position: IntArray
    job: IntArray
    part_begin: IntArray
    part: IntArray
    part_job: IntArray
    part_set: IntArray
    part_entry: IntArray
    matches: BoolArray
    of_kind: BoolArray
    contains: BoolArray
    kind: IntArray
    on_kind: FloatArray
    tasks: FloatArray
    held: FloatArray
    counted: FloatArray
    noted: BoolArray
    changed: IntArray
    lacks: BoolArray
    lacking: IntArray
    chosen: IntArray
    stalled: BoolArray
    stalled_on_own: BoolArray
    numbers: IntArray
    line: FloatArray
    tree: FloatArray
    allowed: BoolArray


@compiled
def note_change(job, row, tasks, floors):
    """Note that a workload has more or fewer tasks, of which some run on a row.

    Args:
        row: NOWHERE for tasks that wait; tasks: more that run, below 0 for fewer.
    """
    floors.counted[job] += tasks
    g = floors.position[job]
    if g == NOWHERE:
        return
    if row != NOWHERE:
        floors.on_kind[g, floors.kind[row]] += tasks
    if not floors.noted[g]:
        floors.noted[g] = True
        floors.changed[floors.numbers[CHANGED_JOBS]] = g
        floors.numbers[CHANGED_JOBS] += 1
