"""Tasks of several pieces that start in a simulation, with all of their pieces or not at all.

Source: docs/policies/gangs.md, §Simulations.
"""

from __future__ import annotations

from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.filling.gang_loop import launch_gang
from policies.simulation.limiting import close_limits_of_kind
from policies.simulation.placing import fits


@compiled
def start_gang(
    rule, job, is_blocked, freed, freed_count, tasks, gangs, limits, servers, draws, placed
):
    """Place the next task of a workload, or as many as must start at once.

    Args:
        is_blocked: whether the task did not fit before ``freed`` servers got room.

    Returns:
        Tasks placed, 0 if one does not fit, whose pieces are in ``placed.log_kind`` and ``log_server``;
        and the number of servers looked at.
    """
    if not _may_fit(job, is_blocked, freed, freed_count, tasks, gangs, servers, placed):
        return 0, 1
    large, small = gangs.large[job], gangs.small[job]
    before_large, before_small = tasks.pointer[large], tasks.pointer[small]
    started, _, looked = launch_gang(
        rule, job, 0, placed.progress, tasks, gangs, limits, servers, draws, placed.log_kind,
        placed.log_server,
    )  # fmt: skip
    counted = limits.first[large] < limits.first[large + 1]
    if small != NOWHERE:
        counted |= limits.first[small] < limits.first[small + 1]
    if started == 0 or counted:
        # Servers have room again that pieces were removed from, or on which a limit did not allow one.
        tasks.pointer[large] = before_large
        if small != NOWHERE:
            tasks.pointer[small] = before_small
    if started == 0 and counted:
        close_limits_of_kind(large, limits)
        if small != NOWHERE:
            close_limits_of_kind(small, limits)
    return started, looked


@compiled
def _may_fit(job, is_blocked, freed, freed_count, tasks, gangs, servers, placed):
    """Return whether the sums of pieces have room, and one piece on a freed server if it is blocked."""
    large, small = gangs.large[job], gangs.small[job]
    at_once = gangs.at_least[job] if placed.progress.done[job] == 0.0 else 1
    for r in range(len(placed.free)):
        need = tasks.demand[large, r] * gangs.number[large]
        if small != NOWHERE:
            need += tasks.demand[small, r] * gangs.number[small]
        if need * at_once > placed.free[r]:
            return False
    if not is_blocked:
        return True
    for f in range(freed_count):
        server = freed[f]
        for kind in (large, small):
            if (
                kind != NOWHERE
                and tasks.allowed[kind, servers.row_of[server]]
                and fits(tasks.demand[kind], servers.left[server])
            ):
                return True
    return False
