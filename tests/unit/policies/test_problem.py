"""What a problem refuses to be built from, and what it derives."""

import numpy as np
import pytest

from policies import Problem, ProblemError
from tests.unit.policies.problems import problem_of


def build(**changes):
    fields = {
        "resources": ("cpu", "memory"),
        "capacity": [[4, 8], [2, 2]],
        "tenants": ("a", "b"),
        "demand": [[1, 1], [1, 0]],
    }
    return Problem.create(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "code", "pointer", "says"),
    [
        ({"capacity": [[1, 2, 3]]}, "problem.shape", "/servers", "2 columns"),
        ({"capacity": [["x", 1]]}, "problem.shape", "/servers", "numbers"),
        ({"capacity": [[np.nan, 1]]}, "capacity.not_finite", "/servers/0/capacity/cpu", "nan"),
        ({"capacity": [[1, np.inf]]}, "capacity.too_large", "/servers/0/capacity/memory", "inf"),
        ({"demand": [[1, 1], [-2, 1]]}, "demand.negative", "/workloads/1/demand/cpu", "-2"),
        (
            {"demand": [[0, 0], [1, 1]]},
            "demand.zero",
            "/workloads/0/demand",
            "at least one resource",
        ),
        ({"weight": [1, 0]}, "weight.not_positive", "/tenants/1/weight", "0.0"),
        ({"weight": [np.nan, 1]}, "weight.not_positive", "/tenants/0/weight", "nan"),
        ({"weight": [1, np.inf]}, "weight.not_positive", "/tenants/1/weight", "inf"),
        ({"weight": [1]}, "problem.shape", "/tenants", "(2,)"),
        ({"tasks": [1.5, 2]}, "tasks.not_whole", "/workloads/0/tasks", "1.5"),
        ({"tasks": [1, -1]}, "tasks.not_whole", "/workloads/1/tasks", "-1"),
        ({"tasks": [1, np.nan]}, "tasks.not_whole", "/workloads/1/tasks", "nan"),
        ({"server_count": [1, 0]}, "server.count", "/servers/1/count", "0"),
        ({"server_count": [1.5, 1]}, "problem.shape", "/servers", "int64"),
        ({"contributed_by": [0, 2]}, "server.contributed_by", "/servers/1/contributed_by", "2"),
        ({"workload_tenant": [0, 5]}, "workload.tenant", "/workloads/1/tenant", "5"),
        ({"tenants": ("a", "a")}, "tenant.duplicate", "/tenants/1", "unique"),
        ({"tenants": ("a", "")}, "tenant.name", "/tenants/1", "name"),
        ({"tenants": ("a", "b", "c")}, "workload.tenant", "/workloads", "workload_tenant"),
        ({"resources": ("cpu", "cpu")}, "resource.duplicate", "/resources/1", "'cpu'"),
        ({"server_names": ("s", "s")}, "server.duplicate", "/servers/1", "'s'"),
        (
            {"workload_tenant": [0, 0], "workload_names": ("w", "w")},
            "workload.duplicate",
            "/workloads/1/name",
            "'a'",
        ),
        ({"weights_mode": "equal"}, "weights.unknown", "/weights", "'equal'"),
        ({"server_labels": [{}]}, "problem.shape", "", "server_labels"),
    ],
)
def test_bad_input_is_refused_by_row_value_and_remedy(changes, code, pointer, says):
    with pytest.raises(ProblemError) as caught:
        build(**changes)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)
    assert says in caught.value.detail


def test_a_pool_needs_a_resource():
    with pytest.raises(ProblemError, match="at least one resource"):
        Problem.create(resources=(), capacity=[], tenants=(), demand=[])


def test_shares_are_of_the_whole_pool():
    problem = build(server_count=[1, 2])
    assert problem.totals.tolist() == [8, 12]
    assert problem.demand_share.tolist() == [[1 / 8, 1 / 12], [1 / 8, 0]]
    assert problem.dominant_share_per_task.tolist() == [1 / 8, 1 / 8]
    assert problem.normalised_demand[0].tolist() == [1, 2 / 3]
    assert problem.dominant_resource.tolist() == [0, 0]


def test_arrays_cannot_be_changed_afterwards():
    problem = build()
    for array in (problem.capacity, problem.demand, problem.totals, problem.normalised_demand):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_building_a_problem_copies_its_input():
    capacity = np.array([[4.0, 8.0], [2.0, 2.0]])
    problem = build(capacity=capacity)
    capacity[0, 0] = 99
    assert problem.capacity[0, 0] == 4


def test_selectors_match_labels():
    problem = problem_of(
        [[1], [1], [1]],
        [[1], [1], [1]],
        server_labels=[{"zone": "a", "rack": "1"}, {"zone": "b"}, {}],
        selectors=[{"zone": ["a", "b"]}, {"zone": "a", "rack": "1"}, {}],
    )
    assert problem.eligible.tolist() == [
        [True, True, False],
        [True, False, False],
        [True, True, True],
    ]
    assert build().eligible is None
