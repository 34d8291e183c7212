"""Merging identical servers into classes, and splitting a class's answer back evenly.

Servers with the same capacity on which the same workloads may run are interchangeable:
merging them changes no tenant's share (policies §3), and any answer for the merged class
is feasible when every member gets the same fraction of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.errors import ProblemTooLargeError
from policies.model.policy import Choice, Servers
from policies.model.problem import Problem

# (workload, class) pairs, each with a byte for eligibility and a variable to solve for.
LARGEST_TABLE = 40_000_000
_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class ServerClasses:
    """The distinct kinds of servers in a problem, in order of first appearance.

    Attributes:
        class_of_row: (k,) class of each server row; -1 where the row offers nothing
            (draining, or all capacities 0).
        first_row: (K,) a row of each class.
        servers: (K,) how many servers the class has.
        capacity_share: (K, m) of the whole class, as a share ``ĉ`` of the pool.
        allowed_kinds: (n, C) on which kinds of classes each workload may run.
        kind: (K,) the column of each class in ``allowed_kinds``; None where each has its own.
        offset: (K,) where each class is a range of servers inside one row: the position of
            its first server in the row, so that the range is ``[offset, offset + servers)``
            of row ``first_row``; None where classes consist of whole rows.
    """

    class_of_row: IntArray
    first_row: IntArray
    servers: IntArray
    capacity_share: FloatArray
    allowed_kinds: BoolArray
    offset: IntArray | None = None
    kind: IntArray | None = None

    @property
    def count(self) -> int:
        """Number of classes ``K``."""
        return len(self.first_row)

    @cached_property
    def allowed(self) -> BoolArray:
        """Classes (n, K) on which each workload may run.

        ``allowed_on`` some classes is smaller, since many ranges of servers are of few kinds.
        """
        return self.allowed_on(_ALL)

    def allowed_on(self, classes: IntArray | slice) -> BoolArray:
        """Return on which of some classes each workload may run (n, c)."""
        columns = classes if self.kind is None else self.kind[classes]
        return np.ascontiguousarray(self.allowed_kinds[:, columns])

    def rows_of(self, server_class: int) -> IntArray:
        """Rows of one class, in their order."""
        if self.offset is not None:
            return self.first_row[server_class : server_class + 1]
        return np.flatnonzero(self.class_of_row == server_class)


def server_classes(problem: Problem) -> ServerClasses:
    """Group the server rows of a problem into classes of identical servers.

    Parameters
    ----------
    problem : Problem
        The problem.

    Returns
    -------
    ServerClasses
        The classes, in order of first appearance.

    Raises
    ------
    ProblemTooLargeError
        There are more than 40 million (workload, class) pairs.

    Examples
    --------
    >>> from policies import Problem, server_classes
    >>> problem = Problem.create(resources=["cpu"], capacity=[[4], [4], [8]], tenants=["A"],
    ...     demand=[[1]])
    >>> server_classes(problem).class_of_row.tolist()
    [0, 0, 1]
    """
    offering = np.flatnonzero((problem.row_capacity > 0).any(axis=1))
    if len(offering) == 1:
        # Nothing distinguishes one row from others: there is no need to look at selectors.
        return _only_class(problem, offering)
    key = np.zeros(len(offering), dtype=np.int64)
    columns = [problem.capacity[offering, r] for r in range(problem.m)]
    matching = [*problem.selector_matches] if problem.has_selectors else []
    matching += _rows_of_amounts(problem)
    if matching:
        # As bytes, of which there are few: one column each.
        columns += list(np.packbits(np.array(matching)[:, offering], axis=0))
    # Renumbered with each column, or the products of codes would overflow.
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        _, key = np.unique(key * len(values) + code, return_inverse=True)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    appearance = np.argsort(np.argsort(first))
    label = appearance[inverse]
    class_of_row = np.full(problem.k, -1, dtype=np.int64)
    class_of_row[offering] = label
    count = len(first)
    first_row = offering[np.sort(first)]
    servers = np.bincount(label, weights=problem.server_count[offering], minlength=count)
    capacity = problem.capacity[first_row] * servers[:, None]
    return _classes(problem, class_of_row, first_row, servers.astype(np.int64), capacity)


def _only_class(problem: Problem, offering: IntArray) -> ServerClasses:
    """Return the class of the only row (1,) that offers something."""
    class_of_row = np.full(problem.k, -1, dtype=np.int64)
    class_of_row[offering] = 0
    servers = problem.server_count[offering]
    capacity = problem.capacity[offering] * servers.astype(np.float64)[:, None]
    return _classes(problem, class_of_row, offering, servers, capacity)


def _rows_of_amounts(problem: Problem) -> list[BoolArray]:
    """Return the servers (k,) of each distinct selector of a limit or guarantee."""
    rows = [each.rows for each in problem.limited] + [each.rows for each in problem.guaranteed]
    # Amounts with one selector have one array.
    arrays = {id(each): each for each in rows}
    return list({each.tobytes(): each for each in arrays.values()}.values())


def each_row_alone(problem: Problem) -> ServerClasses:
    """Return a class for each offering row, for policies that place on single rows."""
    offering = np.flatnonzero((problem.row_capacity > 0).any(axis=1))
    class_of_row = np.full(problem.k, -1, dtype=np.int64)
    class_of_row[offering] = np.arange(len(offering))
    servers, capacity = problem.server_count[offering], problem.row_capacity[offering]
    return _classes(problem, class_of_row, offering, servers, capacity)


def server_ranges(problem: Problem, servers: IntArray) -> ServerClasses:
    """Return the rows cut into ranges of servers that run the same tasks, in row order.

    Args:
        problem: the problem.
        servers: (K,) size of each range; they tile the offering rows one after the other, so
            the sizes alone determine each range (a stored decision needs nothing else).

    Returns:
        The ranges, with ``class_of_row`` the first range of each row; every row whole where
        the sizes do not tile the rows.
    """
    rows = each_row_alone(problem)
    edge = np.concatenate([[0], np.cumsum(rows.servers)])
    start = np.cumsum(servers) - servers
    tiles = (
        bool((servers > 0).all())
        and int(servers.sum()) == int(edge[-1])
        and bool(np.isin(edge[:-1], start).all())
    )
    if not tiles:
        return rows
    of_row = np.searchsorted(edge, start, side="right") - 1
    class_of_row = np.full(problem.k, -1, dtype=np.int64)
    class_of_row[rows.first_row] = np.searchsorted(start, edge[:-1])
    first_row = rows.first_row[of_row]
    return ServerClasses(
        class_of_row,
        first_row,
        servers,
        np.ascontiguousarray(
            rows.capacity_share[of_row] * (servers / rows.servers[of_row])[:, None]
        ),
        rows.allowed_kinds,
        start - edge[of_row],
        of_row,
    )


@lru_cache(maxsize=1)
def one_class(problem: Problem) -> ServerClasses:
    """Return the whole pool as one big server, for policies that do not place.

    The arrays are read-only. The last result is kept, because solving and checking request it
    repeatedly.

    Parameters
    ----------
    problem : Problem
        The problem.

    Returns
    -------
    ServerClasses
        One class with every server that offers something.

    Examples
    --------
    >>> from policies import Problem, one_class
    >>> problem = Problem.create(resources=["cpu"], capacity=[[4], [8]], tenants=["A"], demand=[[1]])
    >>> one_class(problem).servers.tolist()
    [2]
    """
    offering = np.flatnonzero((problem.row_capacity > 0).any(axis=1))
    class_of_row = np.full(problem.k, -1, dtype=np.int64)
    class_of_row[offering] = 0
    count = min(len(offering), 1)
    servers = np.full(count, problem.server_count[offering].sum(), dtype=np.int64)
    capacity = np.tile(problem.totals, (count, 1))
    pool = _classes(problem, class_of_row, offering[:count], servers, capacity)
    for array in (class_of_row, pool.first_row, servers, pool.capacity_share, pool.allowed_kinds):
        array.setflags(write=False)
    return pool


def classes_of_decision(
    problem: Problem, choice: Choice, servers: IntArray | None = None
) -> ServerClasses:
    """Return the server classes that an answer refers to.

    They are needed to rebuild an answer.

    Exact divisible DRFH merges identical servers, policies on one pool see one big server, whole
    tasks are placed on ranges of servers, and static partitioning on single rows.

    Parameters
    ----------
    problem : Problem
        The problem.
    choice : Choice
        What answered it.
    servers : (K,) int array, optional
        Sizes of the answer's ranges of servers, where it has any.

    Returns
    -------
    ServerClasses
        The classes, in the order of the answer's placements.

    Examples
    --------
    >>> from policies import Problem, choose, classes_of_decision
    >>> problem = Problem.create(resources=["cpu"], capacity=[[4], [4], [8]], tenants=["A"],
    ...     demand=[[1]])
    >>> classes_of_decision(problem, choose("drfh")).servers.tolist()
    [2, 1]
    """
    if choice.sees_one_pool:
        return one_class(problem)
    seen = choice.policy.servers[choice.mode]
    if seen is Servers.CLASSES:
        return server_classes(problem)
    if seen is Servers.RANGES and servers is not None:
        return server_ranges(problem, servers)
    return each_row_alone(problem)


def _classes(
    problem: Problem,
    class_of_row: IntArray,
    first_row: IntArray,
    servers: IntArray,
    capacity: FloatArray,
) -> ServerClasses:
    """Return the classes, or refuse them before their table is made if that would be too large."""
    if problem.n * len(first_row) > LARGEST_TABLE:
        raise ProblemTooLargeError(
            "problem.too_large",
            f"{problem.n} workloads on {len(first_row)} kinds of servers are "
            f"{problem.n * len(first_row)} pairs; at most {LARGEST_TABLE} are solved",
        )
    share = np.ascontiguousarray(capacity / np.where(problem.totals > 0, problem.totals, 1.0))
    return ServerClasses(
        class_of_row, first_row, servers, share, _allowed(problem, share, first_row)
    )


def _allowed(problem: Problem, share: FloatArray, first_row: IntArray) -> BoolArray:
    """Return the classes that each workload may use.

    The selector must allow the class, and the class must have every resource that the workload
    demands, because a server without one of them cannot run any part of a task. If a task has two
    kinds of pieces, it is enough that the server has what one of them demands.
    """
    pieces = problem.pieces
    allowed = np.ones((len(pieces.demand), len(share)), dtype=np.bool_)
    for r in np.flatnonzero((share <= 0).any(axis=0)):
        allowed &= (pieces.demand[:, r, None] <= 0) | (share[:, r] > 0)
    if len(pieces.demand) > problem.n:
        first = np.flatnonzero(pieces.second >= 0)
        allowed[first] |= allowed[pieces.second[first]]
        allowed = allowed[: problem.n]
    if problem.has_selectors:
        allowed &= problem.selector_matches[:, first_row][problem.selector_group]
    return allowed


def allowed_pieces(
    problem: Problem, classes: ServerClasses, columns: IntArray | slice = _ALL
) -> BoolArray:
    """Return the classes (q, K), or some of them, on which a piece of each kind may run.

    Do not change the array: without gangs it is that of the classes.
    """
    pieces, allowed = problem.pieces, classes.allowed_on(columns)
    if len(pieces.demand) == problem.n:
        return allowed
    allowed, share = allowed[pieces.workload], classes.capacity_share[columns]
    for r in np.flatnonzero((share <= 0).any(axis=0)):
        allowed &= (pieces.demand[:, r, None] <= 0) | (share[:, r] > 0)
    return allowed
