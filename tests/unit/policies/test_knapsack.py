"""The most valuable whole tasks on one server: programme and search against trying everything."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import solve
from policies.proofs.slots.knapsack import MOST_NODES, Knapsack
from tests.examples import examples
from tests.unit.policies.problems import problem_of


@st.composite
def servers(draw):
    m = draw(st.integers(1, 3))
    q = draw(st.integers(1, 4))
    row = st.lists(st.integers(0, 4), min_size=m, max_size=m).filter(any)
    return (
        Knapsack(
            demand=np.array(draw(st.lists(row, min_size=q, max_size=q)), dtype=float),
            capacity=np.array(draw(st.lists(st.integers(0, 9), min_size=m, max_size=m)), float),
            limit=np.array(
                draw(st.lists(st.sampled_from([0, 1, 2, 5, np.inf]), min_size=q, max_size=q))
            ),
        ),
        np.array(draw(st.lists(st.sampled_from([0.0, 0.3, 1.0, 1.7]), min_size=q, max_size=q))),
    )


def best_value(server, prices):
    counts = itertools.product(*(range(int(most) + 1) for most in server.most))
    return max(
        float(prices @ tasks)
        for tasks in map(np.array, counts)
        if (tasks @ server.demand <= server.capacity).all()
    )


WAYS = {
    "programme": Knapsack._by_programme,
    "search": lambda server, prices: server._by_search(prices, MOST_NODES),
}


@pytest.mark.parametrize("way", WAYS)
@examples(500)
@given(case=servers())
def test_the_best_packing_is_the_best_of_all(way, case):
    server, prices = case
    packing = WAYS[way](server, prices)
    assert packing.value == pytest.approx(best_value(server, prices), abs=1e-12)
    assert packing.bound == pytest.approx(packing.value, abs=1e-12)
    assert float(prices @ packing.tasks) == packing.value
    assert (packing.tasks @ server.demand <= server.capacity).all()
    assert (packing.tasks <= server.limit).all()


@examples(200)
@given(case=servers())
def test_a_search_that_ends_early_still_bounds(case):
    server, prices = case
    packing = server._by_search(prices, 6)
    best = best_value(server, prices)
    assert packing.value <= best + 1e-12
    assert packing.bound >= best - 1e-12


def test_a_common_divisor_makes_the_grid_small():
    server = Knapsack(
        demand=np.array([[4000.0, 3e6], [6000.0, 9e6]]),
        capacity=np.array([20001.0, 3e7]),
        limit=np.array([np.inf, np.inf]),
    )
    demand, capacity = server.reduced
    assert demand.tolist() == [[2, 1], [3, 3]]
    assert capacity.tolist() == [10, 10]
    assert server.has_grid


def test_quantities_in_a_unit_too_fine_for_any_table_are_packed_all_the_same():
    small, large = float(np.nextafter(0.3, 1)), float(np.nextafter(0.7, 1))
    answer = solve(problem_of([[large]], [[small], [large]], t=1, workload_tenant=[0, 0]), "tda")
    assert answer.tenant_share == pytest.approx([1.0])
