"""Of a tenant's workloads that are alike but for priority the higher runs first, under every policy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Problem, policies_available, solve, verify
from tests.examples import examples

OPTIONS: dict[str, list[dict[str, object]]] = {
    "drfh": [{"placement": p} for p in ("best-fit", "first-fit", "affinity", "two-choices")],
    "h-mrf": [{"placement": "affinity"}, {"placement": "pool"}],
    "lt-drf": [{"placement": "affinity"}, {"placement": "pool"}],
    "lt-af": [{"placement": "affinity"}, {"placement": "pool"}],
    "tda": [{}, {"pack": True}],
}
CASES = [
    (info.name, mode, options)
    for info in policies_available()
    for mode in info.modes
    for options in (OPTIONS.get(info.name, [{}]) if mode == "indivisible" else [{}])
]


@st.composite
def pairs(draw):
    """Tenants with two workloads alike but for priority and how many tasks each wants."""
    tenants, m = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    amount = st.sampled_from([0.5, 1.0, 2.0, 3.0])
    demand = draw(
        st.lists(st.lists(amount, min_size=m, max_size=m), min_size=tenants, max_size=tenants)
    )
    servers = draw(st.integers(1, 2))
    size = st.lists(st.sampled_from([2.0, 5.0, 8.0]), min_size=m, max_size=m)
    wanted = st.sampled_from([1, 2, 3, 5, np.inf])
    # The older workload is the higher one of some tenants and the lower one of others.
    older = draw(st.lists(st.booleans(), min_size=tenants, max_size=tenants))
    return Problem.create(
        resources=("cpu", "memory")[:m],
        capacity=draw(st.lists(size, min_size=servers, max_size=servers)),
        contributed_by=[draw(st.integers(-1, tenants - 1)) for _ in range(servers)],
        tenants=[f"u{i}" for i in range(tenants)],
        workload_tenant=np.repeat(np.arange(tenants), 2),
        demand=np.repeat(demand, 2, axis=0),
        tasks=draw(st.lists(wanted, min_size=2 * tenants, max_size=2 * tenants)),
        priority=[p for first in older for p in ((7, -2) if first else (-2, 7))],
    )


def allocations(answer):
    """(rows, n) tasks at each time: of a schedule a row per slot, otherwise one."""
    return answer.tasks[None, :] if answer.schedule is None else answer.schedule.tasks


def assert_higher_first(problem, answer):
    for tasks in allocations(answer):
        for i in range(problem.t):
            mine = np.flatnonzero(problem.workload_tenant == i)
            low, high = mine[np.argsort(problem.priority[mine])]
            content = tasks[high] >= problem.tasks[high] - 1e-6
            assert content or tasks[low] <= 1e-6, (i, tasks.tolist())


@pytest.mark.parametrize(("policy", "mode", "options"), CASES)
@examples(500)
@given(problem=pairs())
def test_none_of_the_lower_runs_while_the_higher_wants_more(policy, mode, options, problem):
    answer = solve(problem, policy, mode=mode, options=options)
    verification = verify(problem, answer)
    assert verification.valid, [check for check in verification.checks if not check.holds]
    assert_higher_first(problem, answer)
