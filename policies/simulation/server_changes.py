"""Servers that join and leave while a trace runs.

A server that leaves drains: what runs on it runs to its end, nothing new begins there, and it no
longer counts as a part of the pool, so that shares and entitlements refer to the servers that are
there. Its contributor's weight stays, as that of a draining server of the service does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from policies.arrays import BoolArray, FloatArray, IntArray, read_only
from policies.errors import ProblemError
from policies.model.problem import Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class ServerChanges:
    """Times at which single servers join and leave.

    Build it with :meth:`create`.

    Attributes:
        time: (E,) seconds, ascending.
        server: (E,) index of the server, counted row by row over the problem's servers, from 0.
        joins: (E,) True if it joins, False if it leaves. A server whose first change is to join is
            absent at the beginning.
    """

    time: FloatArray
    server: IntArray
    joins: BoolArray

    @classmethod
    def create(
        cls, *, time: npt.ArrayLike, server: npt.ArrayLike, joins: npt.ArrayLike
    ) -> ServerChanges:
        """Read-only columns in the order of time.

        Raises:
            ProblemError: columns of different lengths, a time that is not finite, a server below 0,
                one that joins or leaves twice in a row, or twice at one time.
        """
        times, servers = np.array(time, dtype=np.float64), np.array(server, dtype=np.int64)
        arrivals = np.array(joins, dtype=np.bool_)
        if not (times.ndim == 1 and times.shape == servers.shape == arrivals.shape):
            raise ProblemError(
                "changes.shape",
                "every change of a server needs a time, a server and whether it joins; found "
                f"{times.shape}, {servers.shape}, {arrivals.shape}",
            )
        wrong = ~np.isfinite(times) | (servers < 0)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise ProblemError(
                "changes.value",
                f"change {at} is of server {servers[at]} at {times[at]}; a time is a finite number, "
                "and servers are counted from 0",
            )
        order = np.argsort(times, kind="stable")
        times, servers, arrivals = times[order], servers[order], arrivals[order]
        by_server = np.lexsort((times, servers))
        after, before = by_server[1:], by_server[:-1]
        same = servers[after] == servers[before]
        twice = same & ((arrivals[after] == arrivals[before]) | (times[after] == times[before]))
        if twice.any():
            at = int(after[np.flatnonzero(twice)[0]])
            raise ProblemError(
                "changes.value",
                f"server {servers[at]} {'joins' if arrivals[at] else 'leaves'} at {times[at]}; "
                "a server joins and leaves in turn, at different times",
            )
        return cls(time=read_only(times), server=read_only(servers), joins=read_only(arrivals))

    @classmethod
    def none(cls) -> ServerChanges:
        """Return no changes, with all servers there all the time."""
        return cls.create(time=[], server=[], joins=[])

    def check_servers(self, problem: Problem) -> None:
        """Raise ProblemError unless the problem has all these servers."""
        count = int(problem.server_count.sum())
        if len(self.server) and self.server.max() >= count:
            raise ProblemError(
                "changes.server",
                f"there is no server {self.server.max()}; the problem has {count}, counted from 0",
            )

    def there_at_first(self, servers: int) -> BoolArray:
        """Return the servers (servers,) that are there before the first change."""
        there = np.ones(servers, dtype=np.bool_)
        # The first change of each server is written last.
        there[self.server[::-1]] = ~self.joins[::-1]
        return there

    def moments(self) -> Iterator[tuple[float, IntArray, IntArray]]:
        """Yield each time of a change, the servers that join, and those that leave."""
        moments, first = np.unique(self.time, return_index=True)
        after = np.searchsorted(self.time, moments, side="right")
        for moment, begin, end in zip(moments.tolist(), first, after, strict=True):
            servers, joins = self.server[begin:end], self.joins[begin:end]
            yield moment, servers[joins], servers[~joins]


def pool_with(problem: Problem, there: BoolArray) -> Problem:
    """Return the problem at a time when only the servers ``there`` (servers,) are present.

    The others are draining.
    """
    if there.all():
        return problem
    row_of = np.repeat(np.arange(problem.k), problem.server_count)
    staying = np.bincount(row_of, weights=there, minlength=problem.k).astype(np.int64)
    leaving = problem.server_count - staying
    rows = np.concatenate([np.flatnonzero(staying), np.flatnonzero(leaving)])
    drained = np.arange(len(rows)) >= np.count_nonzero(staying)
    return replace(
        problem,
        # Part of a row may leave, so that its name would stand for two.
        server_names=tuple(f"row-{i}" for i in range(len(rows))),
        capacity=problem.capacity[rows],
        server_count=np.where(drained, leaving[rows], staying[rows]),
        server_labels=tuple(problem.server_labels[row] for row in rows.tolist()),
        contributed_by=problem.contributed_by[rows],
        contributed_only=problem.contributed_only[rows] | drained,
    )
