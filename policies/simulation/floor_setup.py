"""Guarantees and own servers of a problem as the arrays that the event loop works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from policies.arrays import BoolArray, IntArray
from policies.filling.best_fit import NOWHERE
from policies.filling.group_turns import blocks_of
from policies.filling.servers import gains
from policies.floors.pools import FloorPool, pools_of
from policies.model.limits import SMALLEST_LIMIT_SHARE
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.queues import queues_of
from policies.model.server_classes import ServerClasses, one_class, server_classes
from policies.model.share_definition import share_per_task
from policies.proofs.pool_of_tasks import DRF_OF_TASKS, pool_of_tasks
from policies.simulation.floor_division import FloorPools
from policies.simulation.floor_own_setup import PartArrays, Simulated, own_floors
from policies.simulation.floor_state import Floors

_INT: Any = np.int64
_BEGINS = 12
_LEFT_OUT = "cannot run on any server"


def without_floors(problem: Problem) -> Problem:
    """Return the problem without guarantees and own servers."""
    if not problem.has_floors:
        return problem
    return replace(problem, guarantees=(), own_servers=np.zeros(problem.t, dtype=np.bool_))


class FloorSetup:
    """Pools and parts of the terms in force, built again only if servers or weights change them."""

    def __init__(self) -> None:
        self._key: object = None
        self._built: tuple[FloorPools, PartArrays] | None = None

    def floors(self, problem: Problem, pool: Problem, simulated: Simulated) -> Floors:
        """Return the floors of a problem, of which nothing is computed yet.

        Args:
            problem: with guarantees; pool: the same with the servers that are there.
        """
        divided = pool
        # Own servers have floors of their own here: the pools need not know of them.
        if problem.has_floors and not simulated.choice.sees_one_pool:
            divided = replace(pool, own_servers=np.zeros(pool.t, dtype=np.bool_))
        key = (problem, *_read_by_pools(divided, simulated.choice))
        # Terms may change while servers and weights stay.
        if self._built is None or key != self._key:
            self._key, self._built = key, _build(problem, divided, simulated)
        pools, parts = self._built
        pools.floor[:] = pools.pending[:] = 0.0
        pools.dirty[:] = True
        return _floors(problem, simulated, pools, parts)


def _read_by_pools(pool: Problem, choice: Choice) -> tuple[bytes, ...]:
    """Return what pools of guarantees read of the servers that are there."""
    if not pool.has_floors:
        return ()
    classes = one_class(pool) if choice.sees_one_pool else server_classes(pool)
    small = [each.limit.amount < SMALLEST_LIMIT_SHARE * pool.totals for each in pool.guaranteed]
    own = np.zeros((pool.t, pool.m))
    mine = pool.contributed_by >= 0
    if pool.own_servers.any():
        np.add.at(own, pool.contributed_by[mine], pool.row_capacity[mine])
    may_run = [
        classes.allowed[each.workloads][:, each.rows[classes.first_row]].any(axis=1)
        for each in pool.guaranteed
    ]
    tables = (
        pool.effective_weight,
        pool.second_stage,
        pool.derived_group_weight,
        np.array(small),
        own,
        *may_run,
    )
    # Bytes, because arrays do not compare to one truth value.
    return tuple(each.tobytes() for each in tables)


def _build(
    problem: Problem, divided: Problem, simulated: Simulated
) -> tuple[FloorPools, PartArrays]:
    """Return the pools of a problem and the parts of its workloads."""
    rows, choice = simulated.rows, simulated.choice
    q, count = len(simulated.running), 1 if rows is None else len(rows)
    tables, parts, every = _Tables(), _Parts(count), np.ones(count, dtype=np.bool_)
    for number, each in enumerate(_pools_inside(divided, choice)):
        entries = tables.add(each, simulated.position, choice)
        matches, size = every, int(problem.server_count.sum())
        if rows is not None and number < len(problem.guarantees):
            matching = problem.guaranteed[number].rows
            matches, size = matching[rows], int(problem.server_count[matching].sum())
        # Parts are in the order of workloads, which decides ties.
        for job in simulated.position[each.workloads].tolist():
            if job in entries:
                parts.add(job, entries[job], matches, size)
    if not choice.sees_one_pool:
        for tenant in np.flatnonzero(problem.own_servers).tolist():
            for job in range(simulated.first[tenant], simulated.stop[tenant]):
                parts.add(job, NOWHERE, every, 0)
    return tables.arrays(q), parts.arrays(q)


def _floors(problem: Problem, simulated: Simulated, pools: FloorPools, built: PartArrays) -> Floors:
    own = own_floors(problem, simulated, built)
    on_kind = np.zeros((len(built.job), built.of_kind.shape[1]))
    on_row = simulated.on_row[built.position[simulated.on_row[:, 0]] != NOWHERE]
    np.add.at(on_kind, (built.position[on_row[:, 0]], built.kind[on_row[:, 1]]), on_row[:, 2])
    size = len(built.part_job)
    # A tree of winners needs a power of two.
    leaves = 1 << max(size - 1, 0).bit_length()
    return Floors(
        pools=pools,
        own=own,
        above=np.array([problem.has_floors and not problem.count_guaranteed]),
        position=built.position,
        job=built.job,
        part_begin=built.part_begin,
        part=built.part,
        part_job=built.part_job,
        part_set=built.part_set,
        part_entry=built.part_entry,
        matches=built.matches,
        of_kind=built.of_kind,
        contains=built.contains,
        kind=built.kind,
        on_kind=on_kind,
        tasks=np.zeros(size),
        held=np.zeros(size),
        counted=simulated.running.copy(),
        # All are looked at before the next task starts.
        noted=np.ones(len(built.job), dtype=np.bool_),
        changed=np.arange(len(built.job)),
        lacks=np.zeros(size, dtype=np.bool_),
        lacking=np.zeros(size, dtype=_INT),
        chosen=np.zeros(size, dtype=_INT),
        stalled=np.zeros(size, dtype=np.bool_),
        stalled_on_own=np.zeros(size, dtype=np.bool_),
        numbers=np.array([len(built.job), 0], dtype=_INT),
        line=np.zeros(size),
        tree=np.zeros(2 * leaves),
        allowed=np.zeros(len(built.kind), dtype=np.bool_),
    )


class _Parts:
    """Parts of workloads while they are collected."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._sets: dict[bytes, int] = {}
        self._matches: list[BoolArray] = []
        # Workload, entry, set and number of servers; own servers are counted last.
        self._found: list[tuple[int, int, int, int]] = []

    def add(self, job: int, entry: int, matches: BoolArray, size: int) -> None:
        """Add a part of a workload.

        Args:
            entry: of a pool, or -1 for own servers; size: number of servers.
        """
        key = matches.tobytes()
        if key not in self._sets:
            self._sets[key] = len(self._sets)
            self._matches.append(matches)
        self._found.append((job, entry, self._sets[key], size))

    def arrays(self, q: int) -> PartArrays:
        """Return the parts as arrays.

        Args:
            q: number of workloads.
        """
        matches = np.array(self._matches, dtype=np.bool_)
        matches = matches.reshape(len(self._matches), self._rows)
        # Kinds of servers are in the order of the servers.
        kinds: dict[bytes, int] = {}
        kind = [kinds.setdefault(row.tobytes(), len(kinds)) for row in matches.T]
        first = np.unique(kind, return_index=True)[1]
        job, entry, of_set, size = np.array(self._found, dtype=_INT).reshape(-1, 4).T
        number = np.arange(len(job))
        # The smallest selection of servers first, and own servers last of all.
        by_job = np.lexsort((number, size, entry == NOWHERE, job))
        jobs, begin = np.unique(job[by_job], return_index=True)
        position = np.full(q, NOWHERE, dtype=_INT)
        position[jobs] = np.arange(len(jobs))
        return PartArrays(
            position=position,
            job=jobs.astype(_INT),
            part_begin=np.append(begin, len(job)).astype(_INT),
            part=by_job.astype(_INT),
            part_job=job.copy(),
            part_set=of_set.copy(),
            part_entry=entry.copy(),
            matches=matches,
            of_kind=np.ascontiguousarray(matches[:, first]),
            contains=np.all(matches[:, None, :] | ~matches[None, :, :], axis=2),
            kind=np.array(kind, dtype=_INT),
        )


@dataclass
class _Tables:
    """Pools of guarantees while they are collected."""

    begins: list[list[int]] = field(default_factory=lambda: [[0] * _BEGINS])
    alone: list[bool] = field(default_factory=list)
    counts: list[bool] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, pool: FloorPool, job_of: IntArray, choice: Choice) -> dict[int, int]:
        """Add a pool after those inside it, and return its entries by workload.

        Args:
            job_of: the simulation's workload of each of the problem around the pool.
        """
        jobs = job_of[pool.workloads]
        # A guarantee of one workload divides nothing.
        if pool.problem is None:
            mine = jobs[jobs != NOWHERE]
            return self._append(
                alone=True, counts=True, job=mine, share=np.ones(len(mine)),
                most=np.repeat(pool.floor, len(mine)), first=[], stop=[], weight=[], stage=[],
            )  # fmt: skip
        problem = pool.problem
        inside: list[tuple[int, int]] = []
        children: list[int] = []
        for each in _pools_inside(problem, choice):
            found = self.add(each, jobs, choice)
            if found:
                children.append(len(self.alone) - 1)
            ordered = jobs[each.workloads].tolist()
            inside += [(found[job], job) for job in ordered if job in found]
        # After those inside it: pools are computed in order, children before parents.
        entries = self._add_problem(problem, jobs, choice, inside)
        if entries:
            for child in children:
                self.parent[child] = len(self.alone) - 1
        return entries

    def _add_problem(
        self, problem: Problem, jobs: IntArray, choice: Choice, inside: Sequence[tuple[int, int]]
    ) -> dict[int, int]:
        tasks = pool_of_tasks(problem, DRF_OF_TASKS)
        share = share_per_task(problem, choice)
        reasons = tasks.reasons.copy()
        reasons[(reasons == "") & (jobs == NOWHERE)] = _LEFT_OUT
        queues = queues_of(problem, reasons, share)
        mine, base = queues.workloads, len(self.columns.get("job", []))
        entry = {int(job): base + at for at, job in enumerate(jobs[mine].tolist())}
        parts = [(child, entry[job]) for child, job in inside if job in entry]
        tree: dict[str, Any] = {}
        levels = held = 0
        gain = gains(problem, choice, share, mine)
        if problem.has_groups:
            first, second = problem.tree(0), problem.tree(1)
            node, block = blocks_of(first)
            levels, held = int(2 * block[:, 1].sum()), len(node) * gain.shape[1]
            tree = {
                "node": node.tolist(),
                "block": block.tolist(),
                "child": first.children,
                "bottom": first.bottom_up,
                "group_weight": np.stack([first.weight, second.weight], axis=1).tolist(),
            }
        return self._append(
            alone=False,
            counts=problem.count_guaranteed,
            levels=levels,
            held=held,
            job=jobs[mine],
            share=share[mine],
            most=np.full(len(mine), np.inf),
            first=queues.first + base,
            stop=queues.stop + base,
            weight=queues.weight,
            stage=queues.second_stage,
            room=tasks.room,
            demand=tasks.demand[mine].ravel(),
            gain=gain.ravel(),
            part_child=[child for child, _ in parts],
            part_entry=[own for _, own in parts],
            **tree,
        )

    def _append(
        self, *, alone: bool, counts: bool, levels: int = 0, held: int = 0, **columns: Any
    ) -> dict[int, int]:
        """Append a pool unless it has no workload, and return its entries by workload."""
        base = len(self.columns.get("job", []))
        if not len(columns["job"]):
            return {}
        for name, values in columns.items():
            self.columns.setdefault(name, []).extend(np.asarray(values).tolist())
        length = {name: len(values) for name, values in self.columns.items()}
        before = self.begins[-1]
        self.begins.append([
            *(length.get(name, 0) for name in ("job", "first", "room", "demand", "gain", "node")),
            *(length.get(name, 0) for name in ("block", "child")),
            before[8] + levels,
            before[9] + held,
            length.get("bottom", 0),
            length.get("part_child", 0),
        ])  # fmt: skip
        self.alone.append(alone)
        self.counts.append(counts)
        self.parent.append(NOWHERE)
        return {int(job): base + at for at, job in enumerate(columns["job"].tolist())}

    def arrays(self, q: int) -> FloorPools:
        """Return the pools as arrays.

        Args:
            q: number of workloads.
        """
        begin = np.array(self.begins, dtype=_INT)

        def column(name: str, kind: Any, *shape: int) -> Any:
            return np.array(self.columns.get(name, []), dtype=kind).reshape(-1, *shape)

        job = column("job", _INT)
        by_job = np.argsort(job, kind="stable").astype(_INT)
        size = np.diff(begin, axis=0).max(axis=0, initial=1)
        longest = int(max(size[0], size[1], size[11]))
        return FloorPools(
            begin=begin,
            alone=np.array(self.alone, dtype=np.bool_),
            parent=np.array(self.parent, dtype=_INT),
            counts=np.array(self.counts, dtype=np.bool_),
            job=job,
            share=column("share", np.float64),
            most=column("most", np.float64),
            first=column("first", _INT),
            stop=column("stop", _INT),
            weight=column("weight", np.float64),
            stage=column("stage", _INT),
            room=column("room", np.float64),
            demand=column("demand", np.float64),
            gain=column("gain", np.float64),
            node=column("node", _INT, 6),
            block=column("block", _INT, 3),
            child=column("child", _INT),
            bottom=column("bottom", _INT),
            group_weight=np.ascontiguousarray(column("group_weight", np.float64, 2).T),
            part_child=column("part_child", _INT),
            part_entry=column("part_entry", _INT),
            job_begin=np.searchsorted(job[by_job], np.arange(q + 1)).astype(_INT),
            job_entry=by_job,
            floor=np.zeros(len(job)),
            dirty=np.ones(len(self.alone), dtype=np.bool_),
            pending=np.zeros(q),
            level=np.zeros(begin[-1, 8]),
            held=np.zeros(begin[-1, 9]),
            left=np.zeros(size[2]),
            met=np.zeros(longest),
            launched=np.zeros(longest),
            size=np.zeros(longest),
            line=np.zeros(longest),
            tree=np.zeros(2 << max(longest - 1, 0).bit_length()),
            current=np.zeros(longest, dtype=_INT),
            passed=np.zeros(longest),
        )


def _pools_inside(problem: Problem, choice: Choice) -> list[FloorPool]:
    """Return the pools of the guarantees inside a pool."""
    if not problem.has_floors:
        return []
    classes: ServerClasses = one_class(problem) if choice.sees_one_pool else server_classes(problem)
    return pools_of(problem, classes, whole=True)
