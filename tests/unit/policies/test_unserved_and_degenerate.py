"""Workloads that cannot be served, and pools with next to nothing in them."""

import numpy as np
import pytest

from policies import Problem, solve, verify
from tests.unit.policies.problems import problem_of

POLICIES = ("drf", "drfh", "static")


def answer_to(problem, policy="drfh"):
    answer = solve(problem, policy)
    assert verify(problem, answer).valid, verify(problem, answer)
    return answer


def test_what_no_server_has_is_resource_absent_and_changes_nobody_else():
    alone = answer_to(problem_of([[4, 4, 0]], [[1, 1, 0]]))
    both = answer_to(problem_of([[4, 4, 0]], [[1, 1, 0], [1, 1, 1]]))
    assert both.limited_by == ("resource:cpu", "resource_absent")
    assert both.tasks.tolist() == [alone.tasks[0], 0]


def test_a_selector_that_matches_nothing_is_no_eligible_server():
    answer = answer_to(problem_of([[4, 4]], [[1, 1], [1, 1]], selectors=[{}, {"zone": "a"}]))
    assert answer.limited_by == ("resource:cpu", "no_eligible_server")
    assert answer.tasks == pytest.approx([4, 0])


def test_resources_that_no_one_server_has_together_are_no_eligible_server():
    answer = answer_to(problem_of([[4, 0], [0, 4]], [[1, 1], [1, 0]]))
    assert answer.limited_by == ("no_eligible_server", "resource:cpu")
    assert answer.tasks == pytest.approx([0, 4])


@pytest.mark.parametrize("demand", [4e-9 * 0.99, 4e9 * 1.01])
def test_a_demand_beyond_what_floating_point_is_trusted_with_is_out_of_range(demand):
    answer = answer_to(problem_of([[4, 4]], [[1, demand], [1, 1]]))
    assert answer.limited_by == ("out_of_range", "resource:cpu")
    assert answer.tasks == pytest.approx([0, 4])


def test_a_demand_of_a_billion_servers_is_huge_but_served_in_part():
    answer = answer_to(problem_of([[4, 4]], [[3.9e9, 1], [1, 1]]))
    assert answer.tenant_share[0] == pytest.approx(answer.tenant_share[1])
    assert answer.tasks[0] > 0


def test_no_task_wanted_is_a_task_limit():
    answer = answer_to(problem_of([[4, 4]], [[1, 1], [1, 1]], tasks=[0, np.inf]))
    assert answer.limited_by == ("task_limit", "resource:cpu")
    assert answer.tasks == pytest.approx([0, 4])


def test_everybody_gets_everything_where_there_is_enough():
    answer = answer_to(problem_of([[40, 40], [9, 3]], [[1, 2], [2, 1]], tasks=[3, 5]))
    assert answer.tasks == pytest.approx([3, 5])
    assert answer.limited_by == ("task_limit", "task_limit")
    assert answer.gap == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_pool_without_servers_serves_nobody(policy):
    problem = problem_of(np.zeros((0, 2)), [[1, 1], [1, 0]])
    answer = answer_to(problem, policy)
    assert answer.tasks.tolist() == [0, 0]
    assert answer.limited_by == ("resource_absent", "resource_absent")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_pool_without_workloads_or_tenants_has_an_empty_answer(policy):
    problem = Problem.create(
        resources=("cpu",), capacity=[[1.0]], tenants=(), demand=np.zeros((0, 1))
    )
    answer = answer_to(problem, policy)
    assert len(answer.tasks) == 0
    assert np.isnan(answer.objective)


@pytest.mark.parametrize("policy", ["drf", "drfh"])
def test_one_tenant_gets_the_pool(policy):
    assert answer_to(problem_of([[4, 8]], [[1, 1]]), policy).tasks == pytest.approx([4])


def test_empty_servers_are_not_capacity():
    answer = answer_to(problem_of([[0, 0], [4, 4]], [[1, 1]]))
    assert answer.tasks == pytest.approx([4])
    assert answer.classes.class_of_row.tolist() == [-1, 0]
