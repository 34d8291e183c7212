"""The tree of pairs of measures, beside a scan over all tenants that are equal in the first one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import History, Problem, solve
from policies.filling.winner_tree import set_share, tree_of
from policies.long_term.measures import next_by_history
from policies.long_term.pairs import LEAST, first_of_least, pairs_of, set_pair
from policies.model.tolerance import DISCRETE_TOLERANCE
from tests.examples import examples


def nearly(random, values):
    """Return values of a few kinds, of which many are equal, and some only within the tolerance."""
    base = random.choice([0.0, 1 / 3, 0.5, 0.5 + 1 / 1024, 1.0, 7.0], values)
    steps = random.integers(-3, 4, values) * random.choice([0.0, 0.25, 0.5, 1.0], values)
    return base * (1.0 + steps * DISCRETE_TOLERANCE)


@examples(300)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 70))
def test_it_is_the_tenant_that_a_scan_finds(seed, count):
    random = np.random.default_rng(seed)
    degree, main = tree_of(np.full(count, np.inf)), tree_of(np.full(count, np.inf))
    second = np.zeros(count)
    of_degree, of_main = pairs_of(count), pairs_of(count)
    for _ in range(3 * count):
        tenant = int(random.integers(count))
        values = [float(value) for value in nearly(random, 3)]
        values[0] = min(values[0], 1.0)
        if random.random() < 0.2:
            values = [np.inf] * 3
        set_share(degree, tenant, values[0])
        set_share(main, tenant, values[1])
        second[tenant] = values[2]
        set_pair(of_degree, tenant, values[0], values[1])
        set_pair(of_main, tenant, values[1], values[2])
        assert of_main[1, LEAST] == main[1]
        if np.isfinite(main[1]):
            by_degree = degree[1] < 1.0 - DISCRETE_TOLERANCE
            expected = next_by_history(degree, main, second)
            assert first_of_least(of_degree if by_degree else of_main) == expected


@pytest.mark.parametrize("policy", ["h-mrf", "lt-drf", "lt-af"])
def test_tenants_that_are_all_alike_take_turns_by_position(policy):
    problem = Problem.create(
        resources=("cpu",),
        capacity=[[100]],
        tenants=[f"t{i}" for i in range(70)],
        demand=[[1]] * 70,
    )
    answer = solve(problem, policy, options={"placement": "pool"}, history=History.zeros(problem))
    assert answer.tasks.tolist() == [2] * 30 + [1] * 40
