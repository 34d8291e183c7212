"""Whole tasks against the slow reference: the same counts, on the same servers."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Problem, solve, verify
from tests.examples import examples
from tests.references.filling import fill, stand_alone
from tests.unit.policies.problems import problems

EXAMPLES = examples(500)
PLACEMENTS = ("best-fit", "first-fit", "affinity", "two-choices")


def tasks_on_servers(answer):
    """{(workload, server): tasks}; servers numbered row by row, offering rows only."""
    problem = answer.problem
    offering = (problem.row_capacity > 0).any(axis=1)
    start = np.cumsum(problem.server_count * offering) - problem.server_count * offering
    placed = Counter()
    columns = (column.tolist() for column in answer.placements_by_range())
    for j, row, offset, servers, tasks in zip(*columns, strict=True):
        for server in range(offset, offset + servers):
            placed[j, int(start[row]) + server] += int(tasks)
    return placed


@EXAMPLES
@given(problems(selectors=False))
def test_drf_launches_what_algorithm_1_launches(problem):
    answer = solve(problem, "drf", mode="indivisible")
    _, count = fill(problem, "pool")
    assert answer.tasks.tolist() == count
    assert verify(problem, answer).valid


@pytest.mark.parametrize("placement", PLACEMENTS)
@EXAMPLES
@given(problem=problems(), seed=st.integers(0, 3))
def test_drfh_puts_every_task_where_the_rule_says(placement, problem, seed):
    options = {"placement": placement}
    if placement == "two-choices":
        options["seed"] = seed
    answer = solve(problem, "drfh", mode="indivisible", options=options)
    launched, count = fill(problem, placement, seed)
    assert answer.tasks.tolist() == count
    assert tasks_on_servers(answer) == Counter(launched)
    assert verify(problem, answer).valid


@examples(50)
@given(problems())
def test_the_same_problem_gives_the_same_placement(problem):
    first, second = (solve(problem, "drfh", mode="indivisible") for _ in range(2))
    for mine, theirs in zip(first.placements_by_range(), second.placements_by_range(), strict=True):
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("policy", ["asset", "slots", "single-resource"])
@EXAMPLES
@given(problem=problems(selectors=False))
def test_the_rivals_launch_what_their_shares_say(policy, problem):
    answer = solve(problem, policy, mode="indivisible")
    _, count = fill(problem, policy)
    assert answer.tasks.tolist() == count
    assert verify(problem, answer).valid


@EXAMPLES
@given(problem=problems())
def test_static_partitions_run_what_fits_server_by_server(problem):
    answer = solve(problem, "static")
    assert answer.tasks.tolist() == stand_alone(problem)
    assert verify(problem, answer).valid


@pytest.mark.parametrize("resources", [3, 4, 6])
def test_best_fit_finds_the_server_among_many_unlike_ones(resources):
    """More servers than are scanned without bounds of chunks, filled until they are out of order."""
    chance = np.random.default_rng(resources)
    servers, workloads = 400, 9
    capacity = chance.integers(0, 9, (servers, resources)) / 4
    # Rows that are alike tie, and some have none of the first resource.
    capacity[::7] = capacity[0]
    demand = chance.integers(0, 9, (workloads, resources)) / 16
    demand[0, 0] = 0.0  # refers to another resource
    demand[:, -1] += 1 / 16
    problem = Problem.create(
        resources=[f"r{number}" for number in range(resources)],
        capacity=capacity,
        server_labels=[{"half": str(number % 2)} for number in range(servers)],
        tenants=[f"t{number}" for number in range(workloads)],
        demand=demand,
        tasks=chance.integers(20, 90, workloads),
        selectors=[{"half": "1"} if number % 3 == 1 else {} for number in range(workloads)],
    )
    answer = solve(problem, "drfh", mode="indivisible", options={"placement": "best-fit"})
    launched, count = fill(problem, "best-fit")
    assert answer.tasks.tolist() == count
    assert tasks_on_servers(answer) == Counter(launched)
