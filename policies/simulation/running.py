"""The compiled loop's state made from a problem, a trace and a cluster, run, and read back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.filling.best_fit import NOWHERE
from policies.filling.rules import BEST_BY_SCAN, BEST_BY_SLOPE
from policies.filling.servers import gangs_of, tasks_of
from policies.filling.state import Gangs, list_present
from policies.long_term.windows import Window
from policies.model.entitlement import entitled_partition
from policies.model.policy import ShareDefinition
from policies.model.problem import Problem
from policies.model.quantities import POOL, quantities_read
from policies.model.queues import queues_of
from policies.model.server_classes import each_row_alone
from policies.simulation.beginning import (
    arrivals_of,
    evenness_of,
    placed_of,
    plan_of,
    state_of,
    tally_of,
    tenants_of,
)
from policies.simulation.cluster import Cluster
from policies.simulation.events import run_events
from policies.simulation.floor_own_setup import Simulated
from policies.simulation.floor_setup import FloorSetup, without_floors
from policies.simulation.grouping import trees_of
from policies.simulation.limiting import Limits, limits_of, take_of_limits, without_limits
from policies.simulation.placing import AWAY, EVENEST, ONE_POOL
from policies.simulation.server_changes import ServerChanges, pool_with
from policies.simulation.state import (
    CHANGED,
    COUNTERS,
    FREED,
    LOOKS_LEFT,
    ROWS,
    RUNNING,
    SUBMITTED,
    Freed,
    Heap,
    Log,
    Remembered,
)
from policies.simulation.trace import Trace

_INT: Any = np.int64
# From these seconds on the terms of tenants and groups are those of the problem.
Terms = Sequence[tuple[float, Problem]]
# Approximate number of changes of use between two reports of progress, least and most.
_CHANGES_PER_REPORT = (2_000, 50_000)
# Servers that gangs try in vain between two reports of progress.
_MOST_LOOKS = 100_000


@dataclass(frozen=True, eq=False)
class ClusterResult:
    """Result of a trace on one cluster, with columns by task (N,) and the log (``state.Log``).

    Attributes:
        piece_task, piece_kind, piece_server: (P,) of the pieces of gangs that began (``Simulation``).
    """

    start: FloatArray
    end: FloatArray
    server: IntArray
    piece_task: IntArray
    piece_kind: IntArray
    piece_server: IntArray
    log_time: FloatArray
    log_tenant: IntArray
    log_rate: FloatArray


class Run:
    """One trace on one cluster, from change to change of servers and of terms."""

    def __init__(
        self,
        problem: Problem,
        trace: Trace,
        cluster: Cluster,
        changes: ServerChanges,
        window: Window,
        step: float,
        terms: Terms = (),
    ) -> None:
        # Amounts of limits and guarantees are on scales of their own, because terms differ in them.
        self.amounts, problem = problem, without_floors(without_limits(problem))
        self.problem, self.cluster, self.changes, self.terms = problem, cluster, changes, terms
        queues = queues_of(problem, cluster.reasons, problem.dominant_share_per_task)
        self.workloads = queues.workloads
        self.kinds = problem.pieces.kinds_of(queues.workloads)
        # Rows of labels and kinds of pieces stay the same whatever the terms.
        self.labelled = problem
        self.by_time = np.argsort(trace.submit, kind="stable")
        # On one server, on which all may run, there is nothing to choose.
        alone = int(cluster.servers.sum()) == 1 and bool(cluster.allowed[self.kinds].all())
        alone = alone and not problem.gangs
        self.rule = ONE_POOL if alone else cluster.rule
        self.plan = plan_of(cluster, self.rule, window, step)
        self.arrivals = arrivals_of(problem, queues, trace, self.by_time)
        self.there = changes.there_at_first(int(problem.server_count.sum()))
        pool = pool_with(problem, self.there)
        self.tenants = tenants_of(problem, queues)
        self.tasks, self.servers = state_of(cluster, self.rule, self.kinds)
        self.even = evenness_of(cluster, self.rule, self.servers)
        t, m, count = problem.t, problem.m, len(self.by_time)
        self.tally = tally_of(queues, m, self.tasks.demand.shape[1])
        self.gangs = self._gangs()
        self.placed = placed_of(self.tally, queues, self.gangs, self.arrivals.job, self.servers)
        self.heap = Heap(np.empty(count), np.empty(count, dtype=_INT))
        self.freed = Freed(
            np.empty(len(self.servers.left), dtype=_INT),
            np.zeros(len(self.servers.left), dtype=np.bool_),
        )
        # The memory begins with the first event, so that no time before it counts as elapsed.
        moments = [changes.time.min(initial=math.inf), *(moment for moment, _ in terms)]
        # A float, also of whole seconds: for another type all kernels would be compiled again.
        begin = float(min(trace.submit.min(initial=math.inf), *moments))
        self.remembered = Remembered(
            np.zeros((t, 2 * m)), np.zeros((t, 2 * m)), np.full(t, begin), np.zeros((t, 2 * m)),
            np.zeros((t, 2 * m)), np.full(t, begin), np.zeros((t, 2 * m)),
        )  # fmt: skip
        # A task changes its tenant's use when it comes, starts and ends; servers and terms change
        # all.
        rows = 3 * count + t * (len(changes.time) + len(terms))
        self.log = Log(np.empty(rows), np.empty(rows, dtype=_INT), np.empty((rows, 2 * m)))
        self.draws = np.array([int(cluster.choice.option("seed") or 0)], dtype=np.uint64)
        self.counters = np.zeros(COUNTERS, dtype=_INT)
        self._rows = None if cluster.choice.sees_one_pool else each_row_alone(problem).first_row
        self.limits = self._limits(self.amounts, self.tasks.allowed)
        self._unused = self.limits.left.copy()
        # Where the problem's servers are among the cluster's: with one pool all are the first.
        self.position = np.full(len(self.there), NOWHERE)
        self.position[cluster.number[cluster.number >= 0]] = np.flatnonzero(cluster.number >= 0)
        self._floor_setup = FloorSetup()
        self._leave(np.flatnonzero(~self.there))
        self._count_servers(pool)
        self._report: Callable[[float], None] | None = None
        self._stride = 1.0

    def until(self, end: float, report: Callable[[float], None] | None = None) -> ClusterResult:
        """Run to the end, or through ``end`` seconds, and return the result.

        ``report`` is called now and then with the part of the tasks that have ended.
        """
        self._report = report
        wake = math.inf
        changes = {moment: servers for moment, *servers in self.changes.moments()}
        terms, none = dict(self.terms), np.zeros(0, dtype=_INT)
        for moment in sorted(changes.keys() | terms.keys()):
            if moment > end:
                break
            # Events before the change meet the old servers, those of its moment the new ones.
            self._run(wake, float(np.nextafter(moment, -math.inf)))
            wake = moment
            joining, leaving = changes.get(moment, (none, none))
            if moment in terms:
                self._change_terms(terms[moment])
            self._join(joining)
            self._leave(leaving)
            self.there[joining], self.there[leaving] = True, False
            self._count_servers(pool_with(self.problem, self.there))
            self.counters[CHANGED] = 1
        self._run(wake, end)
        start, finish = np.empty(len(self.by_time)), np.empty(len(self.by_time))
        server = np.empty(len(self.by_time), dtype=_INT)
        start[self.by_time], finish[self.by_time] = self.arrivals.start, self.arrivals.end
        # A task that never began has position -1, which reads the entry that is appended.
        server[self.by_time] = np.append(self.cluster.number, NOWHERE)[self.arrivals.server]
        rows = self.counters[ROWS]
        return ClusterResult(
            start, finish, server, *self._pieces(), self.log.time[:rows], self.log.tenant[:rows],
            self.log.rate[:rows],
        )  # fmt: skip

    def _pieces(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return task, kind and server of the pieces of gangs that have begun."""
        placed, job = self.placed, self.arrivals.job
        per_task = np.append(self.gangs.per_task, 0)[job]
        began = np.repeat(~np.isnan(self.arrivals.start), per_task)
        task = np.repeat(np.arange(len(job)), per_task)[began]
        second = self.kinds[placed.kind[began]] >= self.problem.n
        return (
            self.by_time[task],
            second.astype(_INT),
            self.cluster.number[placed.server[began]].astype(_INT),
        )

    def _gangs(self) -> Gangs:
        """Return the gangs, of which the larger kind depends on the servers that are there."""
        return gangs_of(
            self.labelled, self.kinds, len(self.workloads),
            self.tasks.demand * self.servers.share_of_unit, self.cluster.rows, self.cluster.servers,
        )  # fmt: skip

    def _limits(self, problem: Problem, allowed: BoolArray) -> Limits:
        """Return the limits of a problem while nothing runs."""
        position = np.full(self.problem.n, NOWHERE, dtype=_INT)
        position[self.workloads] = np.arange(len(self.workloads))
        return limits_of(
            problem, self.kinds, position[problem.pieces.workload[self.kinds]], self._rows, allowed
        )

    def _run(self, wake: float, until: float) -> None:
        while self._report is not None and (first := min(wake, self._next_event())) < until:
            before, pause = int(self.counters[ROWS]), min(first + self._stride, until)
            self.counters[LOOKS_LEFT] = _MOST_LOOKS
            # The wake is the first event of all, and the first one is always looked at.
            self._go_on(wake, pause)
            wake = wake if wake > pause else math.inf
            changes = int(self.counters[ROWS]) - before
            has_paused = self.counters[LOOKS_LEFT] < 0
            # Reports come after about as many changes in quiet hours as in busy ones.
            if changes < _CHANGES_PER_REPORT[0] and not has_paused:
                self._stride *= 2
            elif changes > _CHANGES_PER_REPORT[1]:
                self._stride /= 2
            ended = self.tally.launched.sum() - self.counters[RUNNING]
            self._report(float(ended) / len(self.by_time))
        # Without reports this runs everything. With them only the events of one time are left.
        self.counters[LOOKS_LEFT] = np.iinfo(np.int64).max
        self._go_on(wake, until)

    def _next_event(self) -> float:
        """Return the seconds of the next arrival or completion, or inf without any."""
        submitted, running = int(self.counters[SUBMITTED]), int(self.counters[RUNNING])
        arrival = self.arrivals.submit[submitted] if submitted < len(self.by_time) else math.inf
        return float(min(arrival, self.heap.ends[0] if running else math.inf))

    def _go_on(self, wake: float, until: float) -> None:
        run_events(
            self.plan, wake, until, self.arrivals, self.tenants, self.trees, self.tasks, self.gangs,
            self.limits, self.servers, self.even, self.tally, self.heap, self.freed, self.placed,
            self.remembered, self.log, self.draws, self.floors, self.counters,
        )  # fmt: skip

    def _change_terms(self, problem: Problem) -> None:
        """Let the terms of a problem count from now on. Running tasks count against its limits."""
        self.amounts, self.problem = problem, without_floors(without_limits(problem))
        if not (len(self.limits.left) or problem.limits):
            return
        self.tasks.allowed[:] = self.limits.allowed
        self.limits = self._limits(problem, self.limits.allowed)
        self._unused = self.limits.left.copy()
        for task in self.heap.tasks[: self.counters[RUNNING]].tolist():
            job = self.arrivals.job[task]
            pieces = [(job, self.arrivals.server[task])]
            if self.gangs.per_task[job]:
                begin = self.placed.first[task]
                mine = slice(begin, begin + self.gangs.per_task[job])
                pieces = list(zip(self.placed.kind[mine], self.placed.server[mine], strict=True))
            for kind, server in pieces:
                take_of_limits(kind, self.servers.row_of[server], self.limits)
        # What a limit stopped may fit on any server now.
        self.tally.blocked[:] = False
        self.tasks.pointer[:] = 0

    def _join(self, numbers: IntArray) -> None:
        for server in self._moved(numbers, 1.0).tolist():
            self.servers.opened[self.servers.row_of[server]] = max(
                self.servers.opened[self.servers.row_of[server]], server + 1
            )
            if not self.freed.marked[server]:
                self.freed.marked[server] = True
                self.freed.servers[self.counters[FREED]] = server
                self.counters[FREED] += 1

    def _leave(self, numbers: IntArray) -> None:
        # Untouched servers of a row are alike as long as none of them leaves.
        for server in self._moved(numbers, -1.0).tolist():
            self.servers.opened[self.servers.row_of[server]] = max(
                self.servers.opened[self.servers.row_of[server]], server + 1
            )

    def _moved(self, numbers: IntArray, sign: float) -> IntArray:
        """Change what is left of the servers of some numbers and return their positions."""
        if self.cluster.rule == ONE_POOL:
            row_of = np.repeat(np.arange(self.problem.k), self.problem.server_count)
            for row in row_of[numbers].tolist():
                self.servers.left[0] += sign * self._pool_of_row(row)
            return np.zeros(0, dtype=_INT)
        servers: IntArray = self.position[numbers]
        servers = servers[servers != NOWHERE]
        # Subtracted and not set, so that tasks that still run there can give their amounts back.
        self.servers.left[servers] += sign * AWAY
        if self.rule == EVENEST:
            capacity = self.even.capacity[self.servers.row_of[servers]]
            part = np.ones_like(capacity)
            np.divide(self.servers.left[servers], capacity, out=part, where=capacity > 0)
            self.even.room[servers] = part.min(axis=1, initial=1.0)
        return servers

    def _pool_of_row(self, row: int) -> FloatArray:
        amount: FloatArray = quantities_read(self.problem, POOL).capacity[row]
        return amount

    def _count_servers(self, pool: Problem) -> None:
        """Write everything that refers to the servers that are there and to the terms of tenants."""
        cluster, tenants = self.cluster, self.tenants
        there = self._cluster_servers_there()
        row_of = self.servers.row_of
        totals = cluster.capacity[row_of][there].sum(axis=0)
        if cluster.rule != ONE_POOL:
            share = np.divide(1.0, totals, out=np.zeros(len(totals)), where=totals > 0)
            self.servers.share_of_unit[:] = share
            with np.errstate(invalid="ignore", divide="ignore"):  # a resource that is not there
                fresh = tasks_of(self.tasks.demand, share, self.tasks.allowed)
            self.tasks.ratio[:], self.tasks.size[:] = fresh.ratio, fresh.size
            self.tasks.reference[:] = fresh.reference
        slots = cluster.choice.policy.share is ShareDefinition.SLOTS
        shares = cluster.shares(pool, float(totals.sum()) if slots else 0.0)
        tenants.share[:] = shares[self.workloads]
        tenants.weight[:] = pool.effective_weight
        tenants.second_stage[:] = pool.second_stage
        self.trees = trees_of(pool, adds_up=cluster.choice.share is ShareDefinition.ALONE)
        tenants.partition[:] = entitled_partition(pool)
        tenants.share_of_total[:] = np.divide(
            1.0, pool.totals, out=np.zeros(pool.m), where=pool.totals > 0
        )
        self.gangs = self._gangs()
        self.placed.free[:] = self.servers.left[there].sum(axis=0)
        if self.rule in (BEST_BY_SLOPE, BEST_BY_SCAN):
            list_present(self.rule, self.servers)
        self._compute_floors()

    def _compute_floors(self) -> None:
        """Let the guarantees and own servers of the terms count for the servers that are there."""
        running = self.heap.tasks[: self.counters[RUNNING]]
        row = self.servers.row_of[self.arrivals.server[running]]
        on_row, count = np.unique(
            np.stack([self.arrivals.job[running], row], axis=1), axis=0, return_counts=True
        )
        position = np.full(self.problem.n, NOWHERE, dtype=_INT)
        position[self.workloads] = np.arange(len(self.workloads))
        simulated = Simulated(
            choice=self.cluster.choice,
            position=position,
            first=self.tenants.first,
            stop=self.tenants.stop,
            rows=self._rows,
            row_of=self.servers.row_of,
            there=self._cluster_servers_there(),
            demand=self.tasks.demand,
            capacity=self.cluster.capacity,
            limit=self._unused,
            on_row=np.column_stack([on_row, count]),
            running=self.tally.running,
        )
        pool = pool_with(self.amounts, self.there)
        self.floors = self._floor_setup.floors(self.amounts, pool, simulated)

    def _cluster_servers_there(self) -> BoolArray:
        known = self.cluster.number >= 0
        there = np.ones(len(known), dtype=np.bool_)
        there[known] = self.there[self.cluster.number[known]]
        return there
