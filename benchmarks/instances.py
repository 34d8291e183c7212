"""The servers of Wang et al. (TPDS 2015, Table 1), and seeded random tenants on them."""

from __future__ import annotations

import numpy as np

from policies import Problem

# (servers, CPUs, memory), as fractions of the largest server.
GOOGLE_SERVERS = (
    (6732, 0.50, 0.50),
    (3863, 0.50, 0.25),
    (1001, 0.50, 0.75),
    (795, 1.00, 1.00),
    (126, 0.25, 0.25),
    (52, 0.50, 0.12),
    (5, 0.50, 0.03),
    (5, 0.50, 0.97),
    (3, 1.00, 0.50),
    (1, 0.50, 0.06),
)
ZONES = ("a", "b", "c")


def google_pool(
    tenants: int,
    *,
    resources: int = 2,
    seed: int = 1,
    finite: bool = False,
    zero_demands: bool = False,
    constraints: bool = False,
) -> Problem:
    """Return Table 1's 12,583 servers, shared by ``tenants`` with one random workload each.

    Args:
        resources: 2 (CPU, memory), or 4 with two more of random size per class.
        finite: Give each workload a number of tasks, about two thirds of which are satisfied.
        zero_demands: Set three in ten entries of the demands to 0.
        constraints: Limit every other workload to one or two of three zones.
    """
    random = np.random.default_rng(seed)
    capacity = np.array([row[1:] for row in GOOGLE_SERVERS])
    count = [row[0] for row in GOOGLE_SERVERS]
    if resources > 2:
        extra = random.uniform(0.1, 1.0, (len(capacity), resources - 2)).round(2)
        capacity = np.c_[capacity, extra]
    demand = random.uniform(0.01, 0.3, (tenants, resources)).round(4)
    fields = {}
    if zero_demands:
        absent = random.random(demand.shape) < 0.3
        absent[absent.all(axis=1)] = False
        demand[absent] = 0.0
    if finite:
        most = 1_240_000 / tenants
        fields["tasks"] = np.ceil(
            random.uniform(0.02, 1.0, tenants) ** 3 * 2.4 * most * 0.05 / demand.max(axis=1)
        )
    if constraints:
        fields["server_labels"] = [{"zone": ZONES[row % 3]} for row in range(len(capacity))]
        fields["selectors"] = [_some_zones(random) for _ in range(tenants)]
    return Problem.create(
        resources=("cpu", "memory", "disk", "network")[:resources],
        capacity=capacity,
        server_count=count,
        tenants=[f"tenant-{i}" for i in range(tenants)],
        demand=demand,
        weight=random.uniform(0.5, 2.0, tenants).round(3),
        **fields,
    )


def _some_zones(random: np.random.Generator) -> dict[str, list[str]]:
    if random.random() < 0.5:
        return {}
    return {"zone": list(random.choice(ZONES, random.integers(1, 3), replace=False))}
