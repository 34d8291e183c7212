"""Identical servers of several owners: few tenants on each, nobody's load lost, nobody's overfilled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Problem, solve
from policies.explaining.lending import tasks_by_owner, tasks_by_owner_and_label
from tests.examples import examples
from tests.unit.policies.problems import demands, problem_of


@st.composite
def shared_classes(draw):
    """Up to three classes of identical servers, each in the hands of many owners."""
    m, t = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    capacity, owner, count, labels = [], [], [], []
    for kind in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 7))):
            capacity.append([1.0 + (kind + r) % 3 for r in range(m)])
            owner.append(draw(st.integers(-1, t - 1)))
            count.append(draw(st.integers(1, 4)))
            labels.append(draw(st.sampled_from([{}, {"cluster": "east"}, {"cluster": "west"}])))
    n = draw(st.integers(1, 8))
    one = st.lists(demands, min_size=m, max_size=m).filter(any)
    return Problem.create(
        resources=("cpu", "memory", "gpu")[:m],
        capacity=capacity,
        server_count=count,
        server_labels=labels,
        contributed_by=owner,
        tenants=[f"u{i}" for i in range(t)],
        demand=draw(st.lists(one, min_size=n, max_size=n)),
        workload_tenant=draw(st.lists(st.integers(0, t - 1), min_size=n, max_size=n)),
        tasks=draw(st.lists(st.sampled_from([np.inf, 1, 3]), min_size=n, max_size=n)),
    )


def by_owner(problem, workload, owner, tasks):
    """(t + 1, m) load of each owner's servers, the pool's own first."""
    load = np.zeros((problem.t + 1, problem.m))
    np.add.at(load, owner + 1, tasks[:, None] * problem.demand[workload])
    return load


@examples(500)
@given(problem=shared_classes())
def test_every_owner_carries_the_load_of_even_spreading_by_fewer_pairs(problem):
    allocation = solve(problem, "drfh")
    workload, owner, tasks = tasks_by_owner(allocation)
    even_workload, row, even = allocation.placements_by_row()
    assert np.bincount(workload, tasks, problem.n) == pytest.approx(allocation.tasks)
    assert by_owner(problem, workload, owner, tasks) == pytest.approx(
        by_owner(problem, even_workload, problem.contributed_by[row], even), abs=1e-9
    )
    assert (tasks > 0).all()
    most = 0
    for server_class in range(allocation.classes.count):
        on = int((allocation.placement_class == server_class).sum())
        rows = allocation.classes.rows_of(server_class)
        owners = len(np.unique(problem.contributed_by[rows]))
        most += on + problem.m * (owners - 1) if on else 0
    assert len(tasks) <= most


@examples(100)
@given(problem=shared_classes())
def test_whole_tasks_are_where_they_were_placed(problem):
    allocation = solve(problem, "drfh", mode="indivisible")
    workload, owner, tasks = tasks_by_owner(allocation)
    where = {}
    for j, row, placed in zip(*allocation.placements_by_row(), strict=True):
        pair = (j, problem.contributed_by[row])
        where[pair] = where.get(pair, 0) + placed
    assert {(j, o): x for j, o, x in zip(workload, owner, tasks, strict=True)} == where


def test_who_needs_no_more_than_its_own_servers_borrows_nothing():
    """Ten tenants with one of ten identical servers each, and demands alike."""
    problem = problem_of([[4, 4]] * 10, [[1, 2]] * 10, contributed_by=range(10))
    workload, owner, tasks = tasks_by_owner(solve(problem, "drfh"))
    assert workload.tolist() == owner.tolist() == list(range(10))
    assert tasks == pytest.approx(np.full(10, 2.0))


def test_what_one_has_too_much_of_the_other_borrows():
    """u1 wants 1 task; u2 takes the rest of its own server and all that is left of u1's."""
    problem = problem_of([[4]] * 2, [[1], [1]], contributed_by=[0, 1], tasks=[1, np.inf])
    columns = tasks_by_owner(solve(problem, "drfh"))
    told = {(int(j), int(o)): x for j, o, x in zip(*columns, strict=True)}
    assert told == pytest.approx({(0, 0): 1.0, (1, 0): 3.0, (1, 1): 4.0})


def test_nothing_placed_is_nothing_told():
    problem = problem_of([[1, 1]], [[2, 2]], tasks=[0])
    assert [len(column) for column in tasks_by_owner(solve(problem, "drfh"))] == [0, 0, 0]


@examples(200)
@given(problem=shared_classes(), mode=st.sampled_from(["divisible", "indivisible"]))
def test_values_of_a_label_divide_what_runs_on_the_servers_of_an_owner(problem, mode):
    allocation = solve(problem, "drfh", mode=mode)
    piece, owner, value, tasks = tasks_by_owner_and_label(allocation, "cluster")
    divided = {}
    for j, o, x in zip(piece.tolist(), owner.tolist(), tasks.tolist(), strict=True):
        divided[j, o] = divided.get((j, o), 0) + x
    whole = zip(*(column.tolist() for column in tasks_by_owner(allocation)), strict=True)
    assert divided == pytest.approx({(j, o): x for j, o, x in whole})
    assert (tasks > 0).all()
    # No servers of an owner and a value carry more than they have.
    room, load = {}, {}
    for row, labels in enumerate(problem.server_labels):
        at = int(problem.contributed_by[row]), labels.get("cluster")
        room[at] = room.get(at, 0) + problem.row_capacity[row]
    for j, *at, x in zip(piece, owner.tolist(), value, tasks, strict=True):
        load[tuple(at)] = load.get(tuple(at), 0) + x * problem.demand[j]
    assert all((load[at] <= room[at] * (1 + 1e-9) + 1e-9).all() for at in load)


def test_identical_servers_that_are_not_distinguished_are_divided_by_their_number():
    labels = [{"cluster": "east"}, {"cluster": "west"}, {}]
    problem = problem_of([[4]] * 3, [[1]], server_count=[1, 2, 1], server_labels=labels)
    piece, owner, value, tasks = tasks_by_owner_and_label(solve(problem, "drfh"), "cluster")
    assert (piece.tolist(), owner.tolist(), value) == ([0] * 3, [-1] * 3, [None, "east", "west"])
    assert tasks == pytest.approx([4, 4, 8])
    nothing = solve(problem_of([[1, 1]], [[2, 2]], tasks=[0]), "drfh")
    assert [len(column) for column in tasks_by_owner_and_label(nothing, "cluster")] == [0] * 4
