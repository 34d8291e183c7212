"""What a simulation is driven by: which task was submitted when, and how long it runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.arrays import BoolArray, FloatArray, IntArray, read_only
from policies.errors import ProblemError


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """Tasks in any order; build it with :meth:`create`.

    Attributes:
        workload: (N,) index of the problem's workload that each task is one of; it says whose the
            task is and what it demands.
        submit: (N,) seconds, from any origin, at which it arrives.
        duration: (N,) seconds that it runs once it has begun, above 0.
    """

    workload: IntArray
    submit: FloatArray
    duration: FloatArray

    @classmethod
    def create(
        cls, *, workload: npt.ArrayLike, submit: npt.ArrayLike, duration: npt.ArrayLike
    ) -> Trace:
        """Read-only columns of numbers.

        Args:
            workload, submit, duration: (N,) as the attributes say.

        Raises:
            ProblemError: columns of different lengths, a time that is not finite, a duration
                that is not above 0.
        """
        columns = (
            np.array(workload, dtype=np.int64),
            np.array(submit, dtype=np.float64),
            np.array(duration, dtype=np.float64),
        )
        count = columns[0].size
        if any(column.shape != (count,) for column in columns):
            raise ProblemError(
                "trace.shape",
                "a trace needs one workload, time of submission and duration for each task; found "
                + ", ".join(str(column.shape) for column in columns),
            )
        _refuse_any(~np.isfinite(columns[1]), columns[1], "submit", "a finite number")
        usable = np.isfinite(columns[2]) & (columns[2] > 0)
        _refuse_any(~usable, columns[2], "duration", "a finite number above 0")
        return cls(
            workload=read_only(columns[0]),
            submit=read_only(columns[1]),
            duration=read_only(columns[2]),
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
