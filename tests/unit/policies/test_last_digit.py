"""Small problems are answered to the last digit, and none is refused for how far apart it is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Problem, solve, verify
from tests.examples import examples


@pytest.mark.parametrize(
    ("cpu", "servers", "tasks"), [(4, 3, 12), (3, 4, 12), (12, 1, 12), (8, 6, 48)]
)
def test_as_many_tasks_as_fit_are_a_whole_number(cpu, servers, tasks):
    problem = Problem.create(
        resources=["cpu", "memory"],
        capacity=[[cpu, 64]],
        server_count=[servers],
        tenants=["u1"],
        demand=[[1, 1]],
    )
    assert solve(problem, "drfh").tasks.tolist() == [tasks]


@st.composite
def spread_problems(draw, decades=2.5):
    """Demands and capacities over so many decades, some of them 0; weights over two."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    tenants, resources, servers = draw(
        st.tuples(st.integers(2, 7), st.integers(1, 4), st.integers(1, 5))
    )
    demand = 10.0 ** random.uniform(-decades, 0, (tenants, resources))
    demand *= random.random((tenants, resources)) > 0.15
    demand[~demand.any(axis=1), 0] = 1e-3
    limited = random.random(tenants) < 0.4
    return Problem.create(
        resources=[f"r{r}" for r in range(resources)],
        capacity=10.0 ** random.uniform(-1, 2, (servers, resources)),
        tenants=[f"u{i}" for i in range(tenants)],
        demand=demand,
        tasks=np.where(limited, np.floor(10.0 ** random.uniform(0, 6, tenants)), np.inf),
        weight=10.0 ** random.uniform(-1, 1, tenants),
    )


@pytest.mark.parametrize("policy", ["drfh", "drf", "asset"])
@examples(500)
@given(problem=spread_problems())
def test_every_level_is_proven_where_quantities_are_far_apart(policy, problem):
    answer = solve(problem, policy)
    assert all(item.proven for item in answer.certificate.rounds)
    assert answer.gap <= 1e-9
    assert verify(problem, answer).valid


@pytest.mark.parametrize("policy", ["drfh", "drf", "asset"])
@examples(500)
@given(problem=spread_problems(decades=8))
def test_what_rounding_hides_is_left_open_and_said(policy, problem):
    answer = solve(problem, policy)
    assert not answer.gap > 1e-3  # NaN where nothing can run
    assert verify(problem, answer).valid


def test_a_round_that_rounding_leaves_open_is_answered_with_its_bound():
    """Its lift would take 1.1e-11 of the resources that it comes from: no engine gets closer."""
    problem = Problem.create(
        resources=["r0", "r1", "r2", "r3"],
        capacity=[
            [0.28337664714406563, 2.093825099533902, 0.5232290948239595, 1.6124820704336524],
            [0.1950348774609043, 80.07264104848667, 0.44158276251256445, 10.358467024457042],
            [0.7966365799071555, 41.901645516503564, 9.69715226601818, 0.24822610200125514],
            [34.294380542146605, 68.36668363438511, 51.49325727643835, 5.118673677697119],
        ],
        tenants=[f"u{i}" for i in range(7)],
        demand=[
            [
                0.0010017601070194451,
                0.15056027792216312,
                0.016050387501637883,
                6.333700452897154e-07,
            ],
            [0.0, 0.09737053655528717, 1.1018498998512034e-08, 0.037138755533547604],
            [0.023798820314604355, 0.0, 2.6561916954875603e-06, 1.6881261477481902e-06],
            [
                1.0938473052486514e-06,
                3.63588758412455e-05,
                0.00010873918450477421,
                0.00026790376473100454,
            ],
            [0.9204543774830579, 0.021942967188681772, 0.0, 0.8159831326429429],
            [
                5.278002430618629e-07,
                1.912917634846471e-07,
                0.0007949079385257059,
                2.2466533297037784e-08,
            ],
            [0.0, 0.00013155597031842893, 5.365969534291757e-05, 0.21744137493273635],
        ],
        tasks=[np.inf, 14, np.inf, np.inf, np.inf, np.inf, np.inf],
        weight=[
            1.3784421641217253,
            0.5656863147140635,
            0.6636063976897021,
            0.3012856349490082,
            0.1191556316950984,
            5.655065196558134,
            0.8619070511403113,
        ],
    )
    answer = solve(problem, "drfh")
    assert (
        1e-9 < max(r.bound / r.level - 1 for r in answer.certificate.rounds if not r.proven) < 2e-7
    )
    assert verify(problem, answer).valid


def test_numbers_that_the_simplex_method_takes_for_infinite_end_no_process():
    problem = Problem.create(
        resources=["r0", "r1", "r2"],
        capacity=[[282334.0, 2942.0, 56093492.0], [7e-4, 1731539.0, 1.24e-9]],
        tenants=["u1", "u2"],
        demand=[[13094585216.0, 0.95, 211835336382.0], [0, 0, 96023.0]],
    )
    answer = solve(problem, "drfh")
    assert answer.gap <= 1e-9
    assert verify(problem, answer).valid


def test_half_of_a_pool_is_no_answer_that_is_left_open():
    problem = Problem.create(
        resources=["cpu"], capacity=[[10]], tenants=["u1", "u2"], demand=[[1], [1]]
    )
    answer = solve(problem, "drf")
    (item,) = answer.certificate.rounds
    half = replace(item, level=item.level / 2, proven=False)
    low = replace(
        answer,
        tasks=answer.tasks / 2,
        level=answer.level / 2,
        objective=half.level,
        gap=1.0,
        certificate=replace(answer.certificate, rounds=(half,)),
    )
    failed = [check.name for check in verify(problem, low).checks if not check.holds]
    assert failed == ["levels_proven", "tenants_stuck"]


def tiny_part():
    """`u2` takes next to nothing of the cpu that `u1` fills, and cannot have more."""
    return Problem.create(
        resources=["cpu", "memory"],
        capacity=[[0.07, 0.001]],
        tenants=["u1", "u2"],
        demand=[[0.001, 0], [0.001, 7.007]],
    )


@pytest.mark.parametrize("policy", ["drfh", "drf", "asset"])
def test_a_tenant_that_takes_a_millionth_of_what_is_full_is_proven_to_be_stuck(policy):
    answer = solve(tiny_part(), policy)
    assert all(item.proven for item in answer.certificate.rounds)
    assert answer.level[0] == pytest.approx(answer.level[1], rel=1e-9)
    assert verify(tiny_part(), answer).valid


def test_of_servers_with_as_much_left_solver_and_verifier_name_the_same_one():
    """1/6 + 1/4 of the pool is left of the first, 5/12 of the second: equal but for rounding."""
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[3, 2]], server_count=[2], tenants=["a", "b", "c"],
        demand=[[2, 1], [0.5, 2], [0.5, 0.5]], tasks=[np.inf, np.inf, 0],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode="indivisible", options={"placement": "first-fit"})
    assert answer.tasks.tolist() == [1, 1, 0]
    assert verify(problem, answer).valid
