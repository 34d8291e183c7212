"""Input of a simulation, with the submission time and duration of each task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.arrays import BoolArray, FloatArray, IntArray, read_only
from policies.errors import ProblemError


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """Tasks in any order.

    Build it with :meth:`create`.

    Attributes:
        workload: (N,) index of the problem's workload that each task is one of; the workload
            determines the tenant and the demand of the task.
        submit: (N,) seconds, from any origin, at which it arrives.
        duration: (N,) seconds that it runs once it has begun, above 0.
        job: (N,) number of the job that it is a part of, from 0 on; a job ends with its last task.
    """

    workload: IntArray
    submit: FloatArray
    duration: FloatArray
    job: IntArray

    @classmethod
    def create(
        cls,
        *,
        workload: npt.ArrayLike,
        submit: npt.ArrayLike,
        duration: npt.ArrayLike,
        job: npt.ArrayLike | None = None,
    ) -> Trace:
        """Read-only columns of numbers.

        Args:
            workload, submit, duration, job: (N,) as in the attributes; every task is a job of its
                own unless ``job`` is given.

        Raises:
            ProblemError: columns of different lengths, a time that is not finite, a duration
                that is not above 0, a job below 0.
        """
        columns = (
            # Copies, so that freezing them does not freeze arrays of the caller.
            np.array(workload, dtype=np.int64),
            np.array(submit, dtype=np.float64),
            np.array(duration, dtype=np.float64),
            np.arange(np.size(workload)) if job is None else np.array(job, dtype=np.int64),
        )
        count = columns[0].size
        if any(column.shape != (count,) for column in columns):
            raise ProblemError(
                "trace.shape",
                "a trace needs one workload, time of submission and duration for each task; found "
                + ", ".join(str(column.shape) for column in columns[: 3 if job is None else 4]),
            )
        _refuse_any(~np.isfinite(columns[1]), columns[1], "submit", "a finite number")
        usable = np.isfinite(columns[2]) & (columns[2] > 0)
        _refuse_any(~usable, columns[2], "duration", "a finite number above 0")
        if count and columns[3].min() < 0:
            task = int(np.flatnonzero(columns[3] < 0)[0])
            raise ProblemError(
                "trace.job", f"job of task {task} is {columns[3][task]}; jobs are counted from 0"
            )
        return cls(
            workload=read_only(columns[0]),
            submit=read_only(columns[1]),
            duration=read_only(columns[2]),
            job=read_only(columns[3]),
        )

    @property
    def tasks(self) -> int:
        """Number of tasks ``N``."""
        return len(self.submit)

    def part(self, tasks: IntArray) -> Trace:
        """Some of the tasks."""
        # Not through `create`: parts of checked columns need no further check.
        return Trace(
            workload=self.workload[tasks],
            submit=self.submit[tasks],
            duration=self.duration[tasks],
            job=self.job[tasks],
        )

    def check_workloads(self, count: int) -> None:
        """Raise ProblemError unless every task is one of ``count`` workloads."""
        known = (self.workload >= 0) & (self.workload < count)
        if not known.all():
            task = int(np.flatnonzero(~known)[0])
            raise ProblemError(
                "trace.workload",
                f"task {task} is of workload {self.workload[task]}; the problem has {count}, "
                "counted from 0",
            )


def _refuse_any(wrong: BoolArray, values: FloatArray, what: str, right: str) -> None:
    if wrong.any():
        task = int(np.flatnonzero(wrong)[0])
        raise ProblemError(
            "trace.time", f"{what} of task {task} is {values[task]}; it must be {right}"
        )
