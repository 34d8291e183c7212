"""Running tasks of several pieces, which stay on their servers whole or not at all."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    CurrentPlacements,
    Problem,
    current_placements_of,
    solve,
    verify,
)
from policies.filling.kept_tasks import kept_tasks
from tests.examples import examples
from tests.unit.policies.problems import problems
from tests.unit.policies.test_filling_properties import PLACEMENTS, tasks_on_servers
from tests.unit.policies.test_gangs import LONG_TERM, MPI, SOLO, cluster, gang, gang_problems, whole
from tests.unit.policies.trees import problems_with_limits


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
