"""Request to a policy's solver."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from policies.errors import PolicyError
from policies.model.allocation import Allocation
from policies.model.current_placements import CurrentPlacements
from policies.model.history import History
from policies.model.policy import Choice
from policies.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Request:
    """A problem, and how it is to be solved.

    Attributes
    ----------
    problem : Problem
        Without selectors where the policy sees the pool as one server.
    choice : Choice
        The policy with its mode and options, checked against its schema.
    history : History or None
        State of a long-term policy before the step; None for memoryless policies.
    deadline : float or None
        ``time.monotonic()`` seconds at which to give up.
    kept : CurrentPlacements or None
        Where the guaranteed parts of workloads run that are kept; None for policies that do not place.

    Examples
    --------
    >>> from policies import Problem, Request, choose
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A"], demand=[[1]])
    >>> Request(problem, choose("tda")).option("pack")
    False
    """

    problem: Problem
    choice: Choice
    history: History | None = None
    deadline: float | None = None
    kept: CurrentPlacements | None = None

    def option(self, name: str) -> Any:
        """Return the value of an option, or its default.

        None if it has neither.
        """
        return self.choice.option(name)


def deadline_of(time_limit: float | None) -> float | None:
    """Return the ``time.monotonic()`` seconds at which a time limit that starts now ends.

    None without a limit.

    Raises:
        PolicyError: the limit is not greater than 0 (``solve.time_limit``).
    """
    if time_limit is None:
        return None
    if not time_limit > 0:
        raise PolicyError(
            "solve.time_limit",
            f"the time limit must be greater than 0 seconds, got {time_limit}; None is no limit",
        )
    return time.monotonic() + time_limit


Solver = Callable[[Request], Allocation]
