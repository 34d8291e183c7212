"""Tasks of several pieces: the figures, a plain reference, forgeries, and what is refused."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    CurrentPlacements,
    Gang,
    History,
    ParsedProblem,
    PolicyNotApplicableError,
    Problem,
    ProblemError,
    allocation_from_document,
    allocation_to_document,
    current_placements_of,
    explain,
    problem_from_document,
    problem_to_document,
    properties_of,
    solve,
    tasks_by_owner,
    verify,
)
from policies.explaining.gang_room import room_for_pieces
from policies.filling.kept_tasks import kept_tasks
from policies.verification.pieces import Pieces
from tests.examples import examples
from tests.references.gangs import GangStep, Pool, fill_gangs, launch
from tests.references.long_term import Past
from tests.references.numbers import exact
from tests.unit.policies.problems import problems
from tests.unit.policies.test_filling_properties import PLACEMENTS, tasks_on_servers
from tests.unit.policies.trees import problems_in_groups, problems_with_limits

MPI, SOLO = 0, 1
LONG_TERM = ("lt-drf", "lt-af", "h-mrf")


def gang(*pieces, **options):
    """Return a gang of (number, demand of each resource) for each kind."""
    count, demand = zip(*pieces, strict=True)
    return Gang(np.array(count), np.array(demand, dtype=np.float64), **options)


def cluster(mpi, tasks, **fields):
    """Return 4 servers of 8 GPUs, on which mpi has gangs and solo 40 tasks of 1 GPU."""
    return Problem.create(
        resources=["gpu"],
        capacity=[[8]],
        server_count=[4],
        tenants=["mpi", "solo"],
        demand=[[1], [1]],
        tasks=[tasks, 40],
        gangs={MPI: mpi},
        **fields,
    )


def whole(problem, **options):
    return solve(problem, "drfh", mode="indivisible", options=options)


def test_a_second_gang_does_not_fit():
    answer = whole(cluster(gang((3, [8])), 2))
    assert answer.tasks.tolist() == [1, 8]
    assert answer.limited_by == ("resource:gpu", "resource:gpu")


def test_a_gang_after_one_small_task():
    """Solo is first in order, and has 1 GPU when mpi takes its turn."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[4], tenants=["solo", "mpi"],
        demand=[[1], [24]], tasks=[40, 2], gangs={1: gang((3, [8]))},
    )  # fmt: skip
    assert whole(problem).tasks.tolist() == [8, 1]


def test_small_gangs_share_with_single_tasks():
    assert whole(cluster(gang((2, [4])), math.inf)).tasks.tolist() == [2, 16]


def test_pieces_of_a_task_can_be_kept_apart():
    answer = whole(cluster(gang((4, [2]), per_server=1), 1))
    assert answer.placement_tasks[answer.placement_piece == MPI].tolist() == [4]
    on = tasks_on_servers(answer)
    assert [on[MPI, server] for server in range(4)] == [1, 1, 1, 1]
    assert whole(cluster(gang((5, [1]), per_server=1), 1)).limited_by[MPI] == "gang"


def test_pieces_of_a_task_stay_in_one_rack():
    """Rack a has 3 places for pieces, rack b has 4."""
    fields = {
        "resources": ["gpu"],
        "capacity": [[6], [8]],
        "server_labels": [{"rack": "a"}, {"rack": "b"}],
        "tenants": ["mpi"],
        "demand": [[8]],
    }
    problem = Problem.create(**fields, tasks=[2], gangs={0: gang((4, [2]), together="rack")})
    answer = whole(problem)
    assert tasks_on_servers(answer) == {(0, 1): 4}
    assert (answer.tasks.tolist(), answer.limited_by) == ([1], ("gang",))
    anywhere = Problem.create(**fields, tasks=[2], gangs={0: gang((3, [2]))})
    assert whole(anywhere).tasks.tolist() == [2]


def test_racks_of_one_name_in_two_clusters_are_two():
    """4 pieces of 2 GPUs fit into rack a of east and west together, and into neither."""
    servers = [{"cluster": "east", "rack": "a"}, {"cluster": "west", "rack": "a"}, {"rack": "a"}]
    fields = {
        "resources": ["gpu"],
        "capacity": [[4], [4], [4]],
        "tenants": ["mpi"],
        "demand": [[8]],
    }
    gangs = {0: gang((4, [2]), together="rack")}
    for labels, tasks in ((servers, 0), ([{"rack": "a"}] * 3, 1)):
        answer = whole(Problem.create(**fields, server_labels=labels, tasks=[1], gangs=gangs))
        assert answer.tasks.tolist() == [tasks]
    forged = Problem.create(**fields, server_labels=servers, tasks=[1], gangs=gangs)
    of_one_pool = Problem.create(
        **fields, server_labels=[{"rack": "a"}] * 3, tasks=[1], gangs=gangs
    )
    assert not verify(forged, whole(of_one_pool)).valid


def test_an_elastic_job_starts_with_its_fewest_tasks():
    problem = cluster(gang((1, [8]), at_least=3), math.inf)
    assert whole(problem).tasks.tolist() == [3, 8]
    problem = cluster(gang((1, [8]), at_least=5), math.inf)
    answer = whole(problem)
    assert (answer.tasks.tolist(), answer.limited_by[MPI]) == ([0, 32], "resource:gpu")


def test_a_head_and_its_workers():
    """The head needs CPUs only, and runs on a server without GPUs."""
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[4, 0], [4, 4]], tenants=["ray"], demand=[[0, 0]],
        gangs={0: gang((1, [4, 0]), (2, [1, 2]))},
    )  # fmt: skip
    answer = whole(problem)
    assert problem.demand.tolist() == [[6, 4]]
    assert answer.tasks.tolist() == [1]
    assert tasks_on_servers(answer) == {(0, 0): 1, (1, 1): 2}


def test_demands_are_the_sums_of_the_decimals_that_are_written():
    problem = Problem.create(
        resources=["cpu"], capacity=[[1]], tenants=["a"], demand=[[0]],
        gangs={0: gang((3, [0.1]))},
    )  # fmt: skip
    assert problem.demand.tolist() == [[0.3]]
    assert whole(problem).tasks.tolist() == [3]


@pytest.mark.parametrize("policy", ["drf", "drfh", "asset", "ceei"])
def test_divisible_tasks_are_sums(policy):
    with_gangs = cluster(gang((3, [2])), 2)
    sums = Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[4], tenants=["mpi", "solo"],
        demand=[[6], [1]], tasks=[2, 40],
    )  # fmt: skip
    answer, expected = solve(with_gangs, policy), solve(sums, policy)
    assert answer.tasks.tobytes() == expected.tasks.tobytes()
    assert verify(with_gangs, answer).valid


@st.composite
def gang_problems(draw, base):
    """Draw problems in which some workloads have gangs."""
    problem = draw(base)
    gangs = {}
    demands = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, 2.0])
    one = st.lists(demands, min_size=problem.m, max_size=problem.m).filter(any)
    for j in range(problem.n):
        if draw(st.integers(0, 2)) == 0:
            continue
        kinds = draw(st.integers(1, 2))
        gangs[j] = Gang(
            np.array([draw(st.integers(1, 3)) for _ in range(kinds)]),
            np.array([draw(one) for _ in range(kinds)]),
            per_server=draw(st.sampled_from([0, 0, 1, 2])),
            together=draw(st.sampled_from(["", "", "zone", "rack"])),
            at_least=draw(st.sampled_from([1, 1, 2, 3])),
        )
    racks = st.sampled_from([{}, {"rack": "x"}, {"rack": "y"}])
    demand = problem.demand.copy()
    for j, each in gangs.items():
        demand[j] = each.total
    return replace(
        problem,
        gangs=gangs,
        demand=demand,
        server_labels=tuple({**labels, **draw(racks)} for labels in problem.server_labels),
    )


def assert_plain(problem, placement, seed=0):
    options = {"placement": placement}
    if placement == "two-choices":
        options["seed"] = seed
    answer = whole(problem, **options)
    log, count = fill_gangs(problem, placement, seed)
    assert answer.tasks.tolist() == count
    expected = Counter((problem.pieces.kinds(j)[kind], server) for j, kind, server in log)
    assert tasks_on_servers(answer) == expected
    found = verify(problem, answer)
    assert found.valid, [item for item in found.checks if not item.holds]


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(1000)
@given(problem=gang_problems(problems()), seed=st.integers(0, 3))
def test_pieces_are_placed_as_the_plain_reference_places_them(placement, problem, seed):
    assert_plain(problem, placement, seed)


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(400)
@given(problem=gang_problems(problems_with_limits()))
def test_in_groups_and_within_limits_too(placement, problem):
    assert_plain(problem, placement)


@st.composite
def steps_of_gangs(draw, base):
    """Draw a pool with gangs, what is pending in up to three steps, their length and options."""
    problem = draw(gang_problems(base))
    some = st.sampled_from([0, 1, 2, 3, 5, 10, 40, math.inf])
    pending = st.lists(some, min_size=problem.n, max_size=problem.n)
    options = {}
    if draw(st.booleans()):
        options["starvation_timeout"] = draw(st.sampled_from([0.1, 0.5, 1, 2]))
    if draw(st.booleans()):
        options["borrow_cap"] = draw(st.sampled_from([0, 0.25, 1]))
    steps = draw(st.lists(pending, min_size=1, max_size=3))
    return problem, steps, draw(st.sampled_from([0.1, 1, 60])), options


def assert_plain_steps(policy, instance):
    problem, steps, length, options = instance
    past, history = Past(problem.t, problem.m, length), History.zeros(problem, length)
    for tasks in steps:
        asked = replace(problem, tasks=np.array(tasks, dtype=np.float64))
        answer = solve(asked, policy, options=options, history=history)
        timeout, cap = options.get("starvation_timeout"), options.get("borrow_cap")
        expected = GangStep(asked, policy, past, timeout, cap)
        assert answer.tasks.tolist() == expected.run()
        placed = Counter((asked.pieces.kinds(j)[k], at) for j, k, at in expected.launched)
        assert tasks_on_servers(answer) == placed
        found = verify(asked, answer, history)
        assert found.valid, [item for item in found.checks if not item.holds]
        history = answer.history
        assert np.allclose(history.used, np.array(past.used, dtype=float), rtol=1e-12, atol=0)
        assert np.allclose(history.alone, np.array(past.alone, dtype=float), rtol=1e-12, atol=0)
        assert np.allclose(history.waiting, np.array(past.waiting, dtype=float), rtol=1e-12)


@pytest.mark.parametrize("policy", LONG_TERM)
@examples(500)
@given(instance=steps_of_gangs(problems(max_servers=3)))
def test_long_term_policies_place_pieces_as_the_plain_reference_does(policy, instance):
    assert_plain_steps(policy, instance)


@pytest.mark.parametrize("policy", LONG_TERM)
@examples(250)
@given(instance=steps_of_gangs(problems_in_groups(selectors=True)))
def test_long_term_policies_place_pieces_in_groups_too(policy, instance):
    assert_plain_steps(policy, instance)


def test_owners_of_servers_have_the_pieces_that_run_there():
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[4, 0], [4, 4]], contributed_by=[0, 1],
        tenants=["ray", "other"], workload_tenant=[0], demand=[[0, 0]],
        gangs={0: gang((1, [4, 0]), (2, [1, 2]))},
    )  # fmt: skip
    piece, owner, count = tasks_by_owner(whole(problem))
    assert (piece.tolist(), owner.tolist(), count.tolist()) == ([0, 1], [0, 1], [1, 2])


GANG_FIRST, GANG_WAITS = [1, 8], [0, 32]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("lt-drf", [GANG_FIRST, GANG_WAITS, GANG_FIRST]),
        ("lt-af", [GANG_FIRST, GANG_WAITS, GANG_FIRST]),
        ("h-mrf", [GANG_WAITS, GANG_FIRST, GANG_WAITS]),
    ],
)
def test_what_gangs_used_counts_in_later_steps(policy, expected):
    """A task of mpi takes 3 of 4 servers. In its own half it would run none, so it loses nothing."""
    problem, history = cluster(gang((3, [8])), 2), None
    steps = []
    for _ in expected:
        answer = solve(problem, policy, history=history)
        assert verify(problem, answer, history).valid
        history = answer.history
        steps.append(answer.tasks.tolist())
    assert steps == expected
    assert history.used.tolist() == [[24 * sum(a for a, _ in steps)], [sum(b for _, b in steps)]]


def test_a_gang_takes_no_more_than_a_cap_of_borrowing_allows():
    """Half of the pool and an eighth more are 18 GPUs. Three tasks of 6 are not beyond, four are."""
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[64, 8]], server_count=[4], tenants=["mpi", "solo"],
        demand=[[0, 0], [1, 1]], tasks=[9, 0], gangs={MPI: gang((1, [4, 0]), (3, [1, 2]))},
    )  # fmt: skip
    answer = solve(problem, "h-mrf", options={"borrow_cap": 0.125})
    assert (answer.tasks.tolist(), answer.limited_by[MPI]) == ([4, 0], "level")
    assert verify(problem, answer).valid
    forged = replace(answer, limited_by=("gang", answer.limited_by[SOLO]))
    assert not verify(problem, forged).valid


@pytest.mark.parametrize(("options", "tasks"), [({}, [32, 0]), ({"starvation_timeout": 1}, [8, 1])])
def test_a_tenant_that_starves_starts_one_gang_first(options, tasks):
    """Mpi has used more than solo, and waited for one step."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[4], tenants=["solo", "mpi"],
        demand=[[1], [0]], tasks=[40, 2], gangs={1: gang((3, [8]), per_server=1)},
    )  # fmt: skip
    history = History(
        step=1.0, used=np.array([[0.0], [48.0]]), alone=np.zeros((2, 1)),
        waiting=np.array([0.0, 1.0]), elapsed=3.0,
    )  # fmt: skip
    answer = solve(problem, "lt-drf", options=options, history=history)
    assert answer.tasks.tolist() == tasks
    assert verify(problem, answer, history).valid


def ranges(*rows):
    """Return current placements of (kind of pieces, server row, offset, servers, pieces on each)."""
    kind, row, offset, servers, tasks = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return CurrentPlacements(
        workload=kind, row=row, offset=offset, servers=servers, tasks=tasks.astype(np.float64)
    )


def test_a_gang_stays_where_it_runs():
    """The first server is busy, so that a fresh placement would move the gang's pieces by one."""
    problem = cluster(gang((2, [8])), 1)
    running = ranges((MPI, 0, 1, 2, 1), (SOLO, 0, 0, 1, 8))
    assert tasks_on_servers(whole(problem))[MPI, 0] == 1
    answer = solve(problem, "drfh", mode="indivisible", running=running)
    on = tasks_on_servers(answer)
    assert [on[MPI, server] for server in range(4)] == [0, 1, 1, 0]
    assert [on[SOLO, server] for server in range(4)] == [8, 0, 0, 8]
    assert answer.moved == 0
    assert verify(problem, answer, running=running).valid


def test_a_gang_that_lost_a_server_is_placed_anew():
    """A piece ran on a server that has left. The other one moves with it, and solo stays."""
    problem = cluster(gang((2, [8])), 1)
    running = ranges((MPI, 0, 3, 1, 1), (MPI, -1, 0, 1, 1), (SOLO, 0, 2, 1, 8))
    answer = solve(problem, "drfh", mode="indivisible", running=running)
    on = tasks_on_servers(answer)
    assert [on[MPI, server] for server in range(4)] == [1, 1, 0, 0]
    assert on[SOLO, 2] == 8
    assert answer.moved == 2
    assert verify(problem, answer, running=running).valid


def test_of_gangs_that_shrink_whole_ones_stay():
    """One of three tasks of 2 pieces ends: 4 pieces stay where they are, and none is left over."""
    problem = cluster(gang((2, [4])), 2)
    running = ranges((MPI, 0, 1, 3, 2))
    answer = solve(problem, "drfh", mode="indivisible", running=running)
    on = tasks_on_servers(answer)
    assert [on[MPI, server] for server in range(4)] == [0, 2, 2, 0]
    assert answer.moved == 0
    assert verify(problem, answer, running=running).valid


@st.composite
def running_of(draw, problem):
    """Draw placements of pieces, some on servers that have left, of tasks whole or cut."""
    rows = []
    for kind in range(len(problem.pieces.demand)):
        for _ in range(draw(st.integers(0, 2))):
            row = draw(st.integers(-1, problem.k - 1))
            count = int(problem.server_count[row]) if row >= 0 else 2
            if not count:
                continue
            offset = draw(st.integers(0, count - 1)) if row >= 0 else 0
            servers = draw(st.integers(1, count - offset))
            rows.append((kind, row, offset, servers, draw(st.integers(1, 3))))
    return ranges(*rows)


def moved_from(running, problem, answer):
    """Return the pieces that ran before and run now, less those that do on the same server.

    Servers that have left count, and servers that drain do not.
    """
    first = np.cumsum(problem.server_count) - problem.server_count
    before, gone = Counter(), Counter()
    for kind, row, offset, servers, tasks in zip(
        running.workload, running.row, running.offset, running.servers, running.tasks, strict=True
    ):
        for at in range(servers):
            if row < 0:
                gone[int(kind)] += int(tasks)
            elif not problem.contributed_only[row] and problem.capacity[row].any():
                before[int(kind), int(first[row] + offset + at)] += int(tasks)
    after = Counter()
    columns = current_placements_of(answer)
    for kind, row, offset, servers, tasks in zip(
        columns.workload, columns.row, columns.offset, columns.servers, columns.tasks, strict=True
    ):
        for at in range(servers):
            after[int(kind), int(first[row] + offset + at)] += int(tasks)
    moved = 0
    for kind in range(len(problem.pieces.demand)):
        ran = gone[kind] + sum(n for (k, _), n in before.items() if k == kind)
        runs = sum(n for (k, _), n in after.items() if k == kind)
        stayed = sum((before & after)[key] for key in before if key[0] == kind)
        moved += min(ran, runs) - stayed
    return moved


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(400)
@given(data=st.data())
def test_what_runs_stays_and_no_gang_is_cut(placement, data):
    """The counts are those without placements, gangs are whole, and no more pieces move."""
    problem = data.draw(gang_problems(problems_with_limits()))
    fresh = whole(problem, placement=placement)
    again = current_placements_of(fresh)
    running = again if data.draw(st.booleans()) else data.draw(running_of(problem))
    answer = solve(
        problem, "drfh", mode="indivisible", options={"placement": placement}, running=running
    )
    assert answer.tasks.tolist() == fresh.tasks.tolist()
    pieces = np.bincount(
        answer.placement_piece,
        weights=answer.placement_tasks,
        minlength=len(problem.pieces.demand),
    )
    expected = answer.tasks[problem.pieces.workload] * problem.pieces.count
    assert pieces.tolist() == expected.tolist()
    for j, each in problem.gangs.items():
        on = [(at, n) for (kind, at), n in tasks_on_servers(answer).items() if kind == j and n]
        assert not each.per_server or all(n <= each.per_server * answer.tasks[j] for _, n in on)
    assert answer.moved == moved_from(running, problem, answer)
    assert answer.moved <= moved_from(running, problem, fresh)
    if running is again:
        assert answer.moved == 0
    found = verify(problem, answer, running=running)
    assert found.valid, [item for item in found.checks if not item.holds]


@examples(400)
@given(data=st.data())
def test_tasks_within_their_minimum_stay_before_other_running_ones(data):
    """The first rows of what runs are young. They stay as they do if nothing else runs."""
    problem = data.draw(gang_problems(problems_with_limits()))
    running = data.draw(running_of(problem))
    young = data.draw(st.integers(0, len(running.row)))
    kept = CurrentPlacements(
        workload=running.workload[:young], row=running.row[:young], offset=running.offset[:young],
        servers=running.servers[:young], tasks=running.tasks[:young],
    )  # fmt: skip
    problem = replace(problem, kept_placements=kept)
    fresh = whole(problem)
    answer = solve(problem, "drfh", mode="indivisible", running=running)
    assert answer.tasks.tolist() == fresh.tasks.tolist()
    stays = kept_tasks(problem)
    on = tasks_on_servers(answer)
    for kind, server, tasks in zip(stays.kind, stays.server, stays.tasks, strict=True):
        assert on[int(kind), int(server)] >= tasks
    found = verify(problem, answer, running=running)
    assert found.valid, [item for item in found.checks if not item.holds]


@pytest.mark.parametrize("policy", LONG_TERM)
@examples(100)
@given(data=st.data())
def test_gangs_of_long_term_policies_stay_too(policy, data):
    problem = data.draw(gang_problems(problems(max_servers=3)))
    fresh = solve(problem, policy)
    running = data.draw(st.one_of(st.just(current_placements_of(fresh)), running_of(problem)))
    answer = solve(problem, policy, running=running)
    assert answer.tasks.tolist() == fresh.tasks.tolist()
    assert answer.moved <= moved_from(running, problem, fresh)
    found = verify(problem, answer, running=running)
    assert found.valid, [item for item in found.checks if not item.holds]


@pytest.mark.parametrize("policy", LONG_TERM)
def test_the_objective_is_that_of_the_servers_on_which_gangs_stay(policy):
    """A resource stops the second gang on fresh servers, and room where its tasks stay."""
    gangs = {
        0: gang((1, [1, 0.5]), at_least=2),
        1: gang((2, [0.1, 0.1]), (3, [0.5, 0.5]), at_least=2),
    }
    problem = Problem.create(
        resources=["a", "b"], capacity=[[8, 2], [2, 2], [3.5, 0], [0, 1]], server_count=[2, 3, 3, 2],
        tenants=["t0", "t1"], demand=[[0, 0], [0, 0]], tasks=[2, math.inf], gangs=gangs,
    )  # fmt: skip
    running = current_placements_of(solve(problem, policy, mode="indivisible"))
    alone = replace(problem, tasks=np.array([0.0, math.inf]))
    fresh = solve(alone, policy, mode="indivisible")
    answer = solve(alone, policy, mode="indivisible", running=running)
    assert (fresh.limited_by[1], answer.limited_by[1]) == ("resource:b", "gang")
    found = verify(alone, answer, running=running)
    assert found.valid, [item for item in found.checks if not item.holds]


def test_a_forged_place_of_a_running_gang_is_found():
    problem = cluster(gang((2, [8])), 1)
    running = ranges((MPI, 0, 1, 2, 1))
    answer = solve(problem, "drfh", mode="indivisible", running=running)
    elsewhere = solve(problem, "drfh", mode="indivisible", running=ranges((MPI, 0, 2, 2, 1)))
    forged = replace(elsewhere, moved=answer.moved)
    assert not verify(problem, forged, running=running).valid


def test_properties_of_gangs_are_undecided():
    verdicts = properties_of(whole(cluster(gang((3, [8])), 2)), seconds=0).verdicts
    assert {verdict.holds for verdict in verdicts.values()} == {None}


@pytest.mark.parametrize("policy", ["drfh", *LONG_TERM])
@pytest.mark.parametrize("change", ["fewer", "more", "other server", "other kind", "reason"])
def test_a_forged_answer_is_refused(change, policy):
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[4, 0], [4, 4], [8, 8]], tenants=["ray", "b"],
        demand=[[0, 0], [2, 1]], tasks=[2, 9], gangs={0: gang((1, [4, 0]), (2, [1, 2]))},
    )  # fmt: skip
    answer = solve(problem, policy, mode="indivisible")
    assert verify(problem, answer).valid
    placed, piece = answer.placement_tasks.copy(), answer.placement_piece.copy()
    tasks, place, reasons = answer.tasks.copy(), answer.placement_class.copy(), answer.limited_by
    first = int(np.flatnonzero(piece == 0)[0])
    worker = int(np.flatnonzero(piece == 2)[0])
    if change == "fewer":
        tasks[0] -= 1
    elif change == "more":
        placed[worker] += 1
    elif change == "other server":
        place[first] = (place[first] + 1) % len(answer.classes.servers)
    elif change == "other kind":
        piece[worker] = 0
    else:
        reasons = ("gang" if reasons[0] != "gang" else "task_limit", *reasons[1:])
    forged = replace(
        answer, tasks=tasks, placement_tasks=placed, placement_piece=piece, placement_class=place,
        limited_by=reasons,
    )  # fmt: skip
    assert not verify(problem, forged).valid


def test_an_answer_to_other_pieces_is_refused():
    problem = cluster(gang((3, [8])), 2)
    answer = whole(problem)
    other = cluster(gang((6, [4])), 2)
    assert not verify(other, answer).valid


@pytest.mark.parametrize(
    ("each", "code"),
    [
        (gang((0, [1])), "workload.pieces"),
        (gang((1, [1]), (1, [1]), (1, [1])), "workload.pieces"),
        (gang((1, [1, 1])), "workload.pieces"),
        (gang((1, [-1])), "workload.pieces"),
        (gang((1, [math.nan])), "workload.pieces"),
        (gang((1, [0])), "workload.pieces"),
        (gang((9999, [1]), at_least=2), "workload.pieces"),
        (gang((1, [1]), per_server=-1), "workload.per_server"),
        (gang((1, [1]), at_least=0), "workload.at_least"),
    ],
)
def test_impossible_gangs_are_refused(each, code):
    with pytest.raises(ProblemError) as error:
        cluster(each, 1)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("policy", "options"),
    [("static", {}), ("mrfs", {}), ("drfh", {"share": "alone"})],
)
def test_policies_that_place_single_tasks_refuse_gangs(policy, options):
    with pytest.raises(PolicyNotApplicableError) as error:
        solve(cluster(gang((3, [8])), 2), policy, mode="indivisible", options=options)
    assert (error.value.code, error.value.pointer) == ("workload.pieces", "/workloads/0/pieces")


def test_a_document_comes_back_as_it_was():
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[4, 0], [4, 4]], tenants=["ray"], demand=[[0, 0]],
        gangs={
            0: gang((1, [4, 0]), (2, [1, 2]), per_server=2, together="", at_least=1),
        },
    )  # fmt: skip
    parsed = ParsedProblem(problem, "drfh", "indivisible")
    again = problem_from_document(problem_to_document(parsed))
    answer = whole(problem)
    document = allocation_to_document(answer, ["placements"])
    read = allocation_from_document(document, again.problem, again.choice)
    assert verify(again.problem, read).valid
    assert read.placement_piece.tolist() == answer.placement_piece.tolist()
    running = current_placements_of(answer)
    assert solve(problem, "drfh", mode="indivisible", running=running).moved == 0


def test_the_explanation_counts_pieces():
    """Three servers have 2 GPUs left each, one has 8."""
    problem = Problem.create(
        resources=["gpu"], units=["GPU"], capacity=[[8]], server_count=[4], tenants=["a", "mpi"],
        demand=[[6], [0]], tasks=[3, 1], gangs={1: gang((4, [4]), per_server=1)},
    )  # fmt: skip
    answer = whole(problem)
    assert (answer.tasks.tolist(), answer.limited_by[1]) == ([3, 0], "gang")
    assert "1 of 4 pieces of one more task fit; the largest free place has 8 GPUs." in (
        explain(answer, 1).sentence
    )


def waiting(*each, at_least=1, tasks=math.inf, together="", racks=("a",), servers=2, **fields):
    """Return the explanation of a gang of mpi that waits on empty servers of 8 GPUs in racks."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]] * len(racks), server_count=[servers] * len(racks),
        server_labels=[{"rack": rack} for rack in racks], tenants=["mpi"], demand=[[0]], tasks=[tasks],
        gangs={0: gang(*each, at_least=at_least, together=together)}, **fields,
    )  # fmt: skip
    answer = whole(problem)
    assert (answer.tasks.tolist(), answer.limited_by) == ([0], ("gang",))
    return explain(answer, 0).sentence


def test_pieces_of_two_kinds_are_counted_beside_each_other():
    assert "even on empty servers, only 2 of 4 pieces of one more task fit." in waiting(
        (1, [8]), (3, [8])
    )
    assert "even on empty servers, only 2 of 5 pieces of one more task fit." in waiting(
        (3, [6]), (2, [4])
    )
    assert "even on empty servers, only 2 of 5 pieces of one more task fit." in waiting(
        (2, [4]), (3, [6])
    )


def test_pieces_of_tasks_that_start_together_are_counted_in_one_rack():
    sentence = waiting((2, [8]), at_least=3, together="rack", racks="ab", servers=3)
    assert sentence.endswith(
        "stopped: even on empty servers with one value of rack, only 3 of 6 pieces of the tasks that"
        " must start together fit."
    )


def test_fewer_tasks_than_start_together_are_named():
    sentence = waiting((1, [4]), at_least=3, tasks=2)
    assert sentence.endswith("stopped: it has 2 tasks, but at least 3 must start together.")


def test_tasks_of_one_piece_that_start_together_are_counted_as_tasks():
    sentence = waiting((1, [4]), at_least=9)
    assert "even on empty servers, only 4 of 9 tasks that must start together fit." in sentence


def test_a_label_that_no_server_has_is_named():
    assert waiting((2, [8]), together="row").endswith(" stopped: no server has the label row.")
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], server_labels=[{"rack": "a"}, {"row": "1"}],
        tenants=["mpi"], demand=[[0]], tasks=[1], selectors=[{"rack": "a"}],
        gangs={0: gang((2, [1]), together="row")},
    )  # fmt: skip
    assert explain(whole(problem), 0).sentence.endswith(
        " stopped: no server that it may run on has the label row."
    )


def test_a_piece_that_is_larger_than_every_server_is_named():
    problem = cluster(gang((1, [1]), (1, [9])), 1)
    answer = whole(problem)
    assert answer.limited_by[MPI] == "no_server_large_enough"
    assert explain(answer, MPI).sentence.endswith(
        " gets nothing more: one piece is larger than every server it may run on."
    )


def assert_counts_plainly(problem, placement, seed=0):
    """Compare the room of each waiting gang with pieces that are placed one by one."""
    options = {"seed": seed} if placement == "two-choices" else {}
    answer = whole(problem, placement=placement, **options)
    on = tasks_on_servers(answer)
    for j, each in problem.gangs.items():
        if answer.limited_by[j] != "gang":
            continue
        at_once = 1 if answer.tasks[j] else each.at_least
        pool = Pool(problem, placement, seed)
        for (kind, server), number in on.items():
            demand = [exact(d) for d in problem.pieces.demand[kind]]
            for _ in range(int(number)):
                pool.take(problem.pieces.workload[kind], demand, server)
        placed = launch(pool, j, at_once)
        room = room_for_pieces(answer, j, at_once)
        assert room.needed == at_once * each.count.sum()
        assert room.fit == (pool.most_placed if placed is None else len(placed))
        explain(answer, int(problem.workload_tenant[j]))


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(400)
@given(problem=gang_problems(problems()), seed=st.integers(0, 3))
def test_pieces_with_room_are_those_that_are_placed_one_by_one(placement, problem, seed):
    assert_counts_plainly(problem, placement, seed)


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(200)
@given(problem=gang_problems(problems_with_limits()))
def test_pieces_with_room_within_limits_too(placement, problem):
    assert_counts_plainly(problem, placement)


def test_labels_that_no_server_has_cost_nothing_for_each_server():
    """An array for each label was as large as all labels times all servers."""
    gang = {j: Gang(np.array([2]), np.array([[1.0]]), together=f"x{j}") for j in range(9)}
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], server_labels=[{"x0": "a"}, {}],
        tenants=[str(j) for j in range(9)], demand=[[2]] * 9, tasks=[1] * 9, gangs=gang,
    )  # fmt: skip
    assert len({id(zone) for zone in problem.zones.values()}) == 2
    assert len({id(value) for value in Pieces.stated(problem).values.values()}) == 2
    answer = solve(problem, "drfh", mode="indivisible")
    assert answer.tasks.tolist() == [1] + [0] * 8
    assert verify(problem, answer).valid
