"""Random problems with trees of groups."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from policies import Guarantee, Limit, Problem
from policies.model.limits import in_order

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


@st.composite
def problems_with_limits(draw, *, selectors=True, finite=False, flat=False):
    """Draw a small problem with limits of groups, tenants and workloads."""
    problem = draw(problems_in_groups(selectors=selectors, finite=finite, flat=flat))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return with_limits(problem, rng, some_servers=selectors)


def with_limits(problem, rng, *, some_servers, first=()):
    """Add one to four limits, some of them for the servers of one zone."""
    nodes = {"group": len(problem.groups), "tenant": problem.t, "workload": problem.n}
    limits = list(first)
    for _ in range(int(rng.integers(1, 5))):
        scope = str(rng.choice([scope for scope, count in nodes.items() if count]))
        amount = np.full(problem.m, np.inf)
        named = rng.random(problem.m) < 0.5
        named[int(rng.integers(problem.m))] = True
        amount[named] = rng.integers(0, 12, int(named.sum()))
        where = {"zone": str(rng.integers(0, 2))} if some_servers and rng.random() < 0.5 else {}
        limits.append(Limit(scope, int(rng.integers(nodes[scope])), amount, where))
    return replace(problem, limits=in_order(limits))


@st.composite
def problems_with_guarantees(draw, *, one_workload=False, pooled=False):
    """Draw a small problem with guarantees, own servers, limits and what contributors lend.

    Args:
        one_workload: whether each tenant has one; pooled: whether nothing is for some servers.
    """
    problem = draw(problems_in_groups(selectors=not pooled, flat=draw(st.booleans())))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    t, m = problem.t, problem.m
    if one_workload:
        fields = ("workload_tenant", "workload_names", "demand", "tasks", "priority", "selectors")
        cut = {name: getattr(problem, name)[:t] for name in (*fields, "part_of")}
        problem = replace(problem, **cut)
    if rng.random() < 0.3:
        problem = with_limits(problem, rng, some_servers=not pooled)
    limits = list(problem.limits)
    if not pooled and rng.random() < 0.3:
        limits.append(Limit("lend", int(rng.integers(t)), _some_amounts(rng, m)))
    own = rng.random(t) < (0.5 if rng.random() < 0.4 else 0)
    nodes = {"group": len(problem.groups), "tenant": t}
    guarantees = []
    for _ in range(int(rng.integers(int(not own.any()), 4))):
        scope = str(rng.choice([scope for scope, count in nodes.items() if count]))
        where = {"zone": str(rng.integers(0, 2))} if not pooled and rng.random() < 0.4 else {}
        node = int(rng.integers(nodes[scope]))
        guarantees.append(Guarantee(scope, node, _some_amounts(rng, m), where))
    return replace(
        problem,
        limits=in_order(limits),
        guarantees=in_order(guarantees),
        own_servers=own,
        count_guaranteed=bool(rng.random() < 0.6),
    )


def _some_amounts(rng, resources):
    """An amount of at least one resource; inf for the others."""
    amount = np.full(resources, np.inf)
    named = rng.random(resources) < 0.5
    named[int(rng.integers(resources))] = True
    amount[named] = rng.integers(0, 10, int(named.sum()))
    return amount
