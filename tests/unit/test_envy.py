"""Envy over groups of equal bundles: the pairs and the count of a comparison of all pairs."""

import time
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_service.allocation.reports import envy
from allocator_service.allocation.reports.envy import Bundle, Envies, envies_of
from tests.examples import examples
from tests.references.envy import envy_pairs


def compared(bundles, most=100):
    pairs = envy_pairs(bundles)
    assert envies_of(bundles, most=most) == Envies(len(pairs), pairs[:most])
    return len(pairs)


def random_bundles(random, count, *, resources, values, weights):
    """Bundles of few or many values, so that many or few tenants are alike."""
    used = random.integers(0, values, (count, resources)) * random.choice([1, 7], (count, 1))
    used[random.random(count) < 0.2] = 0
    alone = random.integers(0, values, (count, resources))
    names = random.permutation(count)
    return [
        Bundle(
            f"tenant-{names[i]}",
            [Decimal(int(a)) / 3 for a in used[i]],
            [Decimal(int(a)) for a in alone[i]],
            float(random.choice(weights)),
            bool(random.random() < 0.8),
        )
        for i in range(count)
    ]


@examples(500)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(0, 60),
    resources=st.integers(1, 4),
    values=st.sampled_from([2, 3, 10, 10**6]),
    most=st.sampled_from([1, 3, 100]),
)
def test_it_is_the_comparison_of_all_pairs(seed, count, resources, values, most):
    random = np.random.default_rng(seed)
    weights = [0.0, 0.5, 1.0, 1 / 3, 3.0]
    bundles = random_bundles(random, count, resources=resources, values=values, weights=weights)
    compared(bundles, most)


@pytest.mark.parametrize("idle", [0.0, 0.5])
def test_many_tenants_of_one_quotient_are_listed_by_name(idle):
    random = np.random.default_rng(5)
    bundles = [
        Bundle(f"t{n}", [Decimal(0 if random.random() < idle else 1 + n % 2)] * 2, [Decimal(1)] * 2,
               1.0, True)
        for n in random.permutation(400).tolist()
    ]  # fmt: skip
    assert compared(bundles) > 10_000


@pytest.mark.parametrize("above", [-2e-16, -1e-17, 0.0, 1e-17, 2e-16, 4e-16])
def test_quotients_within_rounding_of_the_bound_are_computed(above):
    used = Decimal(1) / 7
    bundles = [
        Bundle("a", [used], [used], 0.3, True),
        Bundle("b", [used * (1 + Decimal("1e-9") + Decimal(above))], [used], 0.3, True),
    ]
    compared(bundles)


def test_more_than_can_be_compared_is_not_counted(monkeypatch):
    random = np.random.default_rng(1)
    bundles = random_bundles(random, 40, resources=2, values=10**6, weights=[1.0])
    monkeypatch.setattr(envy, "MOST_COMPARED", 100)
    assert envies_of(bundles, most=100) is None
    alike = [Bundle(f"t{n}", [Decimal(1)], [Decimal(1)], 1.0, True) for n in range(40)]
    assert envies_of(alike, most=100) == Envies(0, [])


def test_ten_thousand_tenants_of_which_no_two_are_alike_take_no_seconds():
    random = np.random.default_rng(2)
    bundles = random_bundles(random, 10_000, resources=2, values=10**9, weights=[1.0, 2.0])
    begin = time.process_time()
    found = envies_of(bundles, most=100)
    assert time.process_time() - begin < 2
    assert found is not None
    assert len(found.worst) == 100
