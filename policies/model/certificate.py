"""Optimality certificate of an allocation.

It consists of the rounds of the leximin, each with the prices that prove its level.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Round:
    """One round of the leximin.

    Attributes:
        stage: 0 for tenants served first, 1 for those that share what is left.
        level: weighted level at which the round's stuck tenants were frozen.
        bound: no allocation lifts the least level of the round above it.
        prices: (K, m) price of each class's resources, per share of the pool.
        mix_prices: (k, m) of CEEI's second stage: prices that prove its first stage's mix of workloads,
            where those of the rounds do not.
        proven: True if the prices prove that no tenant frozen here can have more. Time division
            leaves rounds open where the search for slots ends early, leximins of divisible tasks
            where rounding hides what is left.
    """

    stage: int
    level: float
    bound: float
    prices: FloatArray
    proven: bool = True
    mix_prices: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Certificate:
    """The rounds of a leximin in order, and the round in which each tenant was frozen.

    Attributes
    ----------
    rounds : tuple of Round
        In the order in which they were solved, each with its level, bound and prices.
    frozen_in : (t,) int array
        Index into ``rounds``; -1 for tenants with nothing to run.
    divisible : (K, m) float array or None
        Of a time-sharing policy: prices that prove the bound of divisible tasks.

    Examples
    --------
    >>> from policies import Problem, solve
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> certificate = solve(problem, "drf").certificate
    >>> [round(item.level, 6) for item in certificate.rounds], certificate.frozen_in.tolist()
    ([0.666667], [0, 0])
    """

    rounds: tuple[Round, ...]
    frozen_in: IntArray
    divisible: FloatArray | None = None
