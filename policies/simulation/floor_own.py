"""Floors of own servers in simulations."""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.simulation.floor_state import note_change


@compiled
def update_own(tenants, limits, floors):
    """Compute the floors of own servers again whose tenants' tasks have changed."""
    own, changed = floors.own, False
    for i in range(len(own.tenant)):
        if own.dirty[i]:
            _run_alone(i, tenants, limits, floors)
            changed = True
    if not changed:
        return
    own.limit_left[:] = own.limit
    for i in range(len(own.tenant)):
        # What one tenant takes of a common limit changes what the next one may keep.
        if own.dirty[i] or len(own.limit):
            _keep_within_limits(i, tenants, limits, floors)
        own.dirty[i] = False


@compiled
def _run_alone(i, tenants, limits, floors):
    """Write the tasks of a tenant alone on its own servers, as ``static`` has them."""
    own, rows = floors.own, floors.own.row_begin[i + 1] - floors.own.row_begin[i]
    begin, end = own.server_begin[i], own.server_begin[i + 1]
    for at in range(begin, end):
        for r in range(own.left.shape[1]):
            own.left[at, r] = own.capacity[at, r]
    cell = own.cell_begin[i]
    for job in range(tenants.first[own.tenant[i]], tenants.stop[own.tenant[i]]):
        waiting = floors.pools.pending[job]
        own.cell[cell : cell + rows] = 0.0
        for at in range(begin, end):
            row = own.row[own.row_begin[i] + own.place[at]]
            if waiting == 0.0 or not limits.allowed[job, row]:
                continue
            demand = own.demand[job]
            tasks = waiting
            for r in range(len(demand)):
                if demand[r] > 0.0:
                    tasks = min(tasks, np.floor(own.left[at, r] / demand[r]))
            for r in range(len(demand)):
                own.left[at, r] -= tasks * demand[r]
            own.cell[cell + own.place[at]] += tasks
            waiting -= tasks
        cell += rows


@compiled
def _keep_within_limits(i, tenants, limits, floors):
    """Write the tasks of a tenant on own servers that exceed no limit, and note its workloads."""
    own, rows = floors.own, floors.own.row_begin[i + 1] - floors.own.row_begin[i]
    cell = own.cell_begin[i]
    for job in range(tenants.first[own.tenant[i]], tenants.stop[own.tenant[i]]):
        g, different = floors.position[job], False
        own.by_kind[g] = 0.0
        for place in range(rows):
            row, tasks = own.row[own.row_begin[i] + place], own.cell[cell + place]
            for at in range(limits.first[job], limits.first[job + 1]):
                amount = limits.row[at]
                if limits.where[amount, row]:
                    tasks = min(tasks, np.floor(own.limit_left[amount] / limits.need[at]))
            for at in range(limits.first[job], limits.first[job + 1]):
                if limits.where[limits.row[at], row]:
                    own.limit_left[limits.row[at]] -= tasks * limits.need[at]
            different |= own.kept[cell + place] != tasks
            own.kept[cell + place] = tasks
            own.by_kind[g, floors.kind[row]] += tasks
        if different:
            note_change(job, NOWHERE, 0.0, floors)
        cell += rows
