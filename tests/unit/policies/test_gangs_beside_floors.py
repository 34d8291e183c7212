"""Guarantees and own servers of tasks of several pieces: figures, a plain reference, forgeries."""

import math
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    CurrentPlacements,
    Guarantee,
    Limit,
    ParsedProblem,
    PolicyNotApplicableError,
    Problem,
    SolveTimeoutError,
    allocation_to_document,
    catalogue,
    current_placements_of,
    explain,
    guarantees_unmet,
    problem_from_document,
    problem_to_document,
    verify,
    verify_answer,
)
from policies.floors.own_servers import alone_on_own_servers
from policies.floors.placed_tasks import KeptTasks
from policies.floors.pools import pools_of
from policies.model.policy import Choice
from policies.model.server_classes import server_classes
from policies.verification.kept_gangs import pieces_of_tasks_on
from policies.verification.stated import Stated
from tests.examples import examples
from tests.references.gang_floors import fill_gangs_with_floors
from tests.references.gangs import Pool
from tests.references.kept_tasks import kept_pieces, tasks_on
from tests.unit.policies.test_filling_properties import PLACEMENTS, tasks_on_servers
from tests.unit.policies.test_gangs import cluster, gang, gang_problems
from tests.unit.policies.test_gangs_in_place import running_of
from tests.unit.policies.test_kept_beside_floors import guaranteed, pools_with_guarantees
from tests.unit.policies.test_kept_tasks import keeping, on_existing_servers, whole, with_kept


@st.composite
def gangs_with_guarantees(draw):
    """Draw problems with guarantees in which some workloads have gangs, whose tasks start one by one."""
    problem = draw(gang_problems(pools_with_guarantees()))
    gangs = {j: replace(each, at_least=1) for j, each in problem.gangs.items()}
    capacity = problem.capacity
    if draw(st.booleans()):
        # Servers that differ in labels alone.
        capacity = np.tile(capacity[draw(st.integers(0, problem.k - 1))], (problem.k, 1))
    return replace(problem, gangs=gangs, capacity=capacity)


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(600)
@given(problem=gangs_with_guarantees(), seed=st.integers(0, 3))
def test_floors_are_met_as_in_the_plain_reference(placement, problem, seed):
    options = {"placement": placement}
    if placement == "two-choices":
        options["seed"] = seed
    answer = whole(problem, **options)
    log, tasks, met = fill_gangs_with_floors(problem, placement, seed)
    assert answer.floors.met.tolist() == met
    assert answer.tasks.tolist() == tasks
    expected = Counter((problem.pieces.kinds(j)[kind], server) for j, kind, server in log)
    assert tasks_on_servers(answer) == expected
    found = verify(problem, answer)
    assert found.valid, [item for item in found.checks if not item.holds]


@examples(400)
@given(problem=gangs_with_guarantees(), data=st.data())
def test_pieces_of_floors_stay_on_their_servers(problem, data):
    fresh = whole(problem)
    again = current_placements_of(fresh)
    running = again if data.draw(st.booleans()) else data.draw(running_of(problem))
    answer = whole(problem, running)
    assert answer.tasks.tolist() == fresh.tasks.tolist()
    if running is again:
        assert answer.moved == 0
    found = verify(problem, answer, running=running)
    assert found.valid, [item for item in found.checks if not item.holds]


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(400)
@given(problem=with_kept(gangs_with_guarantees()), seed=st.integers(0, 3))
def test_kept_tasks_come_first_as_in_the_plain_reference(placement, problem, seed):
    options = {"placement": placement}
    if placement == "two-choices":
        options["seed"] = seed
    answer = whole(problem, **options)
    log, tasks, met = fill_gangs_with_floors(problem, placement, seed)
    assert answer.floors.met.tolist() == met
    assert answer.tasks.tolist() == tasks
    expected = Counter((problem.pieces.kinds(j)[kind], server) for j, kind, server in log)
    placed = tasks_on_servers(answer)
    assert placed == expected
    for (j, kind, server), number in kept_pieces(problem).items():
        assert placed[problem.pieces.kinds(j)[kind], server] >= number
    found = verify(problem, answer)
    assert found.valid, [item for item in found.checks if not item.holds]


@st.composite
def kept_gangs(draw):
    """Draw a problem of one gang with pieces of whole tasks that it keeps, and rows of servers."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, kinds, per_server = 6, draw(st.integers(1, 2)), draw(st.integers(0, 2))
    count = random.integers(1, 4, kinds)
    labels = [{"rack": str(random.integers(2))} for _ in range(rows)]
    together = draw(st.sampled_from(["", "rack"]))
    kept = Counter()
    for _ in range(int(random.integers(0, 5))):
        rack = str(random.integers(2))
        open_ = [row for row in range(rows) if not together or labels[row]["rack"] == rack]
        pieces = Counter()
        for kind in [kind for kind, number in enumerate(count) for _ in range(number)]:
            free = [r for r in open_ if not per_server or pieces[0, r] + pieces[1, r] < per_server]
            if free:
                pieces[kind, int(random.choice(free))] += 1
        if pieces.total() == count.sum():
            kept += pieces
    problem = Problem.create(
        resources=["gpu"], capacity=[[64]] * rows, server_labels=labels, tenants=["mpi"],
        demand=[[0]], gangs={0: gang(*((n, [1]) for n in count), per_server=per_server,
                                     together=together)},
    )  # fmt: skip
    return keeping(problem, *((kind, row, 0, 1, n) for (kind, row), n in sorted(kept.items())))


@examples(2000)
@given(problem=kept_gangs(), rows=st.sets(st.integers(0, 5)), most=st.integers(0, 5))
def test_kept_tasks_on_some_servers_are_those_of_the_plain_reference(problem, rows, most):
    kept = {(kind, server): n for (_, kind, server), n in kept_pieces(problem).items()}
    tasks, pieces = tasks_on(Pool(problem, "first-fit", 0), 0, kept, rows, most)
    here = np.isin(np.arange(problem.k), list(rows))
    mine = KeptTasks.of(problem)
    found, entries, taken = mine.taken_from(mine.tasks, 0, here, most)
    places = zip(mine.kind[entries].tolist(), mine.row[entries].tolist(), strict=True)
    assert (found, +Counter(dict(zip(places, taken.tolist(), strict=True)))) == (tasks, pieces)
    assert mine.count_on(here, np.array([0])).tolist() == [
        tasks_on(Pool(problem, "first-fit", 0), 0, kept, rows, math.inf)[0]
    ]
    placed = Counter({(kind, row, 0): n for (kind, row), n in kept.items()})
    stated = Stated(problem, Choice(catalogue.DRFH, "indivisible"))
    assert pieces_of_tasks_on(stated, 0, placed, here, most) == (
        tasks, Counter({(kind, row, 0): n for (kind, row), n in pieces.items()})
    )  # fmt: skip


@examples(300)
@given(problem=with_kept(gangs_with_guarantees()))
def test_answers_are_written_and_read(problem):
    problem = on_existing_servers(problem)
    parsed = problem_from_document(
        problem_to_document(ParsedProblem(problem, "drfh", "indivisible"))
    )
    document = allocation_to_document(whole(problem), include=["certificate", "placements"])
    found = verify_answer(parsed, document, parsed.choice)
    assert found.valid, [item for item in found.checks if not item.holds]


def condominium(**fields):
    """Return 2 servers of 8 GPUs each of mpi, which has gangs of 2 servers, and of solo."""
    return Problem.create(
        resources=["gpu"], capacity=[[8], [8]], server_count=[2, 2], contributed_by=[0, 1],
        tenants=["mpi", "solo"], demand=[[16], [1]], tasks=[2, 40], gangs={0: gang((2, [8]))},
        **fields,
    )  # fmt: skip


def test_a_guaranteed_gang_comes_before_single_tasks():
    """Solo has 8 tasks when mpi could start, on all four servers unless they fit on one."""
    problem = cluster(gang((4, [8])), 1)
    assert whole(problem).tasks.tolist() == [1, 0]
    answer = whole(replace(problem, guarantees=(guaranteed(1, 8),)))
    assert (answer.tasks.tolist(), answer.floors.met.tolist()) == ([0, 32], [0, 8])
    answer = whole(replace(problem, guarantees=(guaranteed(0, 32),)))
    assert (answer.tasks.tolist(), answer.floors.met.tolist()) == ([1, 0], [1, 0])


def test_an_amount_guarantees_the_whole_gangs_that_it_is_for():
    """31 GPUs are 1 gang of 24."""
    problem = cluster(gang((3, [8])), 2, guarantees=[guaranteed(0, 31)])
    answer = whole(problem)
    assert (answer.floors.floor.tolist(), answer.floors.met.tolist()) == ([1, 0], [1, 0])


def test_a_guaranteed_gang_needs_servers_for_all_its_pieces():
    """48 GPUs are guaranteed, but a second gang of 3 whole servers has only one."""
    problem = cluster(gang((3, [8])), 2, guarantees=[guaranteed(0, 48)])
    answer = whole(problem)
    assert (answer.floors.floor.tolist(), answer.floors.met.tolist()) == ([2, 0], [1, 0])
    (unmet,) = guarantees_unmet(answer)
    assert (unmet["node"], unmet["met"]) == ({"tenant": "mpi"}, 0.5)
    assert unmet["limited_by"] == ["gang"]


def test_own_servers_run_gangs():
    """Mpi contributed two of three servers. At its turn a and b have two of them without own servers."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], server_count=[1, 2], contributed_by=[-1, 2],
        tenants=["a", "b", "mpi"], demand=[[8], [8], [16]], tasks=[4, 4, 2],
        gangs={2: gang((2, [8]))},
    )  # fmt: skip
    assert whole(problem).tasks.tolist() == [2, 1, 0]
    answer = whole(replace(problem, own_servers=np.array([False, False, True])))
    assert (answer.tasks.tolist(), answer.floors.met.tolist()) == ([1, 0, 1], [0, 0, 1])
    assert {server for kind, server in tasks_on_servers(answer) if kind == 2} == {1, 2}
    assert verify(answer.problem, answer).valid


def test_gangs_on_own_servers_are_together():
    """The first own server is alone in its rack, and the other two are in one."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]] * 3, contributed_by=[0, 0, 0],
        server_labels=[{"rack": "x"}, {"rack": "y"}, {"rack": "y"}], tenants=["mpi"],
        demand=[[16]], gangs={0: gang((2, [8]), together="rack")}, own_servers=[True],
    )  # fmt: skip
    answer = whole(problem)
    assert answer.floors.met.tolist() == [1]
    assert tasks_on_servers(answer) == {(0, 1): 1, (0, 2): 1}
    assert verify(problem, answer).valid


@pytest.mark.parametrize("scope", ["tenant", "group"])
def test_a_guaranteed_gang_runs_in_a_rack_of_servers_that_are_alike_otherwise(scope):
    problem = Problem.create(
        resources=["gpu"], capacity=[[4], [4]], server_count=[1, 2],
        server_labels=[{"age": "new"}, {"age": "new", "rack": "a"}], tenants=["mpi", "solo"],
        groups=["lab"], tenant_group=[0, 0], demand=[[8], [1]], tasks=[2, 2],
        gangs={0: gang((2, [4]), together="rack")}, guarantees=[Guarantee(scope, 0, np.array([8.0]))],
    )  # fmt: skip
    answer = whole(problem)
    assert answer.floors.floor.tolist() == [1, 0]
    assert verify(problem, answer).valid


def test_a_gang_without_room_beside_kept_tasks_leaves_its_servers_to_others():
    """Mpi contributed 3 servers, of which b keeps two. Single tasks of mpi have the third."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[3], contributed_by=[0],
        tenants=["mpi", "b"], workload_tenant=[0, 0, 1], demand=[[16], [1], [8]],
        tasks=[1, 8, 2], priority=[1, 0, 0], gangs={0: gang((2, [8]))}, own_servers=[True, False],
    )  # fmt: skip
    assert whole(problem).floors.met.tolist() == [1, 8, 0]
    answer = whole(keeping(problem, (2, 0, 0, 2, 1)))
    assert (answer.tasks.tolist(), answer.floors.met.tolist()) == ([0, 8, 2], [0, 8, 0])
    assert verify(answer.problem, answer).valid


def kept_pairs(**fields):
    """Return 6 servers of 4 GPUs, 4 of them new, for single tasks of a and pairs of pieces of b."""
    return Problem.create(
        resources=["gpu"], capacity=[[4]] * 6,
        server_labels=[{"age": "old"}] * 2 + [{"age": "new"}] * 4, tenants=["a", "b"],
        demand=[[1], [8]], tasks=[24, 3], gangs={1: gang((2, [4]))}, **fields,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "tasks", "met"),
    [
        ([], [8, 2], [0, 2]),
        # One gang on new servers, then another.
        ([(1, 2, 0, 1, 1), (1, 3, 0, 1, 1)], [8, 2], [0, 2]),
        # The gang on an old and a new server does not count, and one more runs on new ones.
        ([(1, 1, 0, 1, 1), (1, 2, 0, 1, 1)], [8, 2], [0, 1]),
        # Single tasks on new servers leave room for one gang.
        ([(0, 2, 0, 1, 1), (0, 3, 0, 1, 1)], [16, 1], [0, 1]),
    ],
    ids=["nothing", "on new servers", "on an old and a new one", "others"],
)
def test_a_kept_gang_counts_for_a_guarantee_on_all_of_its_servers(kept, tasks, met):
    problem = kept_pairs(guarantees=[guaranteed(1, 16, age=("new",))])
    answer = whole(keeping(problem, *kept))
    assert (answer.tasks.tolist(), answer.floors.met.tolist()) == (tasks, met)
    assert verify(answer.problem, answer).valid


@pytest.mark.parametrize(
    "kept",
    [
        [],
        [(1, 2, 0, 1, 1), (1, 4, 0, 1, 1)],
        [(1, 2, 0, 1, 1), (1, 3, 0, 1, 1), (1, 4, 0, 1, 1), (1, 5, 0, 1, 1)],
        [(0, 0, 0, 1, 4), (0, 1, 0, 1, 4)],
    ],
    ids=["dropped", "elsewhere", "more", "another tenant's"],
)
def test_an_answer_to_other_kept_gangs_is_refused(kept):
    """A gang of b, guaranteed 16 GPUs on new servers, keeps an old and a new one."""
    problem = kept_pairs(guarantees=[guaranteed(1, 16, age=("new",))])
    true = whole(keeping(problem, (1, 1, 0, 1, 1), (1, 5, 0, 1, 1)))
    assert verify(true.problem, true).valid
    forged = replace(whole(keeping(problem, *kept)), problem=true.problem)
    assert not verify(true.problem, forged).valid


@pytest.mark.parametrize(
    ("others", "beside"),
    [
        ([], "kept tasks of others"),
        ([guaranteed(0, 24)], "other guarantees and kept tasks of others"),
    ],
)
def test_the_explanation_names_what_a_guarantee_lacks_room_beside(others, beside):
    """a keeps all 6 servers."""
    problem = kept_pairs(guarantees=[*others, guaranteed(1, 16, age=("new",))])
    answer = whole(keeping(problem, *((0, row, 0, 1, 4) for row in range(6))))
    sentence = explain(answer, 1).sentence
    assert f"2 tasks guaranteed, of which only 0 run beside {beside}" in sentence


def test_a_limit_cuts_gangs_on_own_servers():
    """Mpi contributed 4 servers and may have 16 of their 32 GPUs."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[4], contributed_by=[0], tenants=["mpi"],
        demand=[[16]], gangs={0: gang((2, [8]))}, own_servers=[True],
        limits=[Limit("tenant", 0, np.array([16.0]))],
    )  # fmt: skip
    answer = whole(problem)
    assert (answer.tasks.tolist(), answer.floors.floor.tolist()) == ([1], [1])
    assert verify(problem, answer).valid


def test_gangs_on_own_servers_count_for_a_guarantee_on_all_of_their_servers():
    """Mpi's own 2 servers, one of them new, run 1 gang; 16 new GPUs are guaranteed to it, too."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]] * 4, contributed_by=[0, 0, -1, -1],
        server_labels=[{"age": "old"}, {"age": "new"}, {"age": "new"}, {"age": "new"}],
        tenants=["mpi"], demand=[[16]], gangs={0: gang((2, [8]))}, own_servers=[True],
        guarantees=[guaranteed(0, 16, age=("new",))],
    )  # fmt: skip
    answer = whole(problem)
    assert answer.floors.floor.tolist() == [2]
    near = replace(problem, server_labels=({"age": "new"},) * 4)
    assert whole(near).floors.floor.tolist() == [1]
    assert verify(problem, answer).valid


def test_tasks_that_start_together_are_refused_beside_guarantees():
    problem = cluster(gang((1, [8]), at_least=2), 4, guarantees=[guaranteed(1, 4)])
    with pytest.raises(PolicyNotApplicableError, match="at_least") as error:
        whole(problem)
    assert (error.value.code, error.value.pointer) == ("workload.pieces", "/workloads/0/pieces")


def many_gangs(gpus):
    """Return one own server with so many GPUs, for gangs of 2 pieces of 1 GPU."""
    return Problem.create(
        resources=["gpu"], capacity=[[gpus]], contributed_by=[0], tenants=["mpi"], demand=[[2]],
        gangs={0: gang((2, [1]))}, own_servers=[True],
    )  # fmt: skip


def test_gangs_are_placed_on_own_servers_within_the_time_limit():
    problem = many_gangs(8)
    pools = pools_of(problem, server_classes(problem), whole=True)
    answers = whole(problem).floors.pools
    later = time.monotonic() + 60
    assert alone_on_own_servers(problem, pools, answers, later).per_workload(problem).tolist() == [
        4
    ]
    with pytest.raises(SolveTimeoutError):
        alone_on_own_servers(problem, pools, answers, time.monotonic())


def test_a_forged_number_of_gangs_is_refused_without_placing_them():
    answer, large = whole(many_gangs(8)), many_gangs(1e9)
    pool = replace(answer.floors.pools[0], problem=large, tasks=np.array([5e8]))
    forged = replace(answer, problem=large, floors=replace(answer.floors, pools=(pool,)))
    assert not verify(large, forged).valid


@pytest.mark.parametrize("per_server", [0, 1])
def test_pieces_stay_if_those_on_the_guarantees_servers_make_its_tasks(per_server):
    """8 new GPUs are guaranteed, and two pieces of 4 run on a new server, two on an old one.

    With one piece of a task on a server, both tasks have a piece on the old server.
    """
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], server_count=[2, 2],
        server_labels=[{"age": "new"}, {"age": "old"}], tenants=["mpi", "u"], demand=[[8], [1]],
        tasks=[2, 4], gangs={0: gang((2, [4]), per_server=per_server)},
        guarantees=[guaranteed(0, 8, age=("new",))],
    )  # fmt: skip
    running = placed((0, 0, 0, 1, 2), (0, 1, 0, 1, 2))
    answer = whole(problem, running)
    assert answer.tasks.tolist() == [2, 4]
    assert (answer.moved == 0) == (per_server == 0)
    assert verify(problem, answer, running=running).valid
    new, old = tasks_on_servers(answer)[0, 0], tasks_on_servers(answer)[0, 1]
    assert per_server == 0 or min(new, old) == 1
    # The same counts where the tasks ran, as a forged answer has them.
    without = replace(problem, guarantees=())
    stay = whole(without, running)
    forged = replace(stay, problem=problem, floors=answer.floors)
    assert stay.moved == 0
    assert verify(problem, forged, running=running).valid == (per_server == 0)


def test_gangs_with_guarantees_on_several_sets_of_servers_are_placed_anew():
    """The task in rack y counts for neither of two guarantees, each of which has a server of it."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[4], [8], [4]],
        server_labels=[
            {"s": "1", "rack": "y"}, {"s": "12", "rack": "x"}, {"s": "2", "rack": "y"},
        ],
        tenants=["mpi"], demand=[[8]], tasks=[2], gangs={0: gang((2, [4]), together="rack")},
        guarantees=[guaranteed(0, 8, s=("1", "12")), guaranteed(0, 8, s=("12", "2"))],
    )  # fmt: skip
    running = placed((0, 0, 0, 1, 1), (0, 1, 0, 1, 2), (0, 2, 0, 1, 1))
    answer, fresh = whole(problem, running), whole(problem)
    assert tasks_on_servers(answer) == tasks_on_servers(fresh)
    assert verify(problem, answer, running=running).valid


def placed(*rows):
    """Return placements of (kind, row, offset, servers, pieces)."""
    kind, row, offset, servers, tasks = np.array(rows).T
    return CurrentPlacements(
        workload=kind, row=row, offset=offset, servers=servers, tasks=tasks.astype(float)
    )


def test_what_a_limit_takes_from_single_tasks_goes_to_those_after_them():
    """Three own servers of 5 for a task of 4, a gang of 2 pieces of 5, and a task of 1."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[5]], server_count=[3], contributed_by=[0], tenants=["t", "u"],
        workload_tenant=[0, 0, 0, 1], demand=[[4], [10], [1], [1]], tasks=[1, 1, 1, 9],
        gangs={1: gang((2, [5]))}, own_servers=[True, False],
    )  # fmt: skip
    assert whole(problem).floors.met.tolist() == [1, 1, 1, 0]
    cut = replace(problem, limits=(Limit("workload", 0, np.array([0.0])),))
    answer = whole(cut)
    assert answer.floors.met.tolist() == [0, 1, 1, 0]
    assert verify(cut, answer).valid


@pytest.mark.parametrize(
    ("pieces", "together"),
    [([(1, [0, 1]), (1, [1, 0])], ""), ([(2, [1, 0])], "rack")],
    ids=["a head that needs other servers", "no server with the label"],
)
def test_a_guarantee_is_not_for_gangs_that_cannot_run_on_its_servers(pieces, together):
    """8 new GPUs are guaranteed to t, whose second workload can run there."""
    problem = Problem.create(
        resources=["gpu", "cpu"], capacity=[[8, 0], [8, 8]],
        server_labels=[{"age": "new"}, {"age": "old"}], tenants=["t"], workload_tenant=[0, 0],
        demand=[[1, 0], [1, 0]], tasks=[1, 8], priority=[1, 0],
        gangs={0: gang(*pieces, together=together)},
        guarantees=[Guarantee("tenant", 0, np.array([8.0, np.inf]), {"age": ("new",)})],
    )  # fmt: skip
    answer = whole(problem)
    assert answer.floors.met.tolist() == [0, 8]
    assert verify(problem, answer).valid


@pytest.mark.parametrize("gangs", [{}, {0: gang((2, [0.5]))}], ids=["single", "gang"])
def test_demands_out_of_range_have_no_floor_on_own_servers(gangs):
    problem = Problem.create(
        resources=["gpu"], capacity=[[1], [9e11]], contributed_by=[0, -1], tenants=["t", "u"],
        demand=[[1], [1e9]], tasks=[2, 4], own_servers=[True, False], gangs=gangs,
    )  # fmt: skip
    answer = whole(problem)
    assert (answer.limited_by[0], answer.floors.floor.tolist()) == ("out_of_range", [0, 0])
    assert verify(problem, answer).valid


@pytest.mark.parametrize("gangs", [{}, {0: gang((2, [4]))}], ids=["single", "gang"])
def test_answers_with_other_parts_are_refused(gangs):
    """The answer of the pool of own servers is forged to have no task, so that it has no part."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], contributed_by=[0, -1], tenants=["t", "u"],
        demand=[[8], [1]], tasks=[2, 4], own_servers=[True, False], gangs=gangs,
    )  # fmt: skip
    answer = whole(problem)
    (pool,) = answer.floors.pools
    floors = replace(answer.floors, pools=(replace(pool, tasks=pool.tasks * 0),))
    assert not verify(problem, replace(answer, floors=floors)).valid


def test_the_explanation_states_that_pieces_have_no_room():
    answer = whole(cluster(gang((3, [8])), 2, guarantees=[guaranteed(0, 48)]))
    assert (
        "2 tasks guaranteed, of which only 1 run as servers lack room for all pieces of one more task"
        in explain(answer, 0).sentence
    )


@pytest.mark.parametrize(
    "forge",
    [
        lambda answer: replace(answer, tasks=answer.tasks + np.array([-1, 8])),
        lambda answer: replace(answer, floors=replace(answer.floors, met=answer.floors.met * 0)),
        lambda answer: replace(
            answer, placement_class=np.roll(answer.placement_class, 1)
        ),
        lambda answer: replace(
            answer, floors=replace(answer.floors, raised=answer.floors.rest)
        ),
    ],
    ids=["fewer gangs", "floors unmet", "other servers", "another first step"],
)  # fmt: skip
def test_forged_answers_are_refused(forge):
    answer = whole(condominium(own_servers=[True, False], guarantees=[guaranteed(1, 4)]))
    assert verify(answer.problem, answer).valid
    assert not verify(answer.problem, forge(answer)).valid
