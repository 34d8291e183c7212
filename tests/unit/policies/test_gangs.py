"""Tasks of several pieces: the figures, a plain reference, forgeries, and what is refused."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    Gang,
    History,
    ParsedProblem,
    PolicyNotApplicableError,
    Problem,
    ProblemError,
    allocation_from_document,
    allocation_to_document,
    current_placements_of,
    problem_from_document,
    problem_to_document,
    properties_of,
    solve,
    tasks_by_owner,
    verify,
)
from policies.verification.pieces import Pieces
from tests.examples import examples
from tests.references.gangs import GangStep, fill_gangs
from tests.references.long_term import Past
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


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_each_task_of_an_elastic_job_may_run_in_another_rack(placement):
    """Each of 3 racks has room for one task of the 3 that start at once."""
    racks = {
        "resources": ["gpu"], "capacity": [[8]] * 3, "server_count": [2] * 3, "tenants": ["mpi"],
        "server_labels": [{"rack": rack} for rack in "abc"], "demand": [[0]],
    }  # fmt: skip
    elastic = {0: gang((2, [8]), together="rack", at_least=3)}
    assert whole(Problem.create(**racks, gangs=elastic), placement=placement).tasks.tolist() == [3]
    larger = {0: gang((2, [8]), together="rack", at_least=4)}
    answer = whole(Problem.create(**racks, gangs=larger), placement=placement)
    assert (answer.tasks.tolist(), answer.limited_by) == ([0], ("gang",))


def test_tasks_that_start_together_are_in_one_cluster():
    """The two racks of east have room for 2 tasks, and that of west for one."""
    racks = {
        "resources": ["gpu"], "capacity": [[8]] * 3, "server_count": [2] * 3, "tenants": ["mpi"],
        "server_labels": [
            {"rack": "a", "cluster": "east"}, {"rack": "a", "cluster": "west"},
            {"rack": "b", "cluster": "east"},
        ],
        "demand": [[0]],
    }  # fmt: skip
    for at_least, tasks in ((2, 3), (3, 0)):
        job = {0: gang((2, [8]), together="rack", at_least=at_least)}
        problem = Problem.create(**racks, gangs=job)
        answer = whole(problem)
        assert answer.tasks.tolist() == [tasks]
        assert verify(problem, answer).valid
    in_two = Problem.create(
        **{**racks, "server_labels": [{"rack": each["rack"]} for each in racks["server_labels"]]},
        gangs=job,
    )
    assert not verify(problem, replace(whole(in_two), problem=problem)).valid


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
    racks = st.sampled_from(
        [{}, {"rack": "x"}, {"rack": "y"}, {"rack": "x", "cluster": "w"}, {"cluster": "w"}]
    )
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
