"""Nothing is a little too full: exact questions, and every answer put to them in fractions."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import policies_available, solve, verify
from policies.model.quantities import NOTHING, as_read, whole_quantities
from policies.proofs import exact_signs
from policies.verification import exact
from tests.examples import examples
from tests.references.exact import broken, decimals, exact_problems
from tests.unit.policies.problems import problem_of, problems

EVERY = [(info.name, mode) for info in policies_available() for mode in info.modes]
OPTIONS = {
    "drfh": [{}, {"share": "alone"}],
    "tda": [{}, {"pack": True}],
    "h-mrf": [{}, {"placement": "pool"}],
}
ONE_POOL = ("drf", "asset", "ceei", "single-resource", "slots", "tda")

difficult = st.sampled_from(
    [
        *(0.0, 0.1, 0.2, 0.3, 1.0, 1 - 2**-53, 1 + 2**-52, 3.0, 1 / 3, 5 / 7, 1e16),
        *(5e-324, 2.0**-1022, 1e-300, 1e300, 1.7e308, 2.0**-520, 2.0**-537, 2.0**600),
    ]
)
numbers = st.one_of(difficult, st.floats(allow_nan=False, allow_infinity=False))
signed = st.tuples(numbers, st.sampled_from([1.0, -1.0])).map(lambda pair: pair[0] * pair[1])
products = st.lists(st.tuples(signed, numbers, st.integers(0, 2)), max_size=12)


def by_fractions(terms, groups):
    sums = [Fraction(0)] * groups
    for a, b, group in terms:
        sums[group] += Fraction(a) * Fraction(b)
    return [(value > 0) - (value < 0) for value in sums]


# The solvers' arithmetic, compiled, and the verifier's, plain.
ARITHMETIC = pytest.mark.parametrize("arithmetic", [exact_signs, exact])


def signs(arithmetic, terms, groups):
    a, b, group = zip(*terms, strict=True) if terms else ((), (), ())
    return arithmetic.signs_of_sums(
        np.array(a, dtype=float), np.array(b, dtype=float), np.array(group, dtype=np.int64), groups
    ).tolist()


@ARITHMETIC
@examples(2000)
@given(terms=products)
def test_signs_of_sums_are_those_of_fractions(arithmetic, terms):
    assert signs(arithmetic, terms, 3) == by_fractions(terms, 3)


@ARITHMETIC
@examples(2000)
@given(terms=products, data=st.data())
def test_sums_that_cancel_but_for_the_last_bit_of_one_term(arithmetic, terms, data):
    negated = [(-a, b, group) for a, b, group in data.draw(st.permutations(terms))]
    both = terms + negated
    assert signs(arithmetic, both, 3) == [0, 0, 0]
    if both:
        i = data.draw(st.integers(0, len(both) - 1))
        a, b, group = both[i]
        both[i] = (float(np.nextafter(a, data.draw(st.sampled_from([-2.0, 2.0])))), b, group)
        assert signs(arithmetic, both, 3) == by_fractions(both, 3)


@ARITHMETIC
@examples(500)
@given(
    tasks=st.lists(st.floats(0, 1e6), min_size=1, max_size=50),
    ulps=st.sampled_from([-1, 0, 1]),
    data=st.data(),
)
def test_a_sum_that_meets_a_capacity_to_the_last_bit(arithmetic, tasks, ulps, data):
    demand = data.draw(st.lists(difficult, min_size=len(tasks), max_size=len(tasks)))
    total = sum(
        (Fraction(a) * Fraction(b) for a, b in zip(tasks, demand, strict=True)), Fraction(0)
    )
    capacity = float(total) if total < 2**1023 else 2.0**1023
    for _ in range(abs(ulps)):
        capacity = float(np.nextafter(capacity, ulps * np.inf))
    if not np.isfinite(capacity):
        return
    one = np.zeros(len(tasks), dtype=np.int64)
    over = arithmetic.exceeds(np.array(tasks), np.array(demand), one, np.array([capacity]))
    assert over.tolist() == [total > Fraction(capacity)]


@ARITHMETIC
def test_what_is_not_a_number_has_no_exact_sum(arithmetic):
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite"):
            signs(arithmetic, [(value, 1.0, 0)], 1)
        with pytest.raises(ValueError, match="finite"):
            signs(arithmetic, [(0.0, value, 0)], 1)


@examples(500)
@given(drawn=exact_problems())
def test_quantities_are_read_as_multiples_of_what_they_stand_for(drawn):
    """All by one factor per resource, or else as the float64 numbers that they are."""
    problem, demand, capacity = drawn
    read_demand, read_capacity, _ = as_read(problem, NOTHING)
    served = ~(problem.resource_absent | problem.out_of_range)
    for r in range(problem.m):
        given_ = [row[r] for row, serve in zip(demand, served, strict=True) if serve]
        given_ += [row[r] for row in capacity]
        read = [*read_demand[served, r].tolist(), *read_capacity[:, r].tolist()]
        factors = {
            Fraction(b) / a for a, b in zip(given_, read, strict=True) if a or Fraction(b) != a
        }
        assert len(factors) <= 1


@examples(500)
@given(
    demand=st.lists(st.floats(1e-3, 10), min_size=1, max_size=5),
    capacity=st.lists(st.floats(1e-3, 10), min_size=1, max_size=5),
)
def test_without_a_common_unit_tasks_are_rounded_up_and_servers_down(demand, capacity):
    largest = np.array([max(capacity)])
    whole = whole_quantities(np.array(demand)[:, None], np.array(capacity)[:, None], largest)
    if whole.common[0]:
        return
    unit = Fraction(float(whole.capacity.max())) / Fraction(max(capacity))
    assert all(
        Fraction(a) >= Fraction(b) * unit
        for a, b in zip(whole.demand[:, 0].tolist(), demand, strict=True)
        if b <= max(capacity)
    )
    assert all(
        Fraction(a) <= Fraction(b) * unit
        for a, b in zip(whole.capacity[:, 0].tolist(), capacity, strict=True)
    )


@examples(500)
@given(numbers=st.lists(st.integers(2**51, 2**52), min_size=1, max_size=5))
def test_decimals_of_sixteen_digits_are_read_as_written(numbers):
    """Of the rounded product with 10^15 another whole number may be the nearest."""
    values = np.array([number / 10**15 for number in numbers])
    whole = whole_quantities(values[:, None], values[:, None], values.max(keepdims=True))
    assert whole.common.all()
    unit = Fraction(float(whole.demand[0, 0])) / numbers[0]
    for read in (whole.demand, whole.capacity):
        assert [Fraction(x) for x in read[:, 0].tolist()] == [unit * number for number in numbers]


def answers(problem, policy, mode):
    for options in OPTIONS.get(policy, [{}]):
        yield solve(problem, policy, mode=mode, options=options)


@pytest.mark.parametrize(("policy", "mode"), EVERY)
@examples(250)
@given(data=st.data())
def test_every_answer_fits_in_fractions(policy, mode, data):
    problem = data.draw(problems(selectors=policy not in (*ONE_POOL, "h-mrf"), max_tenants=3))
    for answer in answers(problem, policy, mode):
        wrong = broken(problem, answer, decimals(problem.demand), decimals(problem.capacity))
        assert list(wrong) == []


@pytest.mark.parametrize(("policy", "mode"), EVERY)
@examples(250)
@given(data=st.data())
def test_every_answer_fits_what_difficult_quantities_stand_for(policy, mode, data):
    """Also where tasks need thousands of times what there is."""
    drawn = data.draw(exact_problems(selectors=policy not in (*ONE_POOL, "h-mrf")))
    for answer in answers(drawn[0], policy, mode):
        assert list(broken(answer.problem, answer, *drawn[1:])) == []
        verification = verify(answer.problem, answer)
        assert verification.valid, [check for check in verification.checks if not check.holds]


SERVERS = {
    "drfh": ([[1.1, 3], [0.7, 7]], [[0.1, 0.3], [0.3, 0.1]], {"server_count": [3, 2]}),
    "drf": ([[1.1, 3.3]], [[0.1, 0.7], [0.3, 0.1]], {}),
    "asset": ([[1.1, 3.3]], [[0.1, 0.7], [0.3, 0.1]], {}),
}


@pytest.mark.parametrize("policy", sorted(SERVERS))
def test_the_next_larger_number_of_tasks_is_refused_where_a_server_is_full(policy):
    """Enlarged until it is over in fractions, one unit in the last place at a time: that one is."""
    capacity, demand, fields = SERVERS[policy]
    problem = problem_of(capacity, demand, **fields)
    answer = solve(problem, policy)
    column = "placement_tasks" if len(answer.placement_tasks) else "tasks"
    read = decimals(problem.demand), decimals(problem.capacity)
    values, refused = getattr(answer, column).copy(), 0
    for i in range(len(values)):
        for _ in range(40):
            values[i] = np.nextafter(values[i], np.inf)
            changed = replace(answer, **{column: values.copy()})
            over = {check.name for check in verify(problem, changed).checks if not check.holds}
            if list(broken(problem, changed, *read)):
                assert over & {"pool_capacity", "server_capacity"}
                refused += 1
                break
            assert not over
        values = getattr(answer, column).copy()
    assert refused > 0


def test_a_whole_task_too_many_by_a_unit_in_the_last_place_does_not_fit():
    for capacity, tasks in ((0.3, 3), (float(np.nextafter(0.3, 0)), 2), (5.0, 9)):
        demand = 5 / 9 if capacity == 5.0 else 0.1
        for policy in ("drf", "drfh", "static"):
            problem = problem_of([[capacity]], [[demand]], contributed_by=[0])
            assert solve(problem, policy, mode="indivisible").tasks.tolist() == [tasks]
            answer = solve(problem, policy, mode="indivisible")
            more = replace(answer, tasks=answer.tasks + 1)
            assert not verify(problem, more).valid


def test_a_limit_exceeded_by_a_unit_in_the_last_place_is_found():
    problem = problem_of([[10, 10]], [[1, 1], [1, 2]], tasks=[3, 2])
    for policy in ("drf", "drfh", "ceei"):
        answer = solve(problem, policy)
        assert (answer.tasks <= problem.tasks).all()
        more = replace(answer, tasks=np.nextafter(problem.tasks, np.inf))
        names = [check.name for check in verify(problem, more).checks if not check.holds]
        assert names == ["task_limits"]


def test_what_fits_to_the_last_bit_fits():
    """9 CPUs, and 18 of tenths; float64 0.1 and 0.2 are both more than a tenth and two tenths."""
    problem = problem_of([[9, 1.8]], [[1, 0.4], [3, 0.1]])
    answer = replace(solve(problem, "drf"), tasks=np.array([3.0, 2.0]))
    assert verify(problem, answer).valid
    problem = problem_of([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]])
    answer = solve(problem, "drfh")
    tens = replace(answer, tasks=np.array([10.0, 10.0]), placement_tasks=np.array([10.0, 10.0]))
    assert verify(problem, tens).valid
