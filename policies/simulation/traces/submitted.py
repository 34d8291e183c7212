"""Submitted tasks of a trace before any servers, with their tenants and kinds."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.arrays import FloatArray, IntArray, read_only
from policies.errors import ProblemTooLargeError
from policies.model.gangs import Gang
from policies.model.problem import Problem
from policies.simulation.trace import Trace
from policies.simulation.traces.lines import BadLine, LineReader

Selector = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Submitted:
    """Tasks and their kinds.

    A workload is all tasks of a tenant that demand the same. Tasks of several pieces are of another
    workload than those of one piece.

    Attributes:
        resources: (m) names.
        tenants: (t) names, in the order in which they submit first.
        workload_tenant: (n,), demand: (n, m), priority: (n,), selectors: (n) of one task of each
            workload, in the order of first submission in the file.
        trace: the tasks.
        gangs: pieces of the tasks of workloads, by index.
        left_out: tasks that the trace itself gives no time or size for, by reason.
        bad_lines: how many lines could not be read; bad: the first of them.
    """

    resources: tuple[str, ...]
    tenants: tuple[str, ...]
    workload_tenant: IntArray
    demand: FloatArray
    priority: IntArray
    selectors: tuple[Selector, ...]
    trace: Trace
    gangs: Mapping[int, Gang] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    bad_lines: int = 0
    bad: tuple[BadLine, ...] = ()

    def problem(self, capacity: npt.ArrayLike, **servers: Any) -> Problem:
        """These tenants and workloads on servers.

        Args:
            capacity: (k, m) of one server of each row.
            servers: further fields of ``Problem.create``: ``server_count``, ``server_labels``, ...

        Raises:
            ProblemError: servers that cannot be, or no tenants.
        """
        return Problem.create(
            resources=self.resources,
            capacity=capacity,
            tenants=self.tenants,
            workload_tenant=self.workload_tenant,
            demand=self.demand,
            priority=self.priority,
            selectors=self.selectors,
            gangs=self.gangs,
            **servers,
        )

    @property
    def work(self) -> FloatArray:
        """Resource × seconds (m,) of all tasks."""
        total: FloatArray = self.demand[self.trace.workload].T @ self.trace.duration
        return total


class Submitting:
    """Collects tasks line by line, in a few bytes each."""

    def __init__(self, resources: Sequence[str], most_tasks: int | None = None) -> None:
        self.resources, self.most_tasks = tuple(resources), most_tasks
        self.left_out: Counter[str] = Counter()
        # Pieces beside the first one of each task: a gang takes memory for each of its pieces.
        self._more_pieces = 0
        self._gangs: dict[int, Gang] = {}
        self._tenants: dict[str, int] = {}
        self._workloads: dict[tuple[Any, ...], int] = {}
        self._jobs: dict[Hashable, int] = {}
        self._workload, self._job = array("q"), array("q")
        self._submit, self._duration = array("d"), array("d")

    def add(
        self,
        tenant: str,
        demand: Sequence[float],
        submit: float,
        duration: float | FloatArray,
        *,
        job: Hashable,
        tasks: int = 1,
        priority: int = 0,
        selector: Selector | None = None,
        gang: Gang | None = None,
    ) -> None:
        """Add a number of alike tasks of a job, all submitted at once.

        ``duration`` is that of all tasks, or one for each.

        Args:
            demand: of one task, or with ``gang`` any values, because its sum counts.

        Raises:
            ProblemTooLargeError: more tasks or pieces than were allowed.
        """
        if gang is not None:
            demand = gang.total.tolist()
            self._more_pieces += tasks * (int(gang.count.sum()) - 1)
        count = len(self._submit) + tasks + self._more_pieces
        if self.most_tasks is not None and count > self.most_tasks:
            what = "tasks and pieces of tasks" if self._more_pieces else "tasks"
            raise ProblemTooLargeError(
                "trace.too_many_tasks", f"the trace has more than {self.most_tasks} {what}"
            )
        who = self._tenants.setdefault(tenant, len(self._tenants))
        labels = tuple(sorted((selector or {}).items()))
        kind = (who, tuple(demand), priority, labels, _key(gang))
        workload = self._workloads.setdefault(kind, len(self._workloads))
        if gang is not None:
            self._gangs.setdefault(workload, gang)
        number = self._jobs.setdefault(job, len(self._jobs))
        # Copied as bytes: a line may be a million tasks.
        for column, value in ((self._workload, workload), (self._job, number)):
            column.extend(array("q", [value]) * tasks)
        self._submit.extend(array("d", [submit]) * tasks)
        if isinstance(duration, np.ndarray):
            self._duration.frombytes(duration.astype(np.float64).tobytes())
        else:
            self._duration.extend(array("d", [duration]) * tasks)

    def done(self, reader: LineReader | None = None) -> Submitted:
        """Return everything that was added."""
        kinds = list(self._workloads)
        return Submitted(
            resources=self.resources,
            tenants=tuple(self._tenants),
            workload_tenant=read_only(np.array([kind[0] for kind in kinds], dtype=np.int64)),
            demand=read_only(
                np.array([kind[1] for kind in kinds], dtype=np.float64).reshape(
                    len(kinds), len(self.resources)
                )
            ),
            priority=read_only(np.array([kind[2] for kind in kinds], dtype=np.int64)),
            selectors=tuple(dict(kind[3]) for kind in kinds),
            trace=Trace.create(
                workload=self._workload,
                submit=self._submit,
                duration=self._duration,
                job=self._job,
            ),
            gangs=dict(self._gangs),
            left_out=dict(self.left_out),
            bad_lines=reader.bad_lines if reader else 0,
            bad=tuple(reader.bad) if reader else (),
        )


def _key(gang: Gang | None) -> tuple[Hashable, ...]:
    """Return what distinguishes gangs."""
    if gang is None:
        return ()
    kinds = zip(gang.count.tolist(), map(tuple, gang.demand.tolist()), strict=True)
    return (*kinds, gang.per_server, gang.together, gang.at_least)
