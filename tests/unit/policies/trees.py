"""Random problems with trees of groups."""

import numpy as np
from hypothesis import strategies as st

from policies import Problem

DEEPEST = 6


@st.composite
def problems_in_groups(draw, *, selectors=False, finite=False, flat=False):
    """Draw a small problem whose quantities are whole numbers.

    Args:
        selectors: whether workloads may have any; finite: whether all have a number of tasks.
        flat: whether there are no groups, but tiers that are all the same.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    t, m, k = int(rng.integers(2, 8)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    n = t + int(rng.integers(0, 3))
    demand = rng.integers(0, 4, (n, m))
    demand[np.arange(n), rng.integers(0, m, n)] += 1
    some = rng.random(n) < 0.3
    zones = rng.integers(0, 2, n)
    return Problem.create(
        resources=["cpu", "memory", "gpu"][:m],
        capacity=rng.integers(0, 12, (k, m)),
        server_labels=[{"zone": str(zone)} for zone in rng.integers(0, 2, k)],
        contributed_by=rng.integers(-1, t, k),
        tenants=[f"t{i}" for i in range(t)],
        weight=rng.integers(1, 4, t),
        best_effort=rng.random(t) < 0.2,
        weights_mode=str(rng.choice(["explicit", "contribution"])),
        demand=demand,
        workload_tenant=np.r_[np.arange(t), rng.integers(0, t, n - t)],
        tasks=rng.choice([1, 2, 8] if finite else [1, 2, 8, np.inf], n),
        priority=rng.integers(0, 2, n),
        selectors=[{"zone": str(zones[j])} if selectors and some[j] else {} for j in range(n)],
        **({"tenant_tier": np.full(t, 3)} if flat else tree_of(rng, t)),
    )


def tree_of(rng, t):
    """Groups of some tenants, tiers every third time."""
    g = int(rng.integers(1, DEEPEST + 1))
    tree = {
        "groups": [f"g{i}" for i in range(g)],
        "group_parent": [-1, *(int(rng.integers(-1, i)) for i in range(1, g))],
        "group_weight": rng.integers(1, 4, g),
        "tenant_group": rng.integers(-1, g, t),
    }
    if rng.random() < 1 / 3:
        tree |= {"tenant_tier": rng.integers(0, 2, t), "group_tier": rng.integers(0, 2, g)}
    return tree
