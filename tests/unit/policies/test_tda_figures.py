"""Time division: the worked figures of the thesis, exactly."""

from fractions import Fraction

import numpy as np
import pytest

from policies import solve, verify
from tests.references.time_division import equal_shares_optimum, saturated_allocations
from tests.unit.policies.problems import problem_of


def example(**fields):
    return problem_of([[15, 15]], [[5, 2], [3, 3.5]], **fields)


def test_the_example_s_saturated_allocations():
    columns, _ = saturated_allocations(example())
    assert columns == [(0, 4), (1, 3), (2, 1), (3, 0)]


def test_drf_gives_a_third_and_equal_halves_seven_fifteenths():
    drf = solve(example(), "drf", mode="indivisible")
    assert drf.tasks.tolist() == [1, 3]
    assert drf.weighted_share.min() == pytest.approx(5 / 15, abs=1e-14)
    halves = np.array([0.5, 0.5]) @ np.array([[3, 0], [0, 4]]) * [5 / 15, 3.5 / 15]
    assert halves.min() == pytest.approx(7 / 15, abs=1e-14)


def test_the_optimum_of_the_example_is_21_41():
    answer = solve(example(), "tda")
    schedule = answer.schedule
    assert answer.objective == pytest.approx(21 / 41, abs=1e-14)
    assert schedule.lp_bound == pytest.approx(21 / 41, abs=1e-14)
    assert schedule.bound == pytest.approx(7 / 13, abs=1e-14)
    assert schedule.gap <= 1e-14
    assert schedule.tasks.tolist() == [[3, 0], [1, 3]]
    assert schedule.fraction == pytest.approx([11 / 41, 30 / 41], abs=1e-14)
    assert answer.tasks == pytest.approx([63 / 41, 90 / 41], abs=1e-14)
    assert answer.weighted_share == pytest.approx([21 / 41, 21 / 41], abs=1e-14)
    assert verify(answer.problem, answer).valid
    columns, _ = saturated_allocations(example())
    exactly = equal_shares_optimum(columns, (Fraction(5, 15), Fraction(7, 30)))
    assert exactly == Fraction(21, 41)


PAIRS = [
    ((a, b), (c, d))
    for a in range(1, 6)
    for b in range(1, 3)
    for c in range(1, 4)
    for d in range(1, 7)
]


def test_the_180_pairs_of_chapter_5():
    better = same = drf_meets = tda_meets = 0
    for first, second in PAIRS:
        problem = problem_of([[15, 15]], [first, second])
        divided, filled = solve(problem, "tda"), solve(problem, "drf", mode="indivisible")
        shares = divided.weighted_share
        assert shares[0] == pytest.approx(shares[1], abs=1e-12)
        least = filled.weighted_share.min()
        better += divided.objective > least + 1e-9
        same += abs(divided.objective - least) <= 1e-9
        columns, _ = saturated_allocations(problem)
        per_task = [Fraction(max(demand), 15) for demand in (first, second)]
        exactly = equal_shares_optimum(columns, per_task)
        assert divided.objective == pytest.approx(float(exactly), abs=1e-13)
        bound = 1 / max(
            sum(Fraction(demand[r], max(demand)) for demand in (first, second)) for r in (0, 1)
        )
        assert divided.schedule.bound == pytest.approx(float(bound), abs=1e-12)
        drf_meets += abs(least - bound) <= 1e-9
        tda_meets += exactly == bound
        assert len(divided.schedule.fraction) <= 2
    assert (len(PAIRS), better, same, drf_meets, tda_meets) == (180, 162, 18, 11, 90)
