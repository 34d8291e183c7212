"""Problems to test with: the figures' small ones by hand, and a hypothesis strategy."""

import math

import numpy as np
from hypothesis import strategies as st

from policies import Problem


def problem_of(capacity, demand, **fields):
    """A problem with resources cpu, memory, ...; one workload per tenant u1, u2, ... ."""
    width = len(capacity[0]) if len(capacity) else len(demand[0])
    tenants = len(demand) if "workload_tenant" not in fields else fields.pop("t")
    return Problem.create(
        resources=("cpu", "memory", "gpu", "disk")[:width],
        capacity=capacity,
        demand=demand,
        tenants=[f"u{i}" for i in range(1, tenants + 1)],
        **fields,
    )


amounts = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0])
demands = st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 3.0])


@st.composite
def problems(
    draw,
    max_tenants=4,
    max_servers=4,
    selectors=True,
    several=True,
    limits=True,
    positive=False,
    best_effort=True,
):
    """Small problems with everything: zero demands, limits, selectors, weights, owners."""
    m = draw(st.integers(1, 3))
    t = draw(st.integers(1, max_tenants))
    k = draw(st.integers(1, max_servers))
    n = draw(st.integers(1, 2 * max_tenants)) if several else t
    capacity = draw(st.lists(st.lists(amounts, min_size=m, max_size=m), min_size=k, max_size=k))
    one = st.lists(demands, min_size=m, max_size=m).filter(any)
    if positive:
        one = st.lists(demands.filter(bool), min_size=m, max_size=m)
    demand = draw(st.lists(one, min_size=n, max_size=n))
    owner = draw(st.lists(st.integers(0, t - 1), min_size=n, max_size=n)) if several else range(t)
    tasks = st.sampled_from([math.inf, math.inf, 0, 1, 2, 3, 10, 100])
    zones = st.sampled_from("ab")
    fields = {}
    if limits:
        fields["tasks"] = draw(st.lists(tasks, min_size=n, max_size=n))
    if selectors:
        fields["server_labels"] = [{"zone": draw(zones)} for _ in range(k)]
        choice = st.sampled_from([{}, {}, {"zone": "a"}, {"zone": "b"}, {"zone": ["a", "b"]}])
        fields["selectors"] = draw(st.lists(choice, min_size=n, max_size=n))
    if best_effort:
        fields["best_effort"] = draw(st.lists(st.booleans(), min_size=t, max_size=t))
        fields["weights_mode"] = draw(st.sampled_from(["explicit", "contribution"]))
        fields["contributed_by"] = draw(st.lists(st.integers(-1, t - 1), min_size=k, max_size=k))
        fields["contributed_only"] = [draw(st.integers(0, 5)) == 0 for _ in range(k)]
    return Problem.create(
        resources=("cpu", "memory", "gpu")[:m],
        capacity=np.reshape(capacity, (k, m)),
        demand=demand,
        tenants=[f"u{i}" for i in range(t)],
        workload_tenant=owner,
        weight=draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=t, max_size=t)),
        server_count=draw(st.lists(st.integers(1, 3), min_size=k, max_size=k)),
        priority=draw(st.lists(st.integers(-1, 1), min_size=n, max_size=n)),
        **fields,
    )
