"""Sentences about tasks of several pieces that wait, and the pieces that have room."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    Problem,
    explain,
)
from policies.explaining.gang_room import room_for_pieces
from tests.examples import examples
from tests.references.gangs import Pool, launch
from tests.references.numbers import exact
from tests.unit.policies.problems import problems
from tests.unit.policies.test_filling_properties import PLACEMENTS, tasks_on_servers
from tests.unit.policies.test_gangs import MPI, cluster, gang, gang_problems, whole
from tests.unit.policies.trees import problems_with_limits


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


def test_pieces_of_tasks_that_start_together_are_counted_with_a_rack_for_each_task():
    sentence = waiting((2, [8]), at_least=3, together="rack", racks="ab", servers=3)
    assert sentence.endswith(
        "stopped: even on empty servers, only 5 of 6 pieces of the tasks that must start together fit,"
        " each task on servers with one value of rack."
    )


def test_fewer_tasks_than_start_together_are_named():
    sentence = waiting((1, [4]), at_least=3, tasks=2)
    assert sentence.endswith("stopped: it has 2 tasks, but at least 3 must start together.")


def test_tasks_of_one_piece_that_start_together_are_counted_as_tasks():
    sentence = waiting((1, [4]), at_least=9)
    assert "even on empty servers, only 4 of 9 tasks that must start together fit." in sentence


def test_a_workload_that_runs_starts_one_more_task():
    """The first 2 tasks fill 4 of 5 servers, and the third needs 2."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[5], tenants=["mpi"], demand=[[0]], tasks=[3],
        gangs={0: gang((2, [8]), at_least=2)},
    )  # fmt: skip
    answer = whole(problem)
    assert answer.tasks.tolist() == [2]
    sentence = explain(answer, 0).sentence
    assert "1 of 2 pieces of one more task fit; the largest free place has 8 gpu." in sentence


def test_the_largest_free_place_is_one_that_the_workload_may_use():
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [16]], server_labels=[{"a": "x"}, {}], tenants=["b", "mpi"],
        demand=[[3], [0]], tasks=[1, 1], gangs={1: gang((2, [3]))}, selectors=[{"a": "x"}, {"a": "x"}],
    )  # fmt: skip
    answer = whole(problem)
    assert answer.tasks.tolist() == [1, 0]
    sentence = explain(answer, 1).sentence
    assert "1 of 2 pieces of one more task fit; the largest free place has 5 gpu." in sentence


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
