"""Single servers as whole tasks fill them, and the rules by which a task goes to one of them.

Untouched servers of a row are alike, so that rules look at the first of them only. Every rule is written
down as it is defined, over all servers at once; scores that differ by no more than the one stated
tolerance are equal, and the tie goes to the first server by position.

Sources: Wang et al., TPDS 2015, eq. 9 (best fit); Tang et al., TPDS 2018, §6 (affinity); Hamzeh et al.,
MRFS, 2020, Algorithm 1 (even).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.verification.amounts import Amounts
from policies.verification.limits import StatedLimit

NOWHERE = -1
# Launches between two looks for servers that are too full for everything that waits.
BETWEEN_LOOKS = 256
_MASK = 2**64 - 1


class LimitsLeft:
    """Unused amounts of limits, in the whole numbers of servers.

    Attributes:
        left: (l, m); inf of amounts that cannot bind.
    """

    def __init__(
        self,
        limits: Sequence[StatedLimit],
        amounts: Amounts,
        rows: IntArray,
        owner: IntArray | None = None,
    ) -> None:
        """Start with the whole amounts.

        Args:
            rows: (R,) of the problem, in the order that is used here.
            owner: (q,) workload of each kind of pieces; None if kinds are the workloads.
        """
        self._owner = np.arange(len(amounts.demand)) if owner is None else owner
        self.limits = limits
        self.left = amounts.limits.copy()
        self.rows = [limit.rows[rows] for limit in limits]
        self._demand = amounts.demand
        self._mine: dict[int, list[int]] = {}

    def mine(self, job: int) -> list[int]:
        """Return the limits in which a workload counts."""
        if job not in self._mine:
            self._mine[job] = [
                q for q, limit in enumerate(self.limits) if limit.counted[self._owner[job]]
            ]
        return self._mine[job]

    def take(self, job: int, row: int, number: int = 1) -> None:
        """Count more tasks on a row, or fewer."""
        for q in self.mine(job):
            if self.rows[q][row]:
                self.left[q] -= number * self._demand[job]

    def take_all(self, job: IntArray, row: IntArray, tasks: FloatArray) -> None:
        """Count tasks (p,) of workloads (p,) on rows (p,)."""
        for q, limit in enumerate(self.limits):
            counted = limit.counted[self._owner[job]] & self.rows[q][row]
            self.left[q] -= tasks[counted] @ self._demand[job[counted]]

    def exhausted(self, job: int) -> list[int]:
        """Return the limits that one more task of a workload would exceed."""
        return [q for q in self.mine(job) if (self._demand[job] > self.left[q]).any()]

    def closed(self, job: int) -> BoolArray:
        """Return the rows (R,) on which no task of a workload may start any more."""
        closed = np.zeros(len(self.rows[0]), dtype=np.bool_)
        for q in self.exhausted(job):
            closed |= self.rows[q]
        return closed

    def short_of(self, job: int, need: FloatArray) -> str | None:
        """Return the reason by the first limit of a workload that has less left than a need (m,)."""
        short = (q for q in self.mine(job) if (need > self.left[q]).any())
        first = next(short, None)
        return None if first is None else self.limits[first].reason

    def first_in_the_way(self, job: int, rows: IntArray) -> str:
        """Return the reason of a workload that has room on rows (r,), all of which are closed."""
        first = next(q for q in self.exhausted(job) if self.rows[q][rows].any())
        return self.limits[first].reason


class Servers:
    """Servers of rows, numbered row by row, with what they have left.

    Attributes:
        left: (S, m) whole numbers; row_of: (S,); capacity: (rows, m) of an empty server.
        unit: (m,) one unit as a share of the pool; allowed: (n, rows).
        listed: (c,) servers that rules look at; room: (m, c) what these have left.
        may: (rows,) where pieces of the present task may run, None for everywhere.
        hidden: servers that have as many pieces of it as they may.
        hosted, aggregate: (m, c) and (c,) requests by what dominates them, and their part of the server.
    """

    def __init__(
        self,
        capacity: FloatArray,
        servers: IntArray,
        demand: FloatArray,
        allowed: BoolArray,
        limits: LimitsLeft | None = None,
        apart: Sequence[BoolArray] = (),
    ) -> None:
        """Empty servers of rows (rows, m), so many of each.

        Args:
            apart: sets of rows (rows,), which a server outside of them is not like.
        """
        self.limits = limits
        self.may: BoolArray | None = None
        self.hidden: set[int] = set()
        count, m = int(servers.sum()), capacity.shape[1]
        self.row_of = np.repeat(np.arange(len(servers)), servers)
        self.capacity, self.demand, self.allowed = capacity, demand, allowed
        self.left = capacity[self.row_of]
        total = servers @ capacity
        self.unit = np.divide(1.0, total, out=np.zeros(m), where=total > 0)
        self._everywhere: list[bool] = [bool(row.all()) for row in allowed]
        sets = [*(limits.rows if limits else ()), *apart]
        different = np.array(sets, dtype=np.bool_).reshape(len(sets), len(capacity))
        self._following, first = _alike(capacity, np.concatenate([allowed, different]), self.row_of)
        self._fresh = np.ones(count, dtype=np.bool_)
        self._position = np.full(count, NOWHERE, dtype=np.int64)
        self._listed = np.empty(count, dtype=np.int64)
        self._room, self._hosted = np.empty((m, count)), np.zeros((m, count))
        self._aggregate = np.zeros(count)
        self._size = 0
        self._dominant: dict[int, IntArray] = {}
        for server in first:
            self._list(server)

    def _list(self, server: int) -> None:
        at = self._size
        self._listed[at], self._position[server] = server, at
        self._room[:, at] = self.left[server]
        self._hosted[:, at], self._aggregate[at] = 0.0, 0.0
        self._size += 1

    @property
    def listed(self) -> IntArray:
        """Servers (c,) that the rules consider."""
        return self._listed[: self._size]

    @property
    def room(self) -> FloatArray:
        """Amounts (m, c) that the listed servers have left."""
        return self._room[:, : self._size]

    def take(self, server: int, job: int) -> None:
        """Launch a task of the workload there."""
        self.left[server] -= self.demand[job]
        if self.limits:
            self.limits.take(job, int(self.row_of[server]))
        listed, fresh = self._position[server] != NOWHERE, self._fresh[server]
        self._fresh[server] = False
        if not listed:  # drawn before its turn
            self._list(server)
            return
        self._room[:, self._position[server]] = self.left[server]
        following = int(self._following[server])
        # Those that two-choices drew before their turn are listed already.
        while fresh and following != NOWHERE and not self._fresh[following]:
            following = int(self._following[following])
        if fresh and following != NOWHERE:
            self._list(following)

    def give_back(self, server: int, job: int) -> None:
        """Take back the launch of a piece there."""
        self.left[server] += self.demand[job]
        if self.limits:
            self.limits.take(job, int(self.row_of[server]), -1)
        if self._position[server] != NOWHERE:
            self._room[:, self._position[server]] = self.left[server]

    def drop_full(self, waiting: IntArray) -> None:
        """Look no more at servers that have too little of something for all that waits."""
        least = self.demand[waiting].min(axis=0, initial=np.inf)
        # Room only shrinks while tasks are handed out.
        alive = np.flatnonzero((self.room >= least[:, None]).all(axis=0))
        self._position[self.listed] = NOWHERE
        for values in (self._listed, self._aggregate):
            values[: len(alive)] = values[alive]
        for table in (self._room, self._hosted):
            table[:, : len(alive)] = table[:, alive]
        self._size = len(alive)
        self._position[self.listed] = np.arange(len(alive))

    def fitting(self, job: int) -> IntArray:
        """Return the positions (f,) in ``listed`` of servers with room for a task of the workload."""
        fits = np.ones(self._size, dtype=np.bool_)
        for room, needed in zip(self.room, self.demand[job].tolist(), strict=True):
            if needed:
                fits &= room >= needed
        if not self._everywhere[job]:
            fits &= self.allowed[job][self.row_of[self.listed]]
        if self.limits and self.limits.exhausted(job):
            fits &= ~self.limits.closed(job)[self.row_of[self.listed]]
        if self.may is not None:
            fits &= self.may[self.row_of[self.listed]]
        if self.hidden:
            fits &= ~np.isin(self.listed, list(self.hidden))
        return np.flatnonzero(fits)

    def first(self, some: IntArray) -> int:
        """Return the first server of those (f,) given by their positions in ``listed``."""
        return int(self.listed[some].min()) if len(some) else NOWHERE

    def first_fit(self, job: int) -> int:
        """Return the first server that has room."""
        return self.first(self.fitting(job))

    def _misfit(self, job: int, room: FloatArray) -> tuple[FloatArray, float]:
        """Return ``H`` (f,) of the workload on servers with room (m, f), and the task's size."""
        ref = int((self.demand[job] > 0).argmax())
        task = self.demand[job] * self.unit
        task = task / task[ref]
        reference = room[ref] * self.unit[ref]
        scores = np.zeros(len(reference))
        for r, part in enumerate(task.tolist()):
            if r != ref:
                scores += np.abs(part - room[r] * self.unit[r] / reference)
        return scores, float(task.sum())

    def best_fit(self, job: int) -> int:
        """Return the server whose room is most in the proportions of the task."""
        some = self.fitting(job)
        if not len(some):
            return NOWHERE
        scores, size = self._misfit(job, self.room[:, some])
        least = float(scores.min())
        return self.first(some[scores <= least + DISCRETE_TOLERANCE * (size + least)])

    def affinity(self, job: int) -> int:
        """Return the server with the largest dot product of demand and room."""
        some = self.fitting(job)
        if not len(some):
            return NOWHERE
        scores = (self.demand[job] * self.unit * self.unit) @ self.room[:, some]
        return self.first(some[scores >= scores.max() * (1 - DISCRETE_TOLERANCE)])

    def two_choices(self, seed: int) -> Callable[[int], int]:
        """Return a rule that takes the better of two servers drawn by SplitMix64.

        If neither fits, it takes the first that does.
        """
        state = seed

        def draw() -> float:
            nonlocal state
            state = (state + 0x9E3779B97F4A7C15) & _MASK
            bits = state
            bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
            bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
            return ((bits ^ (bits >> 31)) >> 11) * 2.0**-53

        def rule(job: int) -> int:
            drawn = [int(draw() * len(self.left)) for _ in range(2)]
            may = self.allowed[job]
            if self.limits:
                may = may & ~self.limits.closed(job)
            if self.may is not None:
                may = may & self.may
            fits = [
                server
                # In order of position, to which ties go.
                for server in sorted(set(drawn) - self.hidden)
                if may[self.row_of[server]] and (self.left[server] >= self.demand[job]).all()
            ]
            if not fits:
                return self.first_fit(job)
            scores, size = self._misfit(job, self.left[fits].T)
            least = float(scores.min())
            return fits[int((scores <= least + DISCRETE_TOLERANCE * (size + least)).argmax())]

        return rule

    def dominant(self, job: int) -> IntArray:
        """Return the first resource (rows,) of which a request takes most of a row's server."""
        if job not in self._dominant:
            share = np.full(self.capacity.shape, -1.0)
            np.divide(self.demand[job], self.capacity, out=share, where=self.capacity > 0)
            most = share.max(axis=1, initial=0.0, keepdims=True)
            tied = (share >= most * (1 - DISCRETE_TOLERANCE)) & (share > 0)
            self._dominant[job] = tied.argmax(axis=1)
        return self._dominant[job]

    def evenest(self, job: int) -> int:
        """Return the server on which the requests dominated by each resource are then most even."""
        some = self.fitting(job)
        if not len(some):
            return NOWHERE
        row = self.row_of[self.listed[some]]
        has = self.capacity[row].T > 0
        then = self._hosted[:, some]
        then[self.dominant(job)[row], np.arange(len(some))] += 1
        most = np.where(has, then, -np.inf).max(axis=0)
        spread = most - np.where(has, then, np.inf).min(axis=0)
        some = some[spread == spread.min()]
        taken = self._aggregate[some]
        some = some[taken <= taken.min() * (1 + DISCRETE_TOLERANCE)]
        size = self.capacity[self.row_of[self.listed[some]]].T
        part = np.ones(size.shape)
        np.divide(self.room[:, some], size, out=part, where=size > 0)
        left = part.min(axis=0)
        return self.first(some[left >= left.max() * (1 - DISCRETE_TOLERANCE)])

    def host(self, server: int, job: int) -> None:
        """Count a request on a server, before its task is taken."""
        row, position = self.row_of[server], self._position[server]
        r = int(self.dominant(job)[row])
        self._hosted[r, position] += 1
        self._aggregate[position] += self.demand[job, r] / self.capacity[row, r]


def _alike(
    capacity: FloatArray, allowed: BoolArray, row_of: IntArray
) -> tuple[IntArray, list[int]]:
    """Return the next server that is alike when empty (S,), and the first server of each kind.

    ``NOWHERE`` if there is no next one.
    """
    following = np.full(len(row_of), NOWHERE, dtype=np.int64)
    last: dict[tuple[bytes, bytes], int] = {}
    first = []
    keys = [
        (capacity[row].tobytes(), np.packbits(allowed[:, row]).tobytes())
        for row in range(len(capacity))
    ]
    start = np.searchsorted(row_of, np.arange(len(capacity) + 1)).tolist()
    for row, key in enumerate(keys):
        begin, end = start[row], start[row + 1]
        following[begin : end - 1] = np.arange(begin + 1, end)
        if key in last:
            # Kinds go over rows: empty servers of alike rows are interchangeable.
            following[last[key]] = begin
        else:
            first.append(begin)
        last[key] = end - 1
    return following, first


def rule_of(servers: Servers, option: Callable[[str], object]) -> Callable[[int], int]:
    """Return the placement rule that the options of ``drfh`` name."""
    placement = option("placement")
    if placement == "two-choices":
        return servers.two_choices(int(str(option("seed"))))
    rules = {"first-fit": servers.first_fit, "affinity": servers.affinity}
    return rules.get(str(placement), servers.best_fit)
