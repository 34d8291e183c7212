"""Simulated gangs: the figures, a reference in fractions, and what holds whatever the policy."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Gang, Guarantee, PolicyNotApplicableError, Problem, ProblemError, Window
from policies.simulation import POLICIES, ServerChanges, Trace, simulate
from tests.examples import examples
from tests.references.simulated_gangs import SimulatedGangs
from tests.references.simulation import LONG_TERM, ONE_POOL
from tests.unit.policies.drawn_traces import changes_of, other_terms, plain, traces, windows
from tests.unit.policies.problems import problems
from tests.unit.policies.test_gangs import gang, gang_problems
from tests.unit.policies.trees import problems_in_groups, with_limits

MPI, SOLO = 0, 1
PLACING = ("drfh", "static", "dedicated", *LONG_TERM)


def cluster(mpi, **fields):
    """Return 4 servers of 8 GPUs, on which mpi has gangs and solo tasks of 1 GPU."""
    return Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[4], tenants=["mpi", "solo"],
        demand=[[1], [1]], gangs={MPI: mpi}, **fields,
    )  # fmt: skip


def trace_of(*rows):
    """Return a trace of (workload, number of tasks, submission, duration)."""
    columns = [[], [], []]
    for workload, count, submit, duration in rows:
        for column, value in zip(columns, (workload, submit, duration), strict=True):
            column += [value] * count
    return Trace.create(workload=columns[0], submit=columns[1], duration=columns[2])


def test_a_gang_starts_with_all_of_its_pieces_or_not_at_all():
    """Two jobs of 3 servers: the second one waits until the first has ended, and solo has the rest."""
    found = simulate(cluster(gang((3, [8]))), trace_of((MPI, 2, 0, 10), (SOLO, 9, 0, 15)), "drfh")
    assert found.start.tolist() == [0, 10, *[0] * 8, 15]
    assert found.piece_task.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.server[:2].tolist() == [-1, -1]


def test_a_gang_that_waits_holds_no_server_for_itself():
    """One task after another keeps a server busy, so that 4 free servers are never there at once."""
    found = simulate(
        cluster(gang((4, [8]))),
        trace_of((SOLO, 1, 0, 3), (MPI, 1, 1, 1), (SOLO, 1, 2, 3), (SOLO, 1, 4, 3)),
        "drfh",
    )
    assert found.start.tolist() == [0, 7, 2, 4]


def test_at_least_so_many_tasks_start_at_once():
    """A second task is submitted at 5, so that both start then; the third one starts alone."""
    found = simulate(
        cluster(gang((1, [8]), at_least=2)),
        trace_of((MPI, 1, 0, 10), (MPI, 1, 5, 10), (MPI, 1, 6, 10)),
        "drfh",
    )
    assert found.start.tolist() == [5, 5, 6]
    assert found.end.tolist() == [15, 15, 16]


def test_pieces_are_kept_apart_and_in_one_rack():
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], server_count=[2, 3],
        server_labels=[{"rack": "a"}, {"rack": "b"}], tenants=["mpi"], demand=[[1]],
        gangs={0: gang((3, [2]), per_server=1, together="rack")},
    )  # fmt: skip
    found = simulate(problem, trace_of((0, 5, 0, 1)), "drfh")
    assert found.start.tolist() == [0, 0, 0, 0, 1]
    assert sorted(found.piece_server.tolist()) == sorted([2, 3, 4] * 5)


def test_two_kinds_go_where_each_has_room():
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[4, 0], [4, 4]], tenants=["ray"], demand=[[0, 0]],
        gangs={0: gang((1, [4, 0]), (2, [1, 2]))},
    )  # fmt: skip
    found = simulate(problem, trace_of((0, 2, 0, 1)), "drfh")
    assert found.start.tolist() == [0, 1]
    pieces = zip(found.piece_task, found.piece_kind, found.piece_server, strict=True)
    assert sorted(pieces) == sorted(
        (task, kind, server) for task in (0, 1) for kind, server in ((0, 0), (1, 1), (1, 1))
    )
    assert found.used.tolist() == [[12, 8]]


def test_a_gang_on_more_servers_than_there_are_never_starts():
    found = simulate(cluster(gang((5, [8]))), trace_of((MPI, 1, 0, 1), (SOLO, 1, 1, 1)), "drfh")
    assert np.isnan(found.start[0])
    assert found.start[1] == 1


def test_where_one_pool_counts_a_task_is_its_sum():
    found = simulate(cluster(gang((3, [8]))), trace_of((MPI, 2, 0, 10), (SOLO, 9, 0, 15)), "drf")
    assert found.start.tolist() == [0, 10, *[0] * 8, 15]
    assert len(found.piece_server) == 0


@pytest.mark.parametrize("policy", ["mrfs", "ffmra", "slots"])
def test_policies_that_place_one_piece_refuse_gangs(policy):
    with pytest.raises(PolicyNotApplicableError, match="one piece") as refused:
        simulate(cluster(gang((3, [8]))), trace_of((MPI, 1, 0, 1)), policy)
    assert (refused.value.code, refused.value.pointer) == ("workload.pieces", "/workloads/0/pieces")


def test_guarantees_at_any_time_are_for_tasks_of_one_piece():
    problem = cluster(gang((3, [8])))
    later = replace(problem, guarantees=(Guarantee("tenant", 0, np.array([8.0])),))
    for each, terms in ((later, ()), (problem, [(5.0, later)])):
        with pytest.raises(PolicyNotApplicableError, match="guarantees"):
            simulate(each, trace_of((MPI, 1, 0, 1)), "drfh", terms=terms)


def test_gangs_are_the_same_at_all_times():
    problem, other = cluster(gang((3, [8]))), cluster(gang((2, [8])))
    with pytest.raises(ProblemError, match="the same gangs"):
        simulate(problem, trace_of((MPI, 1, 0, 1)), "drfh", terms=[(5.0, other)])
    again = cluster(gang((3, [8])), weight=[2, 1])
    found = simulate(problem, trace_of((MPI, 1, 0, 1)), "drfh", terms=[(5.0, again)])
    assert found.start.tolist() == [0]


def test_starts_that_fail_do_not_delay_a_cancelled_run():
    """Whenever a task ends, the gang looks at the servers of each rack, of which one is in use.

    The run reports its progress by the servers looked at, although little else changes.
    """
    size, racks, count = 60, 5, 300
    problem = Problem.create(
        resources=["gpu", "cpu"], capacity=[[1, 0], [1, 1]] * racks,
        server_count=[size - 1, 1] * racks,
        server_labels=[{"rack": str(row // 2)} for row in range(2 * racks)],
        tenants=["mpi", "solo"], workload_tenant=[0, 1, 1], demand=[[1, 0], [1, 0], [1, 1]],
        gangs={MPI: gang((size, [1, 0]), together="rack")},
    )  # fmt: skip
    singles = ((SOLO, 1, 2 + at, 0.5) for at in range(count))
    trace = trace_of((2, racks, 0, 999), (MPI, 1, 1, 1), *singles)
    parts = []
    watched = simulate(problem, trace, "drfh", on_progress=parts.append)
    plainly = simulate(problem, trace, "drfh")
    assert watched.start.tolist() == plainly.start.tolist()
    assert watched.start.tolist() == [*[0] * racks, 999, *range(2, count + 2)]
    assert parts == sorted(parts)
    assert len(parts) > 25  # 10 by changes of use alone


def assert_plain(found, expected, until):
    assert np.array_equal(found.start, plain(expected.start), equal_nan=True)
    ends = [end if end is not None and end <= until else None for end in expected.end]
    assert np.array_equal(found.end, plain(ends), equal_nan=True)
    assert found.server.tolist() == expected.numbers()
    pieces = zip(found.piece_task, found.piece_kind, found.piece_server, strict=True)
    assert sorted(pieces) == expected.places()
    problem = found.problem
    for which, amounts in enumerate((found.used, found.alone)):
        rows = [
            [float(expected.total_before(found.ended, which, i, r)) for r in range(problem.m)]
            for i in range(problem.t)
        ]
        assert np.allclose(amounts, np.reshape(rows, amounts.shape), rtol=1e-12, atol=0)


def moves_of(changes):
    return list(
        zip(changes.time.tolist(), changes.server.tolist(), changes.joins.tolist(), strict=True)
    )


CASES = [
    *[("drfh", {"placement": rule}) for rule in ("best-fit", "first-fit", "affinity")],
    *[(policy, {}) for policy in (*LONG_TERM, "static", "dedicated")],
    ("h-mrf", {"starvation_timeout": 2.0}),
    ("dedicated", {"seed": 9}),
]


def name_of(case):
    return "-".join([case[0], *map(str, case[1].values())])


@pytest.mark.parametrize("case", CASES, ids=name_of)
@examples(500)
@given(data=st.data())
def test_gangs_start_as_the_page_states(case, data):
    policy, options = case
    problem = data.draw(gang_problems(problems(max_servers=3)))
    trace = data.draw(traces(problem.n))
    changes = ServerChanges.none()
    if policy not in ("static", "dedicated") and data.draw(st.booleans()):
        changes = data.draw(changes_of(int(problem.server_count.sum())))
    window = data.draw(windows) if policy in LONG_TERM else Window.unbounded()
    step = data.draw(st.sampled_from([0.25, 1, 3]))
    until = data.draw(st.sampled_from([math.inf, math.inf, 4]))
    found = simulate(
        problem, trace, policy, options=options, window=window, step=step, until=until,
        changes=changes,
    )  # fmt: skip
    moves = moves_of(changes)
    expected = SimulatedGangs(problem, trace, policy, window, step, until, options, moves)
    assert_plain(found, expected, until)


@pytest.mark.parametrize(
    "case",
    [("drfh", {}), ("drfh", {"placement": "first-fit"}), ("drfh", {"placement": "affinity"})],
    ids=name_of,
)
@examples(500)
@given(data=st.data())
def test_gangs_start_in_groups_and_within_limits(case, data):
    policy, options = case
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    problem = data.draw(gang_problems(problems_in_groups(selectors=True)))
    terms = data.draw(other_terms(problem))
    if data.draw(st.booleans()):
        problem = with_limits(problem, rng, some_servers=True)
    terms = [
        (moment, with_limits(later, rng, some_servers=True) if rng.random() < 0.7 else later)
        for moment, later in terms
    ]
    trace = data.draw(traces(problem.n))
    changes = data.draw(changes_of(int(problem.server_count.sum())))
    until = data.draw(st.sampled_from([math.inf, 4]))
    found = simulate(
        problem, trace, policy, options=options, until=until, changes=changes, terms=terms
    )
    expected = SimulatedGangs(
        problem, trace, policy, Window.unbounded(), 1, until, options, moves_of(changes), terms
    )
    assert_plain(found, expected, until)


@pytest.mark.parametrize("placement", ["best-fit", "first-fit", "affinity", "two-choices"])
@examples(300)
@given(data=st.data())
def test_pieces_never_exceed_their_servers(placement, data):
    """At every start, what runs on each server is within its capacity, and pieces obey their gang."""
    problem = data.draw(gang_problems(problems(max_servers=3)))
    trace = data.draw(traces(problem.n))
    found = simulate(problem, trace, "drfh", options={"placement": placement})
    row_of = np.repeat(np.arange(problem.k), problem.server_count)
    kind = [
        problem.pieces.kinds(int(trace.workload[task]))[k]
        for task, k in zip(found.piece_task, found.piece_kind, strict=True)
    ]
    single = np.flatnonzero(found.server >= 0)
    task = np.r_[single, found.piece_task].astype(int)
    server = np.r_[found.server[single], found.piece_server].astype(int)
    demand = np.concatenate(
        [problem.demand[trace.workload[single]], problem.pieces.demand[kind]]
    ).reshape(-1, problem.m)
    for now in np.unique(found.start[~np.isnan(found.start)]):
        runs = (found.start[task] <= now) & (now < found.end[task])
        used = np.zeros((len(row_of), problem.m))
        np.add.at(used, server[runs], demand[runs])
        assert (used <= problem.capacity[row_of] + 1e-9).all()
    begun = np.flatnonzero(~np.isnan(found.start))
    for j, each in problem.gangs.items():
        for one in begun[trace.workload[begun] == j]:
            mine = found.piece_task == one
            assert np.bincount(found.piece_kind[mine]).tolist() == each.count.tolist()
            servers = found.piece_server[mine]
            assert not each.per_server or np.bincount(servers).max() <= each.per_server
            labels = {problem.server_labels[row_of[at]].get(each.together) for at in servers}
            assert not each.together or (len(labels) == 1 and None not in labels)


@pytest.mark.parametrize("policy", PLACING)
@examples(100)
@given(data=st.data())
def test_a_gang_of_one_piece_is_a_task(policy, data):
    problem = data.draw(problems(max_servers=3))
    trace = data.draw(traces(problem.n))
    ones = {
        j: Gang(np.array([1]), problem.demand[[j]])
        for j in range(problem.n)
        if problem.demand[j].any()
    }
    found = simulate(replace(problem, gangs=ones), trace, policy)
    expected = simulate(problem, trace, policy)
    assert np.array_equal(found.start, expected.start, equal_nan=True)
    assert np.array_equal(found.used, expected.used)


def test_policies_that_see_one_pool_take_gangs():
    taking = {name for name, policy in POLICIES.items() if policy.takes_gangs}
    assert taking == set(PLACING)
    assert not taking & set(ONE_POOL)
