"""History of a long-term policy.

For each tenant it holds the resource × time that the tenant used, and what it would have used
alone.

Source: Tang et al., TPDS 2018, §4, with the references and windows of policies §4. A history is an
input of a step. With the step added, it is part of the answer, from which the next step continues
exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import FloatArray
from policies.errors import ProblemError
from policies.model.problem import Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class History:
    """Use of each tenant over the window so far, in the order of the problem's tenants.

    Attributes
    ----------
    step : float
        ``dt``, length of the next step (in an answer: of this one), in any unit of time. All other
        amounts use the same unit.
    used : (t, m) float array
        Resource × time that was allocated.
    alone : (t, m) float array
        Resource × time that the tenant would have used in its own partition.
    waiting : (t,) float array
        Time for which the tenant has had pending tasks and received nothing.
    elapsed : float
        Length of the window so far.
    literal_alone : (t, m) float array or None
        ``alone`` by formula (2) of the paper read literally; None if it was not requested.

    References
    ----------
    Tang et al., "Long-Term Multi-Resource Fairness for Pay-as-you Use Computing Systems", IEEE TPDS,
    2018, section 4.

    Examples
    --------
    >>> from policies import History, Problem
    >>> problem = Problem.create(resources=["cpu"], capacity=[[10]], tenants=["A", "B"],
    ...     demand=[[1], [1]])
    >>> History.zeros(problem).used.tolist()
    [[0.0], [0.0]]
    """

    step: float
    used: FloatArray
    alone: FloatArray
    waiting: FloatArray
    elapsed: float = 0.0
    literal_alone: FloatArray | None = None

    def __post_init__(self) -> None:
        check_positive(self.step)
        tenants, resources = self.used.shape[:1], self.used.shape
        expected = [("used", self.used, resources), ("alone", self.alone, resources)]
        expected += [("waiting", self.waiting, tenants)]
        if self.literal_alone is not None:
            expected += [("literal_alone", self.literal_alone, resources)]
        for what, values, shape in expected:
            if values.shape != shape:
                raise ProblemError(
                    "history.shape",
                    f"{what} has shape {values.shape}; it needs {shape}",
                    "/history",
                )
            check_amounts(what, values, "/history")
            # Degrees are computed once, and would be wrong after a change.
            values.setflags(write=False)
        check_amounts("elapsed", np.array([self.elapsed]), "/history/elapsed")

    @classmethod
    def zeros(cls, problem: Problem, step: float = 1.0) -> History:
        """Return an empty history, at the start of a window."""
        shape = (problem.t, problem.m)
        return cls(
            step=step, used=np.zeros(shape), alone=np.zeros(shape), waiting=np.zeros(problem.t)
        )

    @cached_property
    def sharing_degrees(self) -> FloatArray:
        """Sharing degrees ``β[i, r] = used / alone`` (t, m), NaN where ``alone`` is 0.

        Source: paper, formula (2).
        """
        return sharing_degrees(self.used, self.alone)

    @cached_property
    def sharing_degree(self) -> FloatArray:
        """Sharing degree ``β[i]`` of each tenant (t,), the least over the resources.

        NaN for a tenant without any ``alone``. Source: paper, formula (3).
        """
        return least_degree(self.sharing_degrees)


def sharing_degrees(used: FloatArray, alone: FloatArray) -> FloatArray:
    """Return ``used / alone``, with NaN where ``alone`` is 0."""
    degrees = np.full(used.shape, np.nan)
    # What overflows is cut to the largest number below, since JSON has no infinity.
    with np.errstate(over="ignore"):
        np.divide(used, alone, out=degrees, where=alone > 0)
    finite: FloatArray = np.minimum(degrees, np.finfo(np.float64).max)
    return finite


def least_degree(degrees: FloatArray) -> FloatArray:
    """Return the least number of each row (t,) of degrees (t, m).

    NaN for a row without a number.
    """
    least = np.where(np.isnan(degrees), np.inf, degrees).min(axis=1, initial=np.inf)
    return np.where(np.isinf(least), np.nan, least)


def check_history_fits(problem: Problem, history: History) -> None:
    """Raise ProblemError unless the history has a row per tenant and a column per resource."""
    if history.used.shape != (problem.t, problem.m):
        raise ProblemError(
            "history.shape",
            f"the history has shape {history.used.shape}; the problem's tenants and resources "
            f"need {(problem.t, problem.m)}",
            "/history",
        )


def check_positive(step: float) -> None:
    """Raise ProblemError unless the step is a number above 0."""
    if not (np.isfinite(step) and step > 0):
        raise ProblemError(
            "history.step", f"step is {step}; it must be a number above 0", "/history/step"
        )


def check_amounts(what: str, values: FloatArray, pointer: str) -> None:
    """Raise ProblemError unless every amount is a number, 0 or more."""
    wrong = values[~(np.isfinite(values) & (values >= 0))]
    if len(wrong):
        raise ProblemError(
            "history.amount", f"{what} is {wrong[0]}; it must be a number, 0 or more", pointer
        )
