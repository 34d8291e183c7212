"""Time division beside DRF and the bound in 180 scenarios (TDA, chapter 5)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from papers.arrays import BoolArray, FloatArray
from papers.finding import Figure, Finding, Line, Row, Verdict
from papers.words import claim
from policies import Problem, solve

CAPACITY = (15.0, 15.0)
# CPU and GB of a task of user 1, then of user 2: from 1 to so many each.
MOST = (5, 2, 3, 6)
UNFAIR = 0.5
EQUAL = 1e-7

CAPACITY_OURS = (
    "The thesis does not print the capacity in chapter 5. Ours is that of its example in §3.1, 15 and "
    "15; all counts depend on it."
)
RANDOM_FIRST = (
    "Where both users have the same share the thesis picks one at random; here it is user 1. Demands "
    "are whole numbers in the order of user 1's CPU and memory, then user 2's; the thesis does not "
    "describe how it numbers scenarios."
)
EXACT = (
    f"Shares that differ by no more than {EQUAL:.0e} are equal here. How the thesis compares "
    "its numbers, which are not exact in floating point, is not stated."
)


@dataclass(frozen=True, eq=False)
class Scenarios:
    """Results of all scenarios, in their order.

    Attributes:
        drf, tda: (N, 2) dominant shares of both users, average ones under time division.
        bound: (N,) least share that no allocation exceeds.
        slots: (N,) how many slots time division takes.
    """

    drf: FloatArray
    tda: FloatArray
    bound: FloatArray
    slots: FloatArray


def scenarios() -> Scenarios:
    """Solve all of them."""
    drf, tda, bound, slots = [], [], [], []
    for demand in product(*(range(1, most + 1) for most in MOST)):
        problem = Problem.create(
            resources=("cpu", "memory"),
            capacity=[CAPACITY],
            tenants=["user 1", "user 2"],
            demand=[demand[:2], demand[2:]],
        )
        divided = solve(problem, "tda")
        if divided.schedule is None:
            raise AssertionError("time division gives a schedule")
        drf.append(solve(problem, "drf", mode="indivisible").tenant_share)
        tda.append(divided.tenant_share)
        bound.append(divided.schedule.bound)
        slots.append(float(len(divided.schedule.fraction)))
    return Scenarios(np.array(drf), np.array(tda), np.array(bound), np.array(slots))


def reproduce_scenarios() -> Finding:
    """Both figures, and the counts that the text gives."""
    found = scenarios()
    least, average = found.drf.min(axis=1), found.tda.min(axis=1)
    unlike, unlike_divided = _difference_ratio(found.drf), _difference_ratio(found.tda)
    same = _equal(average, least)
    counts = {
        "scenarios": (180, len(found.bound)),
        "TDA's least share is higher than DRF's": (164, int((~same & (average > least)).sum())),
        "the two least shares are the same": (16, int(same.sum())),
        "DRF meets the bound": (11, int(_equal(least, found.bound).sum())),
        "TDA meets the bound": (55, int(_equal(average, found.bound).sum())),
        # A ratio of 0.5 is not above it, whatever rounding made of it.
        "DRF's difference ratio is above 0.5": (56, int((unlike > UNFAIR + EQUAL).sum())),
        "TDA's difference ratio is 0": (180, int((unlike_divided <= EQUAL).sum())),
    }  # fmt: skip
    claims = {
        "TDA's least share is never below DRF's": bool((same | (average > least)).all()),
        "two slots are enough": bool((found.slots <= 2).all()),
        "nothing exceeds the bound": bool(
            (_equal(average, found.bound) | (average < found.bound)).all()
        ),
    }
    rows = [Row(what, str(paper), str(ours)) for what, (paper, ours) in counts.items()]
    rows += [claim(what, holds) for what, holds in claims.items()]
    number = tuple(float(i + 1) for i in range(len(found.bound)))
    shares = (("DRF", least), ("TDA", average), ("bound", found.bound))
    return Finding(
        name="tda-fig5",
        title="Time division against DRF in 180 scenarios",
        source="TDA thesis, 2015, Figs 5.1 and 5.2",
        setting="One server of 15 CPUs and 15 GB; a task of user 1 needs 1 to 5 CPUs and 1 or 2 GB, of "
        "user 2 1 to 3 CPUs and 1 to 6 GB, in all combinations. `tda` beside `drf`, both of whole "
        "tasks.",
        rows=tuple(rows),
        differences=(CAPACITY_OURS, RANDOM_FIRST, EXACT),
        verdict=Verdict.of([*(paper == ours for paper, ours in counts.values()), *claims.values()]),
        figures=(
            Figure(
                "tda-fig5.1", "Difference of dominant shares over the least", "scenario",
                "difference ratio",
                (Line("DRF", number, tuple(unlike.tolist())),
                 Line("TDA", number, tuple(unlike_divided.tolist()))),
            ),
            Figure(
                "tda-fig5.2", "Least average dominant share", "scenario", "dominant share",
                tuple(Line(name, number, tuple(values.tolist())) for name, values in shares),
            ),
        ),
    )  # fmt: skip


def _difference_ratio(shares: FloatArray) -> FloatArray:
    """Return the difference of both users' shares over the lesser (N,)."""
    ratio: FloatArray = (shares.max(axis=1) - shares.min(axis=1)) / shares.min(axis=1)
    return ratio


def _equal(shares: FloatArray, others: FloatArray) -> BoolArray:
    close: BoolArray = np.abs(shares - others) <= EQUAL
    return close
