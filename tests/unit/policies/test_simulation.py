"""Simulated pools: against a reference in fractions, and what holds whatever the policy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import PolicyError, Window
from policies.long_term.windows import amount_within
from policies.model.history import least_degree, sharing_degrees
from policies.simulation import POLICIES, ServerChanges, Trace, simulate
from tests.examples import examples
from tests.references.simulation import LONG_TERM, ONE_POOL, Simulated
from tests.unit.policies.drawn_traces import changes_of, plain, traces, windows
from tests.unit.policies.problems import problem_of, problems


@st.composite
def instances(draw, case=("drf", {})):
    policy, options = case
    one_pool = policy in (*ONE_POOL, "slots") or options.get("placement") == "pool"
    problem = draw(problems(max_servers=2, selectors=not one_pool))
    step = draw(st.sampled_from([0.25, 1, 3]))
    until = draw(st.sampled_from([math.inf, math.inf, 4]))
    changes = ServerChanges.none()
    if policy not in ("static", "dedicated") and draw(st.booleans()):
        changes = draw(changes_of(int(problem.server_count.sum())))
    window = draw(windows) if policy in LONG_TERM else Window.unbounded()
    return problem, draw(traces(problem.n)), window, step, until, changes


CASES = [
    *[(policy, {}) for policy in POLICIES],
    *[(policy, {"placement": "pool"}) for policy in LONG_TERM],
    *[
        ("drfh", {"placement": rule, "seed": 5})
        for rule in ("first-fit", "affinity", "two-choices")
    ],
    ("drfh", {"share": "alone"}),
    ("h-mrf", {"starvation_timeout": 2.0}),
    ("lt-drf", {"starvation_timeout": 1, "placement": "pool"}),
    ("slots", {"slots_per_largest_server": 3}),
    ("dedicated", {"seed": 9}),
]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: "-".join([case[0], *map(str, case[1].values())])
)
@examples(300)
@given(data=st.data())
def test_it_does_what_the_page_says(case, data):
    problem, trace, window, step, until, changes = data.draw(instances(case))
    policy, options = case
    found = simulate(
        problem, trace, policy, options=options, window=window, step=step, until=until,
        changes=changes,
    )  # fmt: skip
    moves = list(
        zip(changes.time.tolist(), changes.server.tolist(), changes.joins.tolist(), strict=True)
    )
    expected = Simulated(problem, trace, policy, window, step, until, options, moves)
    assert np.array_equal(found.start, plain(expected.start), equal_nan=True)
    ends = [end if end is not None and end <= until else None for end in expected.end]
    assert np.array_equal(found.end, plain(ends), equal_nan=True)
    assert found.server.tolist() == expected.numbers()
    for which, amounts in enumerate((found.used, found.alone)):
        rows = [
            [float(expected.total(which, i, r)) for r in range(problem.m)] for i in range(problem.t)
        ]
        assert np.allclose(amounts, np.reshape(rows, amounts.shape), rtol=1e-12, atol=0)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "dedicated"])
@examples(300)
@given(data=st.data())
def test_what_is_used_is_tasks_times_demand_times_run_time(policy, data):
    problem, trace, window, step, until, _ = data.draw(instances((policy, {})))
    found = simulate(problem, trace, policy, window=window, step=step, until=until)
    ran = np.nan_to_num(np.minimum(found.start + trace.duration, found.ended) - found.start)
    amount = problem.demand[trace.workload] * ran[:, None]
    used = np.zeros((problem.t, problem.m))
    np.add.at(used, problem.workload_tenant[trace.workload], amount)
    assert np.allclose(found.used, used, rtol=1e-12, atol=1e-12)
    times, in_use = found.utilisation
    assert (in_use <= 1 + 1e-9).all()
    if len(times):
        assert np.allclose(in_use[-1], 0, atol=1e-12)
        area = (np.diff(times)[:, None] * in_use[:-1]).sum(axis=0) * problem.totals
        assert np.allclose(area, used.sum(axis=0), rtol=1e-9)


@examples(300)
@given(instance=instances(("lt-drf", {})))
def test_a_window_of_nothing_makes_lt_drf_memoryless(instance):
    problem, trace, _, step, until, _ = instance
    if len(set(problem.workload_tenant.tolist())) < problem.n:
        return  # with several workloads drf sums dominant shares, lt-drf vectors
    short = simulate(problem, trace, "lt-drf", window=Window.sliding(0), step=step, until=until)
    long = simulate(problem, trace, "lt-drf", window=Window.sliding(step), step=step, until=until)
    assert np.array_equal(short.start, long.start, equal_nan=True)


def two_tenants(policy, **options):
    """10 cores; A has used all of them for 10 s when B comes, with tasks of a second each."""
    problem = problem_of([[10.0]], [[1.0], [1.0]])
    trace = Trace.create(
        workload=[0] * 110 + [1] * 100,
        submit=[0] * 110 + [10] * 100,
        duration=[1] * 210,
    )
    return simulate(problem, trace, policy, **options), trace


@pytest.mark.parametrize("policy", ["h-mrf", "lt-drf", "lt-af"])
def test_who_lent_gets_it_back(policy):
    found, trace = two_tenants(policy)
    # B has used nothing: all ten cores until its 100 tasks are done, then A's last ten.
    assert found.end[trace.workload == 1].max() == 20
    assert found.end[trace.workload == 0].max() == 21
    assert found.used.tolist() == [[110], [100]]


def test_drf_forgets_what_was_lent():
    found, trace = two_tenants("drf")
    # Five cores each from second 10 on: A's ten take two seconds, B goes on alone.
    assert found.end[trace.workload == 0].max() == 12
    assert found.end[trace.workload == 1].max() == 21


def test_a_window_that_has_passed_is_forgotten_as_well():
    found, trace = two_tenants("lt-drf", window=Window.tumbling([10]))
    assert found.end[trace.workload == 0].max() == 12
    kept, _ = two_tenants("lt-drf", window=Window.tumbling([5]))
    # A has used 50 core-seconds since; B as many at second 15, from when on it is five each.
    assert kept.end[trace.workload == 0].max() == 17


def test_what_is_measured_of_two_tenants():
    found, trace = two_tenants("h-mrf")
    assert found.mean_utilisation.tolist() == [1]
    times, in_use = found.utilisation
    assert (times[0], times[-1]) == (0, 21)
    assert in_use[:-1].tolist() == [[1.0]] * (len(times) - 1)
    # Alone A would have run 5 at a time as long as it had any: 10 s and, pending, 11 s more.
    assert found.alone.tolist() == [[5 * 21], [5 * 10]]
    assert found.sharing_degree.tolist() == [110 / 105, 2]
    assert found.completed.tolist() == [1, 1]
    assert found.waiting[:3].tolist() == [0, 0, 0]
    assert found.completion[trace.workload == 0].max() == 21
    assert found.dominant_shares_at([9.5, 10.5, 20.5]).tolist() == [[1, 0], [0, 1], [1, 0]]
    degrees = found.sharing_degrees_at([10, 20])
    assert degrees[0].tolist() == pytest.approx([2, math.nan], nan_ok=True)
    assert degrees[1].tolist() == [1, 2]


def test_sharing_degrees_over_time_are_those_of_the_intervals_until_then():
    """Read in one pass; the plain way sums all intervals for each time."""
    random = np.random.default_rng(3)
    problem = problem_of([[9.0, 7.0]], [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [3.0, 0.0]])
    trace = Trace.create(
        workload=random.integers(3, size=90),  # the last tenant submits nothing
        submit=np.sort(random.uniform(0, 60, 90)),
        duration=random.uniform(1, 9, 90),
    )
    found = simulate(problem, trace, "drf")
    times = [-1.0, 0.0, *random.uniform(0, 99, 40), *found.changed_at[:40], found.ended, math.inf]
    for at, degrees in zip(times, found.sharing_degrees_at(times), strict=True):
        used = amount_within(found.used_intervals, problem.t, end=at)
        alone = amount_within(found.alone_intervals, problem.t, end=at)
        plain = least_degree(sharing_degrees(used, alone))
        assert np.array_equal(degrees, plain, equal_nan=True), at
    assert found.sharing_degrees_at([]).shape == (0, problem.t)


def test_the_amounts_of_the_intervals_are_what_a_window_reads():
    found, _ = two_tenants("h-mrf")
    window = Window.sliding(6.0)
    within = window.remembered(found.used_intervals, 2, 12.0, 1.0)
    assert within.tolist() == amount_within(found.used_intervals, 2, 7.0, 12.0).tolist()
    assert within.tolist() == [[30], [20]]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_task_that_can_never_run_waits_and_holds_nobody_up(policy):
    problem = problem_of([[4.0]], [[8.0], [1.0]])
    trace = Trace.create(workload=[0, 1, 1], submit=[0, 0, 1], duration=[1, 1, 1])
    found = simulate(problem, trace, policy)
    assert np.isnan(found.start).tolist() == [True, False, False]
    assert found.end[1:].tolist() == [1, 2]
    assert found.alone.tolist() == [[0], [2]]
    assert found.completed.tolist() == [0, 1]


def test_a_server_that_was_away_hosts_requests_as_evenly_as_before():
    # While it is away its room is none; found by longer traces than the property draws.
    problem = problem_of([[4.0, 4.0]], [[1.0, 2.0]], server_count=[2])
    changes = ServerChanges.create(time=[1, 3], server=[0, 0], joins=[False, True])
    trace = Trace.create(workload=[0, 0, 0], submit=[0, 0, 4], duration=[2, 2, 1])
    found = simulate(problem, trace, "mrfs", changes=changes)
    assert found.server.tolist() == [0, 1, 0]


def test_a_tenant_s_only_server_may_not_be_for_its_tasks():
    problem = problem_of(
        [[1.0], [1.0]],
        [[1.0], [1.0]],
        contributed_by=[0, 1],
        server_labels=[{"zone": "a"}, {"zone": "b"}],
        selectors=[{"zone": "b"}, {}],
    )
    trace = Trace.create(workload=[0, 1], submit=[0, 0], duration=[1, 1])
    assert np.isnan(simulate(problem, trace, "static").start).tolist() == [True, False]


def test_an_empty_trace_is_an_empty_simulation():
    found = simulate(
        problem_of([[4.0]], [[1.0]]), Trace.create(workload=[], submit=[], duration=[]), "h-mrf"
    )
    assert found.used.tolist() == [[0]]
    assert found.mean_utilisation.tolist() == [0]
    assert found.utilisation[0].tolist() == []
    assert np.isnan(found.completed).all()


def test_refusals_say_what_is_wrong():
    problem = problem_of([[4.0]], [[1.0]])
    selected = problem_of([[4.0]], [[1.0]], selectors=[{"zone": "a"}])
    trace = Trace.create(workload=[0], submit=[0], duration=[1])
    refusals = [
        ("policy.unknown", lambda: simulate(problem, trace, "ceei")),
        ("policy.no_placement", lambda: simulate(selected, trace, "drf")),
        ("history.step", lambda: simulate(problem, trace, "drf", step=0)),
        ("trace.shape", lambda: Trace.create(workload=[0], submit=[0, 1], duration=[1])),
        ("trace.time", lambda: Trace.create(workload=[0], submit=[math.inf], duration=[1])),
        ("trace.time", lambda: Trace.create(workload=[0], submit=[0], duration=[0])),
        (
            "trace.workload",
            lambda: simulate(problem, Trace.create(workload=[1], submit=[0], duration=[1]), "drf"),
        ),
    ]
    for code, refused in refusals:
        with pytest.raises(PolicyError) as error:
            refused()
        assert error.value.code == code


@pytest.mark.parametrize("policy", ["drf", "drfh", "h-mrf", "mrfs", "static", "dedicated"])
def test_a_simulation_that_tells_how_far_it_is_gives_the_same_to_the_last_bit(policy):
    random = np.random.default_rng(3)
    problem = problem_of([[4, 8], [6, 3]], [[1, 2], [2, 1], [1, 1]])
    trace = Trace.create(
        workload=random.integers(0, 3, 6000),
        submit=random.integers(0, 2000, 6000),
        duration=random.integers(1, 9, 6000),
    )
    changes = None
    if policy not in ("static", "dedicated"):
        changes = ServerChanges.create(time=[20, 50.5, 90], server=[0, 0, 1], joins=[0, 1, 0])
    told = []
    quiet = simulate(problem, trace, policy, changes=changes)
    telling = simulate(problem, trace, policy, changes=changes, on_progress=told.append)
    for column in ("start", "end", "server", "changed_at", "changed_tenant", "changed_rate"):
        np.testing.assert_array_equal(getattr(quiet, column), getattr(telling, column))
    assert told == sorted(told)
    assert len(told) > 5
    assert 0 <= told[0] < 0.1
    assert told[-1] > 0.9


def test_what_is_told_may_end_a_simulation():
    problem = problem_of([[4]], [[1]])
    trace = Trace.create(workload=[0] * 50_000, submit=[0] * 50_000, duration=[1] * 50_000)

    def stop(part):
        if part > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(problem, trace, "drf", on_progress=stop)
