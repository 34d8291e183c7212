"""Attribution of a decision's tasks to the owners of the servers.

A decision about server classes leaves open which of the identical servers a task runs on. Spread
evenly, every tenant would run on the servers of every other. This attribution gives each owner's
servers the same load as an even spread, so that it fits them, but with few tenants on each, and
first of all their owner.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.model.allocation import Allocation

NEGLIGIBLE = 1e-13


def tasks_by_owner(allocation: Allocation) -> tuple[IntArray, IntArray, FloatArray]:
    """Count tasks per workload, or pieces per kind, and contributor of the servers they run on.

    Pairs are in ascending order and occur once. A workload's tasks add up to those placed. What they
    use is their number times ``Problem.pieces.demand`` in an answer with whole tasks. With ``m``
    resources, a class of servers of ``o`` owners on which ``n`` workloads run gives at most
    ``n + m (o - 1)`` pairs.

    Parameters
    ----------
    allocation : Allocation
        An answer with placements.

    Returns
    -------
    piece : (q,) int array
        The workload of each pair, or the kind of pieces of a gang (``Problem.pieces``).
    owner : (q,) int array
        Index of the tenant that contributed the servers; -1 for the pool's own.
    tasks : (q,) float array
        Tasks, or pieces, of the pair.

    Examples
    --------
    >>> from policies import Problem, solve, tasks_by_owner
    >>> problem = Problem.create(resources=["cpu"], capacity=[[4]], tenants=["A"], demand=[[1]])
    >>> piece, owner, tasks = tasks_by_owner(solve(problem, "drfh", mode="indivisible"))
    >>> owner.tolist(), tasks.tolist()
    ([-1], [4.0])
    """
    piece, owner, _, tasks = _attributed(allocation)
    return _added_up(piece, owner, tasks, allocation.problem.t)


def tasks_by_owner_and_label(
    allocation: Allocation, label: str
) -> tuple[IntArray, IntArray, list[str | None], FloatArray]:
    """Count tasks, or pieces, as :func:`tasks_by_owner` does, per value of a label of the servers.

    Identical servers that the answer does not distinguish have the same load: what runs on those of
    an owner is divided among the values in proportion to their numbers of servers.

    Parameters
    ----------
    allocation : Allocation
        An answer with placements.
    label : str
        Name of a label.

    Returns
    -------
    piece, owner : (q,) int array
        As in :func:`tasks_by_owner`.
    value : (q) list
        The value of the label, None for servers without it.
    tasks : (q,) float array
        Tasks, or pieces, of the workload, owner and value.

    Examples
    --------
    >>> from policies import Problem, solve, tasks_by_owner_and_label
    >>> problem = Problem.create(
    ...     resources=["cpu"], capacity=[[4], [2]], tenants=["A"], demand=[[1]],
    ...     server_labels=[{"cluster": "east"}, {"cluster": "west"}],
    ... )
    >>> answer = solve(problem, "drfh", mode="indivisible")
    >>> _, _, value, tasks = tasks_by_owner_and_label(answer, "cluster")
    >>> value, tasks.tolist()
    (['east', 'west'], [4.0, 2.0])
    """
    problem, classes = allocation.problem, allocation.classes
    piece, owner, server_class, tasks = _attributed(allocation)
    labels = [each.get(label) for each in problem.server_labels]
    values: list[str | None] = [None, *sorted({each for each in labels if each is not None})]
    number = {value: position for position, value in enumerate(values)}
    value_of_row = np.array([number[each] for each in labels], dtype=np.int64)
    value = value_of_row[classes.first_row[server_class]]
    if classes.offset is None:
        at, value, part = _divided(allocation, value_of_row, server_class, owner)
        piece, owner, tasks = piece[at], owner[at], tasks[at] * part
    width = len(values)
    keys, at, inverse = np.unique(
        (piece * (problem.t + 1) + owner + 1) * width + value,
        return_index=True,
        return_inverse=True,
    )
    sums = grouped_sum(tasks, inverse, len(keys))
    return piece[at], owner[at], [values[each] for each in value[at].tolist()], sums


def _divided(
    allocation: Allocation, value_of_row: IntArray, server_class: IntArray, owner: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Divide pairs by the values of the servers that each owner has in the class.

    Returns:
        The number of the pair, the value and the part of the pair, for each value of each pair.
    """
    problem, classes = allocation.problem, allocation.classes
    servers: dict[tuple[int, int], dict[int, float]] = {}
    for each in np.unique(server_class).tolist():
        for row in classes.rows_of(each).tolist():
            counts = servers.setdefault((each, int(problem.contributed_by[row])), {})
            value = int(value_of_row[row])
            counts[value] = counts.get(value, 0.0) + float(problem.server_count[row])
    parts = [
        (pair, value, count / sum(counts.values()))
        for pair, key in enumerate(zip(server_class.tolist(), owner.tolist(), strict=True))
        for counts in (servers[key],)
        for value, count in counts.items()
    ]
    columns = list(zip(*parts, strict=True)) or [(), (), ()]
    return (
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        np.array(columns[2], dtype=np.float64),
    )


def _attributed(allocation: Allocation) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Return pieces, owners, classes and tasks of the parts of placements, in any order."""
    problem, classes = allocation.problem, allocation.classes
    placed = allocation.placement_piece, allocation.placement_tasks
    demand = allocation.placement_demand
    if classes.offset is not None:
        row = classes.first_row[allocation.placement_class]
        owner = problem.contributed_by[row]
        return placed[0], owner, allocation.placement_class, placed[1]
    of_piece = problem.pieces.workload
    parts: list[tuple[int, int, float]] = []
    class_of_part: list[int] = []
    by_class = np.argsort(allocation.placement_class, kind="stable")
    bounds = np.searchsorted(allocation.placement_class[by_class], np.arange(classes.count + 1))
    for server_class in range(classes.count):
        of = by_class[bounds[server_class] : bounds[server_class + 1]]
        piece, tasks = placed[0][of], placed[1][of]
        rows = classes.rows_of(server_class)
        owners, owner = np.unique(problem.contributed_by[rows], return_inverse=True)
        servers = grouped_sum(problem.server_count[rows].astype(float), owner, len(owners))
        load = tasks[:, None] * demand[of]
        load = load / np.maximum(load.sum(axis=0), np.finfo(np.float64).tiny)
        home = _positions(owners, problem.workload_tenant[of_piece[piece]])
        _share_out(parts, (piece, tasks, load, home), owners, servers, 0)
        class_of_part += [server_class] * (len(parts) - len(class_of_part))
    columns = list(zip(*parts, strict=True)) or [(), (), ()]
    return (
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        np.array(class_of_part, dtype=np.int64),
        np.array(columns[2], dtype=np.float64),
    )


def _positions(owners: IntArray, tenant: IntArray) -> IntArray:
    """Return the position of each tenant among the owners, -1 for tenants without servers."""
    at = np.minimum(np.searchsorted(owners, tenant), len(owners) - 1)
    return np.where(owners[at] == tenant, at, -1)


def _share_out(
    parts: list[tuple[int, int, float]],
    placed: tuple[IntArray, FloatArray, FloatArray, IntArray],
    owners: IntArray,
    servers: FloatArray,
    first: int,
) -> None:
    """Share a class's tasks out among its owners by halving their list until one is left.

    Args:
        placed: (p,) workloads, (p,) tasks, (p, m) load, (p,) position of the tenant's own servers.
        servers: (o,) how many of the class each owner has; ``first`` is the position of the first.
    """
    workload, tasks, load, home = placed
    if len(owners) == 1:
        parts.extend(
            (int(j), int(owners[0]), float(x)) for j, x in zip(workload, tasks, strict=True)
        )
        return
    # Loads Numba. The other parts serve web pages, too, and most classes have one owner.
    from policies.explaining.halving import halve

    half = len(owners) // 2
    lean = np.where(home < first, 0, np.where(home < first + half, 1, -1))
    lean[home >= first + len(owners)] = 0
    left = halve(load, float(servers[:half].sum() / servers.sum()), lean, _by_turns(lean))
    for part, begin, end in ((left, 0, half), (1 - left, half, len(owners))):
        some = np.flatnonzero(part > NEGLIGIBLE)
        share = part[some]
        own = (workload[some], tasks[some] * share, load[some] * share[:, None], home[some])
        _share_out(parts, own, owners[begin:end], servers[begin:end], first + begin)


def _by_turns(lean: IntArray) -> IntArray:
    """Return the order in which tasks are decided.

    It takes turns between the tenants of both halves, and then all others.
    """
    turn = np.zeros(len(lean), dtype=np.int64)
    for side in (1, -1):
        of = np.flatnonzero(lean == side)
        turn[of] = np.arange(len(of))
    turn[lean == 0] = len(lean)
    return np.lexsort((-lean, turn))


def _added_up(
    workload: IntArray, owner: IntArray, tasks: FloatArray, tenants: int
) -> tuple[IntArray, IntArray, FloatArray]:
    width = tenants + 1
    pairs, inverse = np.unique(workload * width + owner + 1, return_inverse=True)
    return pairs // width, pairs % width - 1, grouped_sum(tasks, inverse, len(pairs))
