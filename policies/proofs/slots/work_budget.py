"""Limit of the work that a search may do before its best answer is returned.

Work is counted, so that a search ends at the same point, with the same answer, on every machine. A
deadline can end it earlier.
"""

from __future__ import annotations

import time

from policies.model.solver_status import SolverStatus

# Part of the time until the deadline that a search may take; the rest is for writing its answer.
SEARCHING = 0.85


class WorkBudgetSpentError(Exception):
    """Nothing is left to spend."""


class WorkBudget:
    """Rest of the work that a search may do.

    Attributes:
        stopped: ``TIME_LIMIT`` or ``WORK_LIMIT``, whichever came first; None while there is some left.
    """

    def __init__(self, deadline: float | None, work: float) -> None:
        """Start counting.

        Args:
            deadline: ``time.monotonic()`` seconds at which the answer is due, or None.
            work: steps of innermost loops, about a nanosecond each.
        """
        now = time.monotonic()
        self._stop = None if deadline is None else now + SEARCHING * (deadline - now)
        self._work = work
        self.stopped: SolverStatus | None = None

    def spend(self, work: float) -> None:
        """Count work that was done, and stop if it was the last.

        Raises:
            WorkBudgetSpentError: nothing is left.
        """
        self._work -= work
        if self._work <= 0:
            self.stopped = self.stopped or SolverStatus.WORK_LIMIT
            raise WorkBudgetSpentError
        self.seconds_left()

    def seconds_left(self) -> float | None:
        """Seconds until the search has to stop, or None without a limit.

        Raises:
            WorkBudgetSpentError: none are left.
        """
        if self._stop is None:
            return None
        left = self._stop - time.monotonic()
        if left <= 0:
            self.stopped = self.stopped or SolverStatus.TIME_LIMIT
            raise WorkBudgetSpentError
        return left
