"""Checks that guaranteed tasks run on the servers of their guarantees.

Source: docs/policies/guarantees.md, docs/policies/gangs.md.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.allocation import Allocation
from policies.model.tolerance import AGREEMENT
from policies.verification.gangs import most_tasks
from policies.verification.limits import rows_matching
from policies.verification.pieces import Pieces

# Workload, rows (k,) of servers and tasks of a part.
PartMet = tuple[int, BoolArray, float]


def run_where_guaranteed(allocation: Allocation) -> bool:
    """True if guaranteed tasks run on the servers for which they are guaranteed.

    Of gangs with guarantees on several sets of servers this is not known.
    """
    floors, n = allocation.floors, allocation.problem.n
    if floors is None:
        return True
    step = floors.raised.problem
    rows = [rows_matching(step, step.selectors[j]) for j in range(n, step.n)]
    parts = zip(step.part_of[n:].tolist(), rows, floors.raised.tasks[n:].tolist(), strict=True)
    own = step.kept[step.workload_tenant[n:]].tolist()
    some = [part for part, placed in zip(parts, own, strict=True) if not placed]
    gangs = [part for part in some if part[0] in allocation.problem.gangs]
    single = [part for part in some if part[0] not in allocation.problem.gangs]
    return _gangs_where_guaranteed(allocation, gangs) and bool(
        (missed_on_servers(allocation, single) <= AGREEMENT).all()
    )


def _sets_of_servers(parts: list[PartMet]) -> dict[int, dict[bytes, tuple[BoolArray, float]]]:
    """Return the tasks of each workload by the servers that they have to run on, if not on any."""
    of_workload: dict[int, dict[bytes, tuple[BoolArray, float]]] = {}
    for j, rows, met in parts:
        if not rows.all():
            sets = of_workload.setdefault(j, {})
            _, sofar = sets.get(rows.tobytes(), (rows, 0.0))
            sets[rows.tobytes()] = rows, sofar + met
    return of_workload


def _gangs_where_guaranteed(allocation: Allocation, parts: list[PartMet]) -> bool:
    """True if pieces on the servers of each gang's guarantee make the guaranteed tasks."""
    problem, classes = allocation.problem, allocation.classes
    pieces = Pieces.stated(problem)
    for j, sets in _sets_of_servers(parts).items():
        if len(sets) > 1:
            return False
        ((rows, met),) = sets.values()
        gang, kinds = problem.gangs[j], pieces.of(j)
        table = np.zeros((len(kinds), classes.count))
        for number, kind in enumerate(kinds):
            mine = allocation.placement_piece == kind
            of = allocation.placement_class[mine]
            np.add.at(table[number], of, allocation.placement_tasks[mine] / classes.servers[of])
        value = np.zeros(problem.k, dtype=np.int64)
        if gang.together:
            value = pieces.values[gang.together]
        value = np.where(rows, value, -1)[classes.first_row]
        made = sum(
            most_tasks(
                table[:, value == one],
                classes.servers[value == one].astype(np.float64),
                gang.count.tolist(),
                gang.per_server,
            )
            for one in np.unique(value[value >= 0]).tolist()
        )
        if made < met:
            return False
    return True


def missed_on_servers(allocation: Allocation, parts: list[PartMet]) -> FloatArray:
    """Return the part (n,) of what is guaranteed on some servers that does not run there.

    By Hall's theorem, parts that are to run on sets of servers all do if and only if each union of
    these sets runs at least the parts that have to be in it. Tasks have one piece.
    """
    n = allocation.problem.n
    missed = np.zeros(n)
    of_workload = _sets_of_servers(parts)
    if not of_workload:
        return missed
    kind, row, tasks = allocation.placements_by_row()
    order = np.argsort(kind, kind="stable")
    edges = np.searchsorted(kind[order], np.arange(n + 1))
    for j, sets in of_workload.items():
        mine = order[edges[j] : edges[j + 1]]
        for size in range(1, len(sets) + 1):
            for some in combinations(sets.values(), size):
                union = np.logical_or.reduce([rows for rows, _ in some])
                runs = float(tasks[mine][union[row[mine]]].sum())
                inside = sum(met for rows, met in sets.values() if (rows <= union).all())
                if inside > 0:
                    missed[j] = max(missed[j], 1 - runs / inside)
    return missed
