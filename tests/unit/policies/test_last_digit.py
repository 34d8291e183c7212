"""Small problems are answered to the last digit, and never refused for the tolerance of a program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import Problem, solve, verify


@pytest.mark.parametrize(
    ("cpu", "servers", "tasks"), [(4, 3, 12), (3, 4, 12), (12, 1, 12), (8, 6, 48)]
)
def test_as_many_tasks_as_fit_are_a_whole_number(cpu, servers, tasks):
    problem = Problem.create(
        resources=["cpu", "memory"],
        capacity=[[cpu, 64]],
        server_count=[servers],
        tenants=["u1"],
        demand=[[1, 1]],
    )
    assert solve(problem, "drfh").tasks.tolist() == [tasks]


@st.composite
def spread_problems(draw):
    """Demands and capacities over two and a half decades, some of them 0; weights over two."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    tenants, resources, servers = draw(
        st.tuples(st.integers(2, 7), st.integers(1, 4), st.integers(1, 5))
    )
    demand = 10.0 ** random.uniform(-2.5, 0, (tenants, resources))
    demand *= random.random((tenants, resources)) > 0.15
    demand[~demand.any(axis=1), 0] = 1e-3
    limited = random.random(tenants) < 0.4
    return Problem.create(
        resources=[f"r{r}" for r in range(resources)],
        capacity=10.0 ** random.uniform(-1, 2, (servers, resources)),
        tenants=[f"u{i}" for i in range(tenants)],
        demand=demand,
        tasks=np.where(limited, np.floor(10.0 ** random.uniform(0, 6, tenants)), np.inf),
        weight=10.0 ** random.uniform(-1, 1, tenants),
    )


@pytest.mark.parametrize("policy", ["drfh", "drf", "asset"])
@settings(max_examples=500, deadline=None)
@given(problem=spread_problems())
def test_every_level_is_proven_where_quantities_are_far_apart(policy, problem):
    answer = solve(problem, policy)
    assert answer.gap <= 1e-9
    assert verify(problem, answer).valid
