"""Reasons of workloads whose tasks have several pieces.

Source: docs/policies/gangs.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.arrays import BoolArray, FloatArray
from policies.model.allocation import Allocation
from policies.model.gang_places import each_kind_fits
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.reasons import GANG, limited_by_limit, limited_by_resource
from policies.proofs.stop_reasons import STILL_FITS


def with_gangs(
    allocation: Allocation,
    left: FloatArray,
    allowed: BoolArray,
    whole: WholeServers,
    room: Sequence[FloatArray],
    stops: Sequence[str],
    beyond: BoolArray,
) -> tuple[str, ...]:
    """Return the reasons (n) of workloads, from those of their kinds of pieces.

    Args:
        left: (K, m) of one server of each class; allowed: (q, K) where pieces may run.
        room: (l) unused amounts (m,) of limits.
        stops: (q) what stops one more piece of each kind.
        beyond: (n,) workloads that something else than room may stop.
    """
    problem, pieces = allocation.problem, allocation.problem.pieces
    reasons = list(stops[: problem.n])
    limits = _limits_of_gangs(problem)
    full = {limited_by_resource(name) for name in problem.resources}
    rows = allocation.classes.first_row
    empty = whole.capacity[rows]
    for j, gang in problem.gangs.items():
        kinds = pieces.kinds(j)
        reasons[j] = next((stops[kind] for kind in kinds if stops[kind] != STILL_FITS), STILL_FITS)
        if reasons[j] != STILL_FITS and reasons[j] not in full:
            continue
        need = pieces.count[list(kinds)] @ whole.demand[list(kinds)]
        short = [number for number in limits[j] if (need > room[number]).any()]
        # Limits on all its servers first, as for single pieces.
        able = allowed[list(kinds)] & (empty >= whole.demand[list(kinds), None]).all(axis=2)
        everywhere = (
            number for number in short if not able[:, ~problem.limited[number].rows[rows]].any()
        )
        number = next(everywhere, None)
        if number is not None:
            reasons[j] = limited_by_limit(problem, number)
        elif reasons[j] in full:
            continue
        elif not each_kind_fits(problem, j, whole, allocation.classes, left, allowed):
            reasons[j] = GANG
        elif short:
            reasons[j] = limited_by_limit(problem, short[0])
        elif not beyond[j] and (len(kinds) > 1 or (gang.at_least > 1 and allocation.tasks[j] == 0)):
            # Each kind fits by itself. Handing the tasks out again shows that not all do together.
            reasons[j] = GANG
    return tuple(reasons)


def _limits_of_gangs(problem: Problem) -> dict[int, list[int]]:
    """Return the numbers of the limits that count each workload with a gang."""
    limits: dict[int, list[int]] = {j: [] for j in problem.gangs}
    for number, item in enumerate(problem.limited):
        for j in limits.keys() & set(item.workloads.tolist()):
            limits[j].append(number)
    return limits
