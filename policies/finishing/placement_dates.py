"""Since when placed tasks have kept their servers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.model.allocation import Allocation, current_placements_of
from policies.model.current_placements import CurrentPlacements
from policies.model.server_classes import ServerClasses, each_row_alone
from policies.model.tasks_on_servers import TasksOnServers


@dataclass(frozen=True, eq=False, kw_only=True)
class DatedPlacements:
    """Placements with the instant since which they have lasted.

    Attributes
    ----------
    placements : CurrentPlacements
        The tasks of which it is known.
    since : (p,) float array
        Seconds, on any clock, at which the tasks of each range were placed.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import CurrentPlacements, DatedPlacements
    >>> one = np.ones(1, dtype=np.int64)
    >>> runs = CurrentPlacements(
    ...     workload=0 * one, row=0 * one, offset=0 * one, servers=one, tasks=np.array([3.0]))
    >>> DatedPlacements(placements=runs, since=np.array([60.0])).since.tolist()
    [60.0]
    """

    placements: CurrentPlacements
    since: FloatArray


def date_placements(
    allocation: Allocation,
    running: CurrentPlacements | None,
    dated: DatedPlacements | None,
    now: float,
) -> DatedPlacements:
    """Return since when the tasks of an answer have kept their servers.

    If a workload has more tasks on a server than before, the additional ones begin now. If it has fewer,
    those without a date are gone, then the youngest.

    Parameters
    ----------
    allocation : Allocation
        An answer with whole tasks on servers.
    running : CurrentPlacements or None
        Where tasks ran before it.
    dated : DatedPlacements or None
        The dates of those that are still too young to lose their servers. The others have no date.
    now : float
        Instant at which the answer comes into force, in seconds.

    Returns
    -------
    DatedPlacements
        The dates of the tasks that are placed now or have one in ``dated``.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import numpy as np
    >>> from policies import Problem, current_placements_of, date_placements, solve
    >>> problem = Problem.create(
    ...     resources=["cpu"], capacity=[[4]], tenants=["A"], demand=[[1]], tasks=[1])
    >>> before = current_placements_of(solve(problem, "drfh", mode="indivisible"))
    >>> more = solve(replace(problem, tasks=np.array([3.0])), "drfh", mode="indivisible")
    >>> dates = date_placements(more, before, None, 60.0)
    >>> dates.placements.tasks.tolist(), dates.since.tolist()
    ([2.0], [60.0])
    """
    problem = allocation.problem
    rows = each_row_alone(problem)
    after = TasksOnServers.of_placements(problem, rows, current_placements_of(allocation))
    if running is None:
        none = np.zeros(0, dtype=np.int64)
        before = TasksOnServers(none, np.zeros(0), after.kinds)
    else:
        before = TasksOnServers.of_placements(problem, rows, running)
    more = after.tasks - after.on(before)
    key, tasks = after.key[more > 0], more[more > 0]
    since = np.full(len(key), now)
    if dated is not None:
        kept = _youngest_gone(*_by_server(allocation, rows, dated), before, after)
        key, tasks, since = (
            np.concatenate(both) for both in zip((key, tasks, since), kept, strict=True)
        )
    return _in_ranges(rows, key, tasks, since, after.kinds)


def _by_server(
    allocation: Allocation, rows: ServerClasses, dated: DatedPlacements
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Key, tasks and date of dated tasks on each server that the problem offers."""
    problem = allocation.problem
    keys, tasks, since = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], [np.zeros(0)]
    placements = dated.placements
    # Instant by instant: tasks of different dates on one server must not be added up.
    for instant in np.unique(dated.since):
        mine = dated.since == instant
        some = CurrentPlacements(
            workload=placements.workload[mine],
            row=placements.row[mine],
            offset=placements.offset[mine],
            servers=placements.servers[mine],
            tasks=placements.tasks[mine],
        )
        found = TasksOnServers.of_placements(problem, rows, some)
        keys.append(found.key)
        tasks.append(found.tasks)
        since.append(np.full(len(found.key), instant))
    return np.concatenate(keys), np.concatenate(tasks), np.concatenate(since)


def _youngest_gone(
    key: IntArray,
    tasks: FloatArray,
    since: FloatArray,
    before: TasksOnServers,
    after: TasksOnServers,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return dated tasks without those for which their server has no task left.

    Tasks without a date go first, so that as many dated ones stay as there are tasks.
    """
    order = np.lexsort((-since, key))
    key, tasks, since = key[order], tasks[order], since[order]
    each = TasksOnServers(key, tasks, after.kinds)
    together = TasksOnServers.of(key // after.kinds, key % after.kinds, tasks, after.kinds)
    fewer = np.maximum(np.minimum(each.on(before), each.on(together)) - each.on(after), 0.0)
    # Tasks on the same server that are younger, which are gone first.
    younger = np.cumsum(tasks) - tasks
    younger -= younger[np.searchsorted(key, key)]
    stays = np.clip(tasks - np.maximum(fewer - younger, 0.0), 0.0, tasks)
    some = stays > 0
    return key[some], stays[some], since[some]


def _in_ranges(
    rows: ServerClasses, key: IntArray, tasks: FloatArray, since: FloatArray, kinds: int
) -> DatedPlacements:
    """Return tasks on servers as ranges of servers with the same tasks of the same date."""
    server, kind = key // kinds, key % kinds
    order = np.lexsort((server, tasks, since, kind))
    server, kind, tasks, since = server[order], kind[order], tasks[order], since[order]
    edge = np.cumsum(rows.servers) - rows.servers
    row = np.searchsorted(edge, server, side="right") - 1
    begins = np.ones(len(server), dtype=np.bool_)
    # A range ends wherever anything but the number of the server changes.
    begins[1:] = server[1:] != server[:-1] + 1
    for column in (row, kind, tasks, since):
        begins[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(begins)
    return DatedPlacements(
        placements=CurrentPlacements(
            workload=kind[first],
            row=rows.first_row[row[first]],
            offset=server[first] - edge[row[first]],
            servers=np.diff(np.append(first, len(server))),
            tasks=tasks[first],
        ),
        since=since[first],
    )
