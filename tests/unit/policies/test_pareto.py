"""A leximin that is proven is Pareto optimal, whatever counts as a share."""

import numpy as np
import pytest

from policies import Problem, solve
from policies.properties.pareto import pareto_optimal


@pytest.mark.parametrize("policy", ["drf", "drfh", "asset"])
def test_proven_levels_of_single_workloads_are_pareto_optimal(policy):
    """Demands and weights far apart: a program that takes a billionth from one gives others more."""
    rng = np.random.default_rng(4)
    proven = 0
    for _ in range(60):
        m, t = int(rng.integers(2, 4)), int(rng.integers(2, 30))
        demand = 10.0 ** rng.uniform(-3, 1, (t, m)) * (rng.random((t, m)) < 0.8)
        demand[demand.sum(axis=1) == 0, 0] = 1
        problem = Problem.create(
            resources=("cpu", "memory", "gpu")[:m],
            capacity=[rng.choice([20.0, 30.0, 40.0, 50.0], m)],
            tenants=[f"u{i}" for i in range(t)],
            demand=demand,
            weight=10.0 ** rng.uniform(-2, 2, t),
        )
        answer = solve(problem, policy, mode="divisible")
        if all(item.proven for item in answer.certificate.rounds):
            proven += 1
            assert pareto_optimal(answer, 2.0).holds is True
    assert proven > 40
