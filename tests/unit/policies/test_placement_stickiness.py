"""Tasks stay on the servers they run on wherever the same counts can be had that way."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    CurrentPlacements,
    Limit,
    Problem,
    ProblemError,
    current_placements_of,
    problem_from_document,
    solve,
    verify,
)
from policies.documents.problem import ParsedProblem, problem_to_document
from tests.examples import examples
from tests.unit.policies.problems import problem_of, problems
from tests.unit.policies.test_filling_properties import tasks_on_servers

PLACEMENTS = ("best-fit", "first-fit", "affinity", "two-choices")


def whole(problem, running=None, placement="best-fit"):
    return solve(
        problem, "drfh", mode="indivisible", options={"placement": placement}, running=running
    )


def moved_by_hand(before, after, workloads):
    """Tasks that run before and after, less those that run on the same server."""
    ran, runs = (
        [sum(n for (j, _), n in placed.items() if j == job) for job in range(workloads)]
        for placed in (before, after)
    )
    stayed = sum(min(n, after[where]) for where, n in before.items())
    return sum(map(min, ran, runs)) - stayed


def test_the_objective_follows_the_reasons_of_where_tasks_stay():
    """Where Y stays on the server of 4, no server has room for X, which its limit stopped before."""
    problem = Problem.create(
        resources=["cpu"], capacity=[[1], [4], [4]],
        server_labels=[{"zone": "c"}, {"zone": "a"}, {"zone": "b"}], tenants=["x", "y"],
        demand=[[2], [1]], tasks=[np.inf, 1],
        limits=[Limit("workload", 0, np.array([2.0]), {"zone": "a"})],
    )  # fmt: skip
    assert whole(problem).limited_by[0] == "limit:workload"
    running = CurrentPlacements(
        workload=np.array([1]), row=np.array([1]), offset=np.array([0]), servers=np.array([1]),
        tasks=np.array([1.0]),
    )  # fmt: skip
    stays = whole(problem, running)
    assert (stays.moved, stays.limited_by[0]) == (0, "resource:cpu")
    assert stays.objective == stays.level[0]
    assert verify(problem, stays, running=running).valid


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(60)
@given(problem=problems())
def test_with_nothing_changed_nothing_moves(placement, problem):
    first = whole(problem, placement=placement)
    again = whole(problem, current_placements_of(first), placement)
    assert again.moved == 0
    assert tasks_on_servers(again) == tasks_on_servers(first)
    assert again.limited_by == first.limited_by


@examples(500)
@given(problem=problems(max_tenants=5), data=st.data())
def test_counts_never_depend_on_what_runs_and_moves_are_counted(problem, data):
    """Some workloads want other numbers of tasks than when the tasks were placed."""
    limits = st.sampled_from([0.0, 1.0, 2.0, 4.0, np.inf])
    tasks = np.array(data.draw(st.lists(limits, min_size=problem.n, max_size=problem.n)))
    before = whole(replace(problem, tasks=tasks))
    running = current_placements_of(before)
    fresh, after = whole(problem), whole(problem, running)
    assert after.tasks.tolist() == fresh.tasks.tolist()
    assert after.level.tobytes() == fresh.level.tobytes()
    assert verify(problem, after, running=running).valid
    placed = tasks_on_servers(before)
    assert after.moved == moved_by_hand(placed, tasks_on_servers(after), problem.n)
    assert after.moved <= moved_by_hand(placed, tasks_on_servers(fresh), problem.n)


@examples(100)
@given(problem=problems(max_servers=5), data=st.data())
def test_servers_that_leave_take_only_their_own_tasks_along(problem, data):
    before = whole(problem)
    gone = np.array(data.draw(st.lists(st.booleans(), min_size=problem.k, max_size=problem.k)))
    smaller = replace(problem, contributed_only=problem.contributed_only | gone)
    running = current_placements_of(before)
    after = whole(smaller, running)
    assert verify(smaller, after, running=running).valid
    assert after.tasks.tolist() == whole(smaller).tasks.tolist()


def test_a_newcomer_moves_nobody_where_there_is_room():
    """Fresh best-fit would put the newcomer's tasks where the others' run."""
    servers = [[4, 4], [4, 4], [8, 2]]
    old = problem_of(servers, [[1, 1], [2, 0.5]], tasks=[4, 2])
    new = problem_of(servers, [[1, 1], [2, 0.5], [1, 0.5]], tasks=[4, 2, 5])
    running = current_placements_of(whole(old))
    kept = whole(new, running)
    assert kept.tasks.tolist() == [4, 2, 5]
    assert kept.moved == 0
    placed = tasks_on_servers(whole(old))
    assert all(tasks_on_servers(kept)[where] == n for where, n in placed.items())


def test_tasks_of_servers_that_are_gone_count_as_moved():
    problem = problem_of([[4, 4], [4, 4]], [[1, 1]], tasks=[3])
    gone = CurrentPlacements(
        workload=np.array([0]), row=np.array([-1]), offset=np.array([0]),
        servers=np.array([1]), tasks=np.array([2.0]),
    )  # fmt: skip
    assert whole(problem, gone).moved == 2


def test_running_tasks_of_a_document_without_servers_are_read():
    """A pool decides in this way after its last server left."""
    document = problem_to_document(
        ParsedProblem(problem_of([[4, 4]], [[1, 1]]), "drfh", "indivisible")
    )
    entry = {"tenant": "u1", "workload": "workload-0001", "server": "", "servers": 2, "tasks": 3}
    read = problem_from_document(document | {"servers": [], "running": [entry]})
    assert (read.running.row.tolist(), read.running.tasks.tolist()) == ([-1], [3])
    assert whole(read.problem, read.running).tasks.tolist() == [0]


def test_running_tasks_in_a_document_read_back_the_same():
    problem = problem_of([[4, 4], [2, 8]], [[1, 1], [0.5, 2]], server_count=[3, 2], tasks=[5, 4])
    answer = whole(problem)
    parsed = ParsedProblem(problem, "drfh", "indivisible", running=current_placements_of(answer))
    read = problem_from_document(problem_to_document(parsed)).running
    assert whole(problem, read).moved == 0


@pytest.mark.parametrize(
    ("entry", "code", "pointer"),
    [
        ({"server": "server-0001"}, "field.missing", "/running/0/tenant"),
        ({"tasks": -1}, "number.negative", "/running/0/tasks"),
        ({"tasks": 1.5}, "field.type", "/running/0/tasks"),
        ({"offset": 1}, "running.server", "/running/0/servers"),
        ({"host": "x"}, "field.unknown", "/running/0/host"),
    ],
)
def test_what_cannot_run_is_refused(entry, code, pointer):
    document = problem_to_document(
        ParsedProblem(problem_of([[4, 4]], [[1, 1]]), "drfh", "indivisible")
    )
    whole_entry = {"tenant": "u1", "workload": "workload-0001", "server": "server-0001", "tasks": 1}
    document["running"] = [entry if code == "field.missing" else whole_entry | entry]
    with pytest.raises(ProblemError) as refused:
        problem_from_document(document)
    assert (refused.value.code, refused.value.pointer) == (code, pointer)
