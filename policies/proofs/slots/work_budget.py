"""How much is done before the best answer so far is taken: counted work, with the clock as a wall.

Counted work ends at the same point on every machine, so that the answer is the same; time does not.
"""

from __future__ import annotations

import time

TIME, WORK = "time", "work"
# Part of the time until the deadline that a search may take; the rest is for writing its answer.
SEARCHING = 0.85


class WorkBudgetSpentError(Exception):
    """Nothing is left to spend."""


class WorkBudget:
    """What a search may still spend.

    Attributes:
        stopped: what ran out first, ``TIME`` or ``WORK``; None while there is some left.
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
        self.stopped: str | None = None

    def spend(self, work: float) -> None:
        """Count work that was done, and stop if it was the last.

        Raises:
            WorkBudgetSpentError: nothing is left.
        """
        self._work -= work
        if self._work <= 0:
            self.stopped = self.stopped or WORK
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
            self.stopped = self.stopped or TIME
            raise WorkBudgetSpentError
        return left
