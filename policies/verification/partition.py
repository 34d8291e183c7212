"""Static partitioning, computed again by the verifier.

A tenant's own servers are its alone. Of a row of ``N`` servers of the pool it has
``floor(N w / sum w)``. Each of the servers left is cut in proportion to the rest of these parts,
and a task must fit in the tenant's cut of one server. Weights and cuts are fractions here.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.verification.places import Places
from policies.verification.reasons import NO_ELIGIBLE_SERVER, TASK_LIMIT, by_resource
from policies.verification.stated import Stated

# Servers of one row that are alike: the row, how many, and what each has left.
_Part = tuple[int, int, list[int]]
_TOLERANCE = Fraction(DISCRETE_TOLERANCE)


def partition_tasks(stated: Stated, places: Places) -> tuple[dict[tuple[int, int], int], list[str]]:
    """Tasks of each (workload, place) that has any, and (n) what stopped each workload."""
    problem, reasons = stated.problem, stated.unserved(places).tolist()
    demand = [[int(d) for d in row] for row in stated.on_servers.demand.tolist()]
    tasks: dict[tuple[int, int], int] = {}
    dealt = _dealt(stated)
    for tenant in range(problem.t):
        mine = np.flatnonzero(problem.workload_tenant == tenant)
        order = mine[np.lexsort((mine, -problem.priority[mine]))].tolist()
        parts = _parts(stated, dealt, tenant) if any(not reasons[j] for j in order) else []
        for j in order:
            if reasons[j]:
                continue
            requested = float(problem.tasks[j])
            following: list[_Part] = []
            reason = NO_ELIGIBLE_SERVER
            for part in parts:
                place = int(places.place_of_row[part[0]])
                if place < 0 or not places.allowed[j, place]:
                    following.append(part)
                    continue
                reason = by_resource(problem.resources[int(stated.task_shares[j].argmax())])
                run, rest = _run(part, demand[j], requested)
                requested -= run
                following += rest
                if run:
                    tasks[j, place] = tasks.get((j, place), 0) + run
            parts = following
            reasons[j] = TASK_LIMIT if requested == 0 else reason
    return tasks, reasons


def _dealt(stated: Stated) -> dict[int, tuple[int, list[int], list[Fraction]]]:
    """Return the division of each of the pool's own rows.

    It consists of the number of servers that are cut, and each tenant's whole servers and part of a
    cut.
    """
    problem = stated.problem
    weight = [Fraction(w) for w in np.where(stated.late, 0.0, stated.weight).tolist()]
    # If all tenants are late none would have a server, so that being late has no effect.
    if not any(weight):
        weight = [Fraction(w) for w in stated.weight.tolist()]
    total = sum(weight)
    by_count: dict[int, tuple[int, list[int], list[Fraction]]] = {}
    dealt = {}
    for row in np.flatnonzero(~problem.contributed_only & (problem.contributed_by == -1)).tolist():
        count = int(problem.server_count[row])
        if count not in by_count:
            shares = [count * w / total for w in weight]
            whole = [_floor(share) for share in shares]
            # A share next below a whole number counts as that number, which leaves a cut below 0.
            cut = [max(share - n, Fraction(0)) for share, n in zip(shares, whole, strict=True)]
            together = sum(cut)
            pieces = [part / together if part else part for part in cut]
            by_count[count] = count - sum(whole), whole, pieces
        dealt[row] = by_count[count]
    return dealt


def _parts(
    stated: Stated, dealt: dict[int, tuple[int, list[int], list[Fraction]]], tenant: int
) -> list[_Part]:
    """Return the parts that a tenant has to itself, in the order of rows, whole servers first."""
    problem = stated.problem
    capacity = stated.on_servers.capacity
    parts: list[_Part] = []
    for row in np.flatnonzero(~problem.contributed_only).tolist():
        owner = int(problem.contributed_by[row])
        if owner not in (tenant, -1):
            continue
        size = [int(c) for c in capacity[row].tolist()]
        if owner == tenant:
            parts.append((row, int(problem.server_count[row]), size))
            continue
        rest, whole, pieces = dealt[row]
        if whole[tenant]:
            parts.append((row, whole[tenant], size))
        if rest > 0 and pieces[tenant]:
            parts.append((row, rest, [_floor(c * pieces[tenant]) for c in size]))
    return parts


def _run(part: _Part, demand: list[int], requested: float) -> tuple[int, list[_Part]]:
    """Return the tasks that run in a part, server by server, and the rest of the part."""
    row, servers, room = part
    each = min(c // d for c, d in zip(room, demand, strict=True) if d)
    if not each:
        return 0, [part]
    full = servers if requested >= servers * each else int(requested) // each
    rest = 0 if full == servers else int(requested) - full * each
    left: list[_Part] = []
    for count, tasks in ((full, each), (min(rest, 1), rest), (servers - full - min(rest, 1), 0)):
        if count:
            after = [c - tasks * d for c, d in zip(room, demand, strict=True)]
            left.append((row, count, after))
    return full * each + rest, left


def _floor(amount: Fraction) -> int:
    """Return the floor, or the whole number that an amount is next below."""
    # The optimiser divides floats, which may be just below a whole number.
    return math.floor(amount * (1 + _TOLERANCE))
