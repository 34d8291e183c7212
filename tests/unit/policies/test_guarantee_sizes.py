"""Floors of guarantees that would be of more whole tasks than are divided."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Gang, Guarantee, Limit, Problem, guarantees_unmet, solve, verify
from policies.floors import sizes
from policies.verification import floor_problems
from tests.examples import examples
from tests.references import floors as reference
from tests.references.floors import fill_with_floors
from tests.references.gang_floors import fill_gangs_with_floors
from tests.unit.policies.test_filling_properties import PLACEMENTS
from tests.unit.policies.test_gangs_beside_floors import gangs_with_guarantees
from tests.unit.policies.test_kept_tasks import whole, with_kept
from tests.unit.policies.trees import problems_with_guarantees

INF = np.inf


@contextmanager
def dividing_at_most(tasks):
    """Change how many tasks a guarantee is divided into."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "MOST_DIVIDED", tasks)
        patch.setattr(floor_problems, "MOST_REPLAYED", tasks)
        patch.setattr(reference, "MOST_DIVIDED", tasks)
        yield


def of_a_group(demand, amount, tasks=(INF, INF), **fields):
    """Return two tenants of a group with a guarantee beside one without."""
    return Problem.create(
        resources=["gpu"], capacity=[[100]], tenants=["a", "b", "c"], demand=[*demand, [1]],
        tasks=[*tasks, INF], groups=["g"], tenant_group=[0, 0, -1],
        guarantees=[Guarantee("group", 0, np.array([amount]))], **fields,
    )  # fmt: skip


def unmet(answer):
    return [(each["met"], each["limited_by"]) for each in guarantees_unmet(answer)]


@pytest.mark.parametrize("policy", ["drf", "drfh"])
@pytest.mark.parametrize("tasks", [INF, 6_000_000])
def test_tiny_tasks_of_one_tenant_leave_the_others_their_floors(policy, tasks):
    """No decision succeeded with 8,000,000 tasks of one tenant."""
    problem = of_a_group([[1e-5], [1]], 80, (tasks, INF))
    answer = solve(problem, policy, mode="indivisible")
    assert answer.floors.floor.tolist() == [0, 80, 0]
    assert answer.floors.met.tolist() == [0, 80, 0]
    assert unmet(answer) == [(0.0, ["out_of_range"])]


@pytest.mark.parametrize("scope", ["workload", "tenant"])
def test_tiny_tasks_that_a_limit_keeps_few_have_floors(scope):
    """Without the limit they are 8,000,000."""
    problem = of_a_group([[1e-5], [1]], 80, limits=[Limit(scope, 0, np.array([0.01]))])
    answer = solve(problem, "drfh", mode="indivisible")
    assert answer.floors.floor.tolist() == [1_000, 79, 0]
    assert (answer.tasks[0], unmet(answer)) == (1_000, [])
    assert verify(problem, answer).valid


def test_a_limit_that_does_not_apply_in_the_pool_leaves_its_tasks_too_many():
    """The limit is of the guaranteed tenant itself, and keeps few tasks of the decision alone."""
    problem = Problem.create(
        resources=["gpu", "cpu"], capacity=[[100, 100]], tenants=["a"], workload_tenant=[0, 0],
        workload_names=["x", "y"], demand=[[1e-5, 1], [1, 0]],
        limits=[Limit("tenant", 0, np.array([INF, 1.0]))],
        guarantees=[Guarantee("tenant", 0, np.array([80.0, INF]))],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode="indivisible", time_limit=5)
    assert answer.floors.floor.tolist() == [0, 80]
    assert unmet(answer) == [(0.0, ["out_of_range"])]
    assert verify(problem, answer).valid


def test_few_tiny_tasks_have_floors():
    answer = solve(of_a_group([[1e-5], [1]], 80, (1_000, INF)), "drfh", mode="indivisible")
    assert answer.floors.floor.tolist() == [1_000, 79, 0]
    assert unmet(answer) == []
    assert verify(answer.problem, answer).valid


@pytest.mark.parametrize("policy", ["drf", "drfh"])
def test_a_guarantee_of_everything_decides_at_once(policy):
    """Dividing 10^9 tasks would raise `SolveTimeoutError`."""
    problem = of_a_group([[1], [1]], 1e9)
    answer = solve(problem, policy, mode="indivisible", time_limit=5)
    assert answer.floors.floor.tolist() == [0, 0, 0]
    assert unmet(answer) == [(0.0, ["out_of_range"])]
    assert verify(problem, answer).valid


@pytest.mark.parametrize(
    ("most", "amount", "expected"),
    [
        # Five tasks of each alone, and not more of both together.
        (5, 5, [0, 1]),
        (4, 5, []),
        # Three of one and two of the other: five in all, or six by the amount.
        (5, 6, [0, 1]),
        (4, 6, [1]),
        (2, 6, [1]),
        (1, 6, []),
    ],
)
def test_those_with_most_tasks_are_left_out(most, amount, expected):
    with dividing_at_most(most):
        demand = [[1], [1]] if amount == 5 else [[1], [3]]
        tasks = (INF, INF) if amount == 5 else (3, INF)
        problem = of_a_group(demand, amount, tasks)
        answer = solve(problem, "drfh", mode="indivisible")
        assert np.flatnonzero(answer.floors.floor).tolist() == expected
        assert (unmet(answer) == []) == (expected == [0, 1])
        assert verify(problem, answer).valid


def test_all_pieces_of_tasks_count():
    gangs = {0: Gang(count=np.array([3]), demand=np.array([[1.0]]), at_least=1)}
    problem = of_a_group([[3], [1]], 9, (INF, 2), gangs=gangs)
    for most, left_out in ((9, []), (8, [0])):
        with dividing_at_most(most):
            answer = solve(problem, "drfh", mode="indivisible")
            assert answer.floors.left_out.tolist() == left_out
            assert verify(problem, answer).valid


def test_one_workload_has_a_guarantee_of_any_number_of_tasks():
    problem = Problem.create(
        resources=["gpu"], capacity=[[100]], tenants=["a", "b"], demand=[[1], [1]],
        guarantees=[Guarantee("tenant", 0, np.array([1e9]))],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode="indivisible")
    assert answer.tasks.tolist() == [100, 0]
    assert verify(problem, answer).valid


def test_an_answer_that_hides_who_is_left_out_is_refused():
    problem = of_a_group([[1], [1]], 1e9)
    answer = solve(problem, "drfh", mode="indivisible")
    floors = replace(answer.floors, left_out=np.zeros(0, dtype=np.int64))
    found = verify(problem, replace(answer, floors=floors))
    assert [each.name for each in found.checks if not each.holds] == ["floors_left_out"]


def test_a_floor_of_too_many_tasks_is_refused():
    """The answer is that of a limit of any size."""
    problem = of_a_group([[1], [1]], 20)
    answer = solve(problem, "drfh", mode="indivisible")
    assert verify(problem, answer).valid
    with dividing_at_most(19):
        assert not verify(problem, answer).valid


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(200)
@given(problem=problems_with_guarantees(), most=st.integers(1, 40))
def test_floors_of_few_tasks_are_those_of_the_plain_reference(placement, problem, most):
    with dividing_at_most(most):
        answer = solve(problem, "drfh", mode="indivisible", options={"placement": placement})
        guaranteed, tasks = fill_with_floors(problem, placement)
        assert answer.floors.met.tolist() == guaranteed
        assert answer.tasks.tolist() == tasks
        divided = answer.floors.pools[: len(problem.guarantees)]
        assert all(each is None or each.tasks.sum() <= most for each in divided)
        assert verify(problem, answer).valid


@examples(200)
@given(problem=problems_with_guarantees(pooled=True), most=st.integers(1, 40))
def test_floors_of_few_tasks_in_one_pool_are_those_of_the_plain_reference(problem, most):
    with dividing_at_most(most):
        answer = solve(problem, "drf", mode="indivisible")
        guaranteed, tasks = fill_with_floors(problem, "pool")
        assert answer.floors.met.tolist() == guaranteed
        assert answer.tasks.tolist() == tasks
        assert verify(problem, answer).valid


@examples(200)
@given(
    problem=st.one_of(gangs_with_guarantees(), with_kept(gangs_with_guarantees())),
    most=st.integers(1, 40),
)
def test_floors_of_few_pieces_are_those_of_the_plain_reference(problem, most):
    with dividing_at_most(most):
        answer = whole(problem)
        _, tasks, met = fill_gangs_with_floors(problem, "best-fit")
        assert answer.floors.met.tolist() == met
        assert answer.tasks.tolist() == tasks
        assert verify(problem, answer).valid
