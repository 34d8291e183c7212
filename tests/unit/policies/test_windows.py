"""Windows over the past: parts of intervals, decay, and the step that always counts in full."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import History, ProblemError, solve
from policies.long_term.windows import (
    Intervals,
    Window,
    amount_decayed,
    amount_within,
    decay_factor,
)
from tests.examples import examples
from tests.unit.policies.problems import problem_of

TENANTS = 3
times = st.integers(0, 400).map(lambda quarter: quarter / 4)
lengths = st.integers(1, 100).map(lambda quarter: quarter / 4)


def intervals_of(rows):
    """From (start, length, tenant, rate of cpu, rate of memory)."""
    columns = np.array(rows, dtype=float).reshape(len(rows), 5)
    return Intervals(
        start=columns[:, 0],
        end=columns[:, 0] + columns[:, 1],
        tenant=columns[:, 2].astype(np.int64),
        rate=columns[:, 3:],
    )


some_intervals = st.lists(
    st.tuples(times, lengths, st.integers(0, TENANTS - 1), st.integers(0, 8), st.integers(0, 8)),
    max_size=6,
).map(intervals_of)


def plain(intervals, weight):
    """Quarter seconds one by one: everything above is a multiple of them."""
    total = np.zeros((TENANTS, 2))
    for start, end, tenant, rate in zip(
        intervals.start, intervals.end, intervals.tenant, intervals.rate, strict=True
    ):
        for quarter in range(round(start * 4), round(end * 4)):
            total[tenant] += rate * weight(quarter / 4, (quarter + 1) / 4)
    return total


@examples(200)
@given(intervals=some_intervals, t=times, dt=lengths, length=lengths)
def test_a_sliding_window_counts_the_part_inside(intervals, t, dt, length):
    begin = t + dt - max(length, dt)
    expected = plain(intervals, lambda a, b: (b - a) * (a >= begin and b <= t))
    window = Window.sliding(length)
    assert np.allclose(window.remembered(intervals, TENANTS, t, dt), expected, rtol=1e-12)


@examples(200)
@given(
    intervals=some_intervals,
    t=times,
    dt=lengths,
    boundaries=st.lists(times, unique=True, max_size=4).map(sorted),
)
def test_a_tumbling_window_starts_anew_at_each_boundary(intervals, t, dt, boundaries):
    begin = max((at for at in boundaries if at <= t), default=-math.inf)
    expected = plain(intervals, lambda a, b: (b - a) * (a >= begin and b <= t))
    window = Window.tumbling(boundaries)
    assert np.allclose(window.remembered(intervals, TENANTS, t, dt), expected, rtol=1e-12)


@examples(200)
@given(intervals=some_intervals, t=times, half_life=lengths)
def test_decay_is_the_integral_of_the_halving_weight(intervals, t, half_life):
    def weight(a, b):
        if b > t:
            return 0.0
        later, earlier = 2 ** (-(t - b) / half_life), 2 ** (-(t - a) / half_life)
        return (later - earlier) * half_life / math.log(2)

    expected = plain(intervals, weight)
    found = Window.decay(half_life).remembered(intervals, TENANTS, t, 1.0)
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-300)


windows = st.one_of(
    st.just(Window.unbounded()),
    lengths.map(Window.sliding),
    st.lists(times, unique=True, max_size=4).map(sorted).map(Window.tumbling),
    lengths.map(Window.decay),
)


@examples(500)
@given(one=some_intervals, other=some_intervals, window=windows, t=times, dt=lengths, cut=times)
def test_it_is_additive_over_intervals_and_over_their_parts(one, other, window, t, dt, cut):
    def remembered(intervals):
        return window.remembered(intervals, TENANTS, t, dt)

    both = remembered(one.joined(other))
    assert np.allclose(both, remembered(one) + remembered(other), rtol=1e-12, atol=1e-12)
    before, after = one.start < cut, one.end > cut
    halves = Intervals(
        start=np.concatenate([one.start[before], np.maximum(one.start, cut)[after]]),
        end=np.concatenate([np.minimum(one.end, cut)[before], one.end[after]]),
        tenant=np.concatenate([one.tenant[before], one.tenant[after]]),
        rate=np.concatenate([one.rate[before], one.rate[after]]),
    )
    assert np.allclose(remembered(halves), remembered(one), rtol=1e-9, atol=1e-9)


@examples(200)
@given(intervals=some_intervals, t=times, dt=lengths, length=lengths, half_life=lengths)
def test_going_on_from_the_last_step_gives_what_starting_over_gives(
    intervals, t, dt, length, half_life
):
    window = Window.sliding(length)
    earlier = window.remembered(intervals, TENANTS, t, dt)
    left = amount_within(intervals, TENANTS, window.start(t, dt), window.start(t + dt, dt))
    came = amount_within(intervals, TENANTS, t, t + dt)
    again = window.remembered(intervals, TENANTS, t + dt, dt)
    if length >= dt:
        assert np.allclose(earlier - left + came, again, atol=1e-9)
    decayed = amount_decayed(intervals, TENANTS, t, half_life) * decay_factor(dt, half_life)
    inside = (intervals.end > t) & (intervals.start < t + dt)
    new = Intervals(
        start=np.maximum(intervals.start, t)[inside],
        end=np.minimum(intervals.end, t + dt)[inside],
        tenant=intervals.tenant[inside],
        rate=intervals.rate[inside],
    )
    decayed = decayed + amount_decayed(new, TENANTS, t + dt, half_life)
    assert np.allclose(decayed, amount_decayed(intervals, TENANTS, t + dt, half_life), atol=1e-9)


@examples(200)
@given(intervals=some_intervals, t=times, dt=lengths)
def test_very_long_windows_are_unbounded_and_very_short_ones_memoryless(intervals, t, dt):
    everything = Window.unbounded().remembered(intervals, TENANTS, t, dt)
    for window in (Window.sliding(math.inf), Window.sliding(1e6), Window.tumbling([])):
        assert np.array_equal(window.remembered(intervals, TENANTS, t, dt), everything)
    endless = Window.decay(math.inf).remembered(intervals, TENANTS, t, dt)
    assert np.array_equal(endless, everything)
    slow = Window.decay(1e12).remembered(intervals, TENANTS, t, dt)
    assert np.allclose(slow, everything, rtol=1e-8)
    for window in (Window.sliding(0), Window.sliding(dt), Window.tumbling([t])):
        assert not window.remembered(intervals, TENANTS, t, dt).any()
    assert np.allclose(Window.decay(1e-9).remembered(intervals, TENANTS, t, dt), 0, atol=1e-7)


def test_totals_are_spread_evenly():
    spread = Intervals.of_totals(
        np.array([0.0, 5.0]), np.array([10.0, 6.0]), np.array([0, 1]), np.array([[20.0], [3.0]])
    )
    assert amount_within(spread, 2, 4.0, 5.5).tolist() == [[3.0], [1.5]]


def test_the_length_of_the_window_so_far():
    assert Window.unbounded().elapsed(10, 50, 5) == 40
    assert Window.sliding(20).elapsed(10, 50, 5) == 15
    assert Window.sliding(20).elapsed(45, 50, 5) == 5
    assert Window.sliding(3).elapsed(10, 50, 5) == 0
    assert Window.tumbling([0, 30, 52]).elapsed(10, 50, 5) == 20
    assert Window.decay(40).elapsed(10, 50, 5) == pytest.approx(20 / math.log(2))
    assert Window.decay(math.inf).elapsed(10, 50, 5) == 40


def test_an_empty_window_makes_h_mrf_memoryless():
    problem = problem_of([[10, 10]], [[1, 1], [1, 1]])
    past = intervals_of([(0, 10, 0, 8, 8), (0, 10, 1, 2, 2)])

    def tasks(window):
        used = window.remembered(past, 2, 10.0, 1.0)
        history = History(step=1.0, used=used, alone=np.zeros((2, 2)), waiting=np.zeros(2))
        return solve(problem, "h-mrf", history=history).tasks.tolist()

    assert tasks(Window.unbounded()) == [0, 10]
    assert tasks(Window.sliding(1.0)) == [5, 5]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Window.sliding(-1),
        lambda: Window.sliding(math.nan),
        lambda: Window.decay(0),
        lambda: Window.tumbling([1, 1]),
        lambda: intervals_of([(5, 0, 0, 1, 1)]),
    ],
)
def test_what_is_no_window_is_refused(make):
    with pytest.raises(ProblemError):
        make()
