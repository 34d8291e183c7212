"""MRFS (2020): its placement, its penalty, and FFMRA as it describes it."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers.ffmra import divide_server
from papers.penalty import hosted_requests, mean_dominant_demand, penalty
from policies import SolveTimeoutError, solve, verify
from tests.examples import examples
from tests.references.mrfs import place
from tests.unit.policies.problems import problem_of, problems

PAPER_USERS = [[3, 1], [5, 3], [1, 5], [2, 7], [4, 9]]


@examples(500)
@given(problem=problems(max_servers=3))
def test_it_places_as_the_reference_does(problem):
    answer = solve(problem, "mrfs")
    log, count = place(problem)
    assert answer.tasks.tolist() == count
    assert verify(problem, answer).valid
    expected = {}
    for j, row, _ in log:
        expected[j, row] = expected.get((j, row), 0) + 1
    columns = (column.tolist() for column in answer.placements_by_row())
    assert {(j, row): tasks for j, row, tasks in zip(*columns, strict=True)} == expected
    ranges = (column.tolist() for column in answer.placements_by_range())
    on_servers = sorted(
        (j, row, offset + i, tasks)
        for j, row, offset, servers, tasks in zip(*ranges, strict=True)
        for i in range(servers)
    )
    # servers of a row are numbered one after the other in both
    starts = np.concatenate([[0], np.cumsum(_offered(problem))])
    rank = {row: i for i, row in enumerate(_rows(problem))}
    found = {}
    for j, row, server in log:
        key = (j, row, server - int(starts[rank[row]]))
        found[key] = found.get(key, 0) + 1
    assert on_servers == sorted((*key, tasks) for key, tasks in found.items())


def _rows(problem):
    return [
        row
        for row in range(problem.k)
        if not problem.contributed_only[row] and problem.capacity[row].any()
    ]


def _offered(problem):
    return [int(problem.server_count[row]) for row in _rows(problem)]


def test_the_paper_s_five_users_are_spread_evenly_over_two_servers():
    problem = problem_of([[12, 18]], PAPER_USERS, server_count=[2], tasks=[1] * 5)
    answer = solve(problem, "mrfs")
    assert answer.tasks.tolist() == [1, 1, 1, 1, 1]
    requests, _ = hosted_requests(answer)
    servers = np.repeat(np.arange(answer.classes.count), answer.classes.servers)
    assert requests[servers].tolist() == [[1, 2], [1, 1]]
    on = dict(zip(answer.placement_workload, answer.placement_class, strict=True))
    assert [int(on[j]) for j in range(5)] == [0, 1, 0, 1, 0]


def test_on_one_server_dominance_is_by_its_own_capacity():
    problem = problem_of([[10, 100], [100, 10]], [[2, 4]], tasks=[2])
    requests, total = hosted_requests(solve(problem, "mrfs"))
    assert requests.tolist() == [[1, 0], [0, 1]]
    assert total.tolist() == [[2, 0], [0, 4]]


TABLE_II = [
    (2457.352941, 10203.4375, 0.264436581),
    (2600, 10289.0625, 0.254453125),
    (2705.588235, 9435.625, 0.201222426),
    (2720.882353, 9909.375, 0.223380515),
    (2173.333333, 8273.888889, 0.196361111),
    (2457.255882, 10203.25, 0.264436912),
]


@pytest.mark.parametrize(("cpu", "ram", "alpha"), TABLE_II)
def test_table_2_follows_from_the_capacities(cpu, ram, alpha):
    found = penalty(np.array([cpu, ram]), np.array([10000.0, 20000.0]))
    assert found == pytest.approx(alpha, abs=1e-9)


def test_the_penalty_of_more_resources_is_the_spread_and_of_none_is_nothing():
    assert penalty(np.array([5.0, 2.0, 8.0]), np.array([10.0, 10.0, 10.0])) == pytest.approx(0.6)
    assert penalty(np.array([5.0, 2.0]), np.array([10.0, 0.0])) == 0
    mean = mean_dominant_demand(np.array([6.0, 0.0]), np.array([4.0, 0.0]))
    assert mean.tolist() == [1.5, 0]


def test_ffmra_divides_every_resource_between_the_two_groups_by_their_demand():
    """MRFS §III, users A to D on a server of 15 CPU and 36 GB that cannot give all they need twice."""
    need = 3 * np.array(PAPER_USERS[:4], dtype=float)
    given = divide_server(np.array([15.0, 36.0]), need, np.ones(4))
    # CPU: A and B, for whom it is dominant, need 24 of 33; half each, and so do the others.
    cpu = 15 * 24 / 33
    assert given[:, 0] == pytest.approx([cpu / 2, cpu / 2, (15 - cpu) / 2, (15 - cpu) / 2])
    # Memory: C and D need 36 of 48: 13.5 each, the others 4.5 each, of which A needs 3. The 1.5
    # that it leaves goes round again: 1 for C and D, who still need 9, 0.5 for B, who needs 4.5.
    assert given[:, 1] == pytest.approx([3, 5, 14, 14])


def test_a_need_that_is_met_but_for_rounding_is_met():
    need = np.array([[0.5], [2.0], [0.5], [5.0]])
    given = divide_server(np.array([10.0]), need, np.array([1.0, 1.0, 2.0, 1.0]))
    assert given.tolist() == need.tolist()


@st.composite
def servers(draw):
    m, users = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    amount = st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0, 9.0])
    need = draw(
        st.lists(
            st.lists(amount, min_size=m, max_size=m).filter(any), min_size=users, max_size=users
        )
    )
    capacity = draw(st.lists(st.sampled_from([0.0, 1.0, 4.0, 10.0]), min_size=m, max_size=m))
    weight = draw(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=users, max_size=users))
    return np.array(capacity), np.array(need), np.array(weight)


@examples(500)
@given(server=servers())
def test_ffmra_gives_nobody_more_than_it_needs_and_leaves_nothing_that_is_needed(server):
    capacity, need, weight = server
    given_ = divide_server(capacity, need, weight)
    assert (given_ >= 0).all()
    assert (given_ <= need).all()
    expected = np.minimum(capacity, need.sum(axis=0))
    assert np.allclose(given_.sum(axis=0), expected, rtol=1e-12)
    order = np.arange(len(need))[::-1]
    assert np.allclose(divide_server(capacity, need[order], weight[order])[order], given_)
    again = divide_server(capacity * 4, need * 4, weight)
    assert np.allclose(again, given_ * 4)


def test_a_tampered_placement_is_found_out():
    problem = problem_of([[12, 18]], PAPER_USERS, server_count=[2], tasks=[1] * 5)
    answer = solve(problem, "mrfs")
    wrong = dataclasses.replace(answer, tasks=answer.tasks + np.array([0, 0, 0, 0, -1.0]))
    assert not verify(problem, wrong).valid


def test_a_time_limit_is_kept():
    with pytest.raises(SolveTimeoutError):
        solve(problem_of([[1e8, 1e8]], [[1, 1], [1, 1]]), "mrfs", time_limit=0.2)
