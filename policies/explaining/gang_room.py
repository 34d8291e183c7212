"""Room for the pieces of tasks that start at once, by the placement rule of an answer.

Source: docs/policies/gangs.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import FloatArray
from policies.filling.gang_loop import launch_gang
from policies.filling.group_turns import flat_turns
from policies.filling.rules import BEST_BY_SCAN, BEST_BY_SLOPE
from policies.filling.servers import gangs_of, limits_left, placement_rule, servers_of, tasks_of
from policies.filling.state import Waiting, list_present
from policies.model.allocation import Allocation
from policies.model.quantities import WholeServers
from policies.model.server_classes import allowed_pieces
from policies.proofs.saturation import room_of_limits


class Room(NamedTuple):
    """Room for the pieces of tasks that start at once.

    Attributes:
        fit: number of pieces that the placement rule places before one does not fit; of a task that a
            label keeps together, on servers with the best of its values.
        needed: number of all pieces.
        scarce: kind of the piece that does not fit, or of the first piece if all fit.
    """

    fit: int
    needed: int
    scarce: int


def room_for_pieces(allocation: Allocation, workload: int, at_once: int) -> Room:
    """Return the room that an answer leaves for tasks of a workload that start at once.

    Args:
        allocation: whole tasks on servers.
    """
    whole = WholeServers.of(allocation.problem)
    left, room = allocation.left(whole), np.array(room_of_limits(allocation, whole))
    return _room(allocation, workload, at_once, whole, left, room)


def missing_pieces(allocation: Allocation, workload: int, at_once: int) -> int:
    """Return how many pieces of tasks that start at once have no room beside an answer.

    Parameters
    ----------
    allocation : Allocation
        Whole tasks on servers.
    workload : int
        The workload, whose tasks have several pieces or start together.
    at_once : int
        Number of its tasks that start at once.

    Returns
    -------
    int
        Pieces that the placement rule does not place, 0 if all fit.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Gang, Problem, missing_pieces, solve
    >>> problem = Problem.create(
    ...     resources=["gpu"], capacity=[[8]], server_count=[4], tenants=["A"], demand=[[40]],
    ...     gangs={0: Gang(np.array([5]), np.array([[8.0]]))})
    >>> missing_pieces(solve(problem, "drfh", mode="indivisible"), 0, 1)
    1
    """
    room = room_for_pieces(allocation, workload, at_once)
    return room.needed - room.fit


def room_on_empty_servers(allocation: Allocation, workload: int, at_once: int) -> Room:
    """Return the room for tasks of a workload that start at once while nothing else runs.

    Args:
        allocation: whole tasks on servers.
    """
    whole = WholeServers.of(allocation.problem)
    empty = whole.capacity[allocation.classes.first_row]
    return _room(allocation, workload, at_once, whole, empty, whole.limits)


def _room(
    allocation: Allocation,
    workload: int,
    at_once: int,
    whole: WholeServers,
    left: FloatArray,
    room: FloatArray,
) -> Room:
    """Return the room on servers that have something left.

    Args:
        left: (K, m) of one server of each class; room: (l, m) unused amounts of limits.
    """
    problem, classes = allocation.problem, allocation.classes
    kinds = np.array(problem.pieces.kinds(workload))
    present = problem.totals > 0
    share_of_unit = np.ascontiguousarray(whole.share_of_unit[present])
    rule = placement_rule(allocation.choice.option("placement"), len(share_of_unit))
    demand = np.ascontiguousarray(whole.demand[kinds][:, present])
    gangs = gangs_of(problem, kinds, 1, demand * share_of_unit, classes.first_row, classes.servers)
    gangs.at_least[:] = at_once
    most = int(gangs.per_task[0]) * at_once
    allowed = np.ascontiguousarray(allowed_pieces(problem, classes)[kinds])
    tasks = tasks_of(demand, share_of_unit, allowed)
    servers = servers_of(
        np.ascontiguousarray(left[:, present]), share_of_unit, classes.servers, rule
    )
    if rule in (BEST_BY_SLOPE, BEST_BY_SCAN):
        list_present(rule, servers)
    none, zero, m = np.zeros(0, dtype=np.int64), np.zeros(1), len(share_of_unit)
    waiting = Waiting(
        np.zeros(0), none, none, zero, np.array([np.inf]), zero, np.zeros(1), zero, zero, np.zeros(m),
        flat_turns(m), np.zeros((1, m)),
    )  # fmt: skip
    draws = np.array([int(allocation.choice.option("seed") or 0)], dtype=np.uint64)
    log_kind, log_server = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    limits = limits_left(problem, whole, room, kinds, classes.first_row)
    _, pieces, _ = launch_gang(
        rule, 0, 0, waiting, tasks, gangs, limits, servers, draws, log_kind, log_server
    )
    order = [int(kinds[each[0]]) for each in (gangs.large, gangs.small) if each[0] >= 0]
    ends = np.cumsum(problem.pieces.count[order])
    scarce = order[int(np.searchsorted(ends, pieces % ends[-1], side="right"))]
    return Room(int(pieces), most, scarce)
