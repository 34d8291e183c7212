"""Weights and demands many powers of ten apart: every tenant gets its proven share."""

import numpy as np
import pytest

from policies import Problem, solve, verify
from tests.examples import thorough


def far_apart(seed, decades, *, groups=0, workloads=1):
    """50 tenants on three kinds of servers; some workloads may run on two of them only."""
    random = np.random.default_rng(seed)
    tenants = 50
    owner = np.repeat(np.arange(tenants), workloads)

    def spread(count):
        return 10.0 ** random.uniform(-decades / 2, decades / 2, count)

    tree = {
        "groups": [f"g{number}" for number in range(groups)],
        "group_parent": [int(random.integers(-1, number)) for number in range(groups)],
        "group_weight": spread(groups),
        "tenant_group": random.integers(-1, groups, tenants),
    }
    selectors = [
        {"kind": [f"k{number}" for number in random.permutation(3)[: random.integers(2, 4)]]}
        for _ in owner
    ]
    return Problem.create(
        resources=["cpu", "memory"],
        capacity=random.uniform(1_000, 2_000, (3, 2)),
        tenants=[f"t{number}" for number in range(tenants)],
        demand=random.uniform(0.001, 0.01, (len(owner), 2)) * spread(len(owner))[:, None],
        weight=spread(tenants),
        workload_tenant=owner,
        tasks=np.where(
            random.random(len(owner)) < 0.3, 10.0 ** random.integers(0, 6, len(owner)), np.inf
        ),
        server_labels=[{"kind": f"k{number}"} for number in range(3)],
        selectors=selectors,
        **(tree if groups else {}),
    )


@pytest.mark.parametrize(
    ("groups", "decades", "workloads"),
    [(0, 10, 1), (0, 10, 2), (12, 4, 1), (12, 10, 1), (12, 6, 2)],
)
def test_every_tenant_gets_its_proven_share(groups, decades, workloads):
    for seed in range(10 if thorough() else 4):
        problem = far_apart(seed, decades, groups=groups, workloads=workloads)
        for share in ("dominant", "alone"):
            answer = solve(problem, "drfh", mode="divisible", options={"share": share})
            wrong = [check for check in verify(problem, answer).checks if not check.holds]
            assert wrong == [], seed
