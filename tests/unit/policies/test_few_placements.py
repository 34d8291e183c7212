"""Few placements and preferred workloads, where there are many classes or many workloads."""

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.growth import distinct_servers
from benchmarks.instances import google_pool
from benchmarks.shapes import unlike_servers
from policies import Problem, SolveTimeoutError, normalise, solve, verify
from policies.leximin import crossover, rounds
from policies.leximin.exchange import exchanged
from policies.leximin.priority_order import preferred_workloads
from policies.model.server_classes import server_classes
from tests.examples import examples
from tests.references import priority_order as reference


def spread(seed, tenants, classes, resources, several=1):
    """A problem, and a random spread of its workloads over all classes that uses half of each."""
    rng = np.random.default_rng(seed)
    n = tenants * several
    problem = Problem.create(
        resources=[f"r{r}" for r in range(resources)],
        capacity=rng.uniform(5, 20, (classes, resources)),
        tenants=[str(i) for i in range(tenants)],
        workload_tenant=np.repeat(np.arange(tenants), several),
        demand=rng.uniform(0.1, 2, (n, resources)),
        tasks=np.where(rng.random(n) < 0.5, rng.integers(1, 9, n), np.inf),
        priority=rng.integers(0, 3, n),
    )
    form = normalise(problem, server_classes(problem)).leximin
    x = rng.uniform(0, 1, (form.n, form.K)) * (rng.random((form.n, form.K)) < 0.7)
    x *= 0.5 / max(form.used_parts(x).max(), 0.5)
    most = np.divide(form.limit, x.sum(axis=1), out=np.ones(form.n), where=x.sum(axis=1) > 0)
    return form, x * np.minimum(most, 1)[:, None]


@given(st.integers(0, 10**9), st.integers(2, 30), st.integers(2, 8), st.integers(1, 4))
@examples(200)
def test_after_the_exchange_few_share_two_classes_and_nothing_else_changed(
    seed, tenants, classes, resources
):
    form, x = spread(seed, tenants, classes, resources)
    after = exchanged(form, x, None)
    assert after.sum(axis=1) == pytest.approx(x.sum(axis=1), rel=1e-12)
    assert after.T @ form.demand == pytest.approx(x.T @ form.demand, rel=1e-12)
    assert not ((after > 0) & (x == 0)).any()
    for a, b in combinations(range(form.K), 2):
        assert ((after[:, a] > 0) & (after[:, b] > 0)).sum() <= form.m


@pytest.mark.parametrize(("tenants", "classes", "resources"), [(150, 140, 2), (60, 70, 4)])
def test_many_classes_have_few_placements(tenants, classes, resources):
    """More capacity rows than one crossover takes: 21,000 placements before."""
    assert classes * resources > crossover.MOST_ROWS
    rng = np.random.default_rng(1)
    problem = Problem.create(
        resources=[f"r{r}" for r in range(resources)],
        capacity=rng.uniform(10, 100, (classes, resources)),
        tenants=[str(i) for i in range(tenants)],
        demand=rng.uniform(0.1, 2, (tenants, resources)),
    )
    answer = solve(problem, "drfh")
    assert len(answer.placement_tasks) <= 2 * (tenants + classes * resources)
    assert verify(problem, answer).valid


def test_a_crossover_that_gives_up_is_followed_by_the_exchange(monkeypatch):
    """115,200 placements before, as the basis of all rows was too ill-conditioned.

    Rounding that differs from processor to processor decides whether it is, so that here the first
    crossover is refused in any case.
    """
    problem = distinct_servers(128, tenants=900)
    gave_up = []

    def observed(*arguments):
        with monkeypatch.context() as patch:
            if not gave_up:
                patch.setattr(crossover, "OVERFILL", -1.0)
            arrived = crossover_once(*arguments)
        gave_up.append(not arrived)
        return arrived

    crossover_once = crossover._cross_over
    monkeypatch.setattr(crossover, "_cross_over", observed)
    answer = solve(problem, "drfh")
    assert answer.classes.count * problem.m <= crossover.MOST_ROWS
    assert gave_up[0]
    assert len(answer.placement_tasks) <= 2 * (problem.n + answer.classes.count * problem.m)
    assert verify(problem, answer).valid


@pytest.mark.parametrize(
    ("tenants", "servers", "resources", "seed"),
    [(80, 20, 5, 1), (60, 150, 2, 2), (120, 70, 7, 3), (250, 45, 8, 4), (100, 330, 3, 5)],
)
def test_any_shape_has_few_placements(tenants, servers, resources, seed):
    problem = unlike_servers(tenants, servers, resources, seed=seed)
    answer = solve(problem, "drfh")
    assert len(answer.placement_tasks) <= 2 * (tenants + servers * resources)
    assert verify(problem, answer).valid


def interior_only(problem, monkeypatch):
    """Solve it, and fail if a round needs the simplex method."""

    def simplex(*_):
        raise AssertionError("the interior-point method gave up")

    monkeypatch.setattr(rounds, "SimplexLevels", simplex)
    return solve(problem, "drfh")


def test_the_interior_point_goes_on_while_its_gap_halves_now_and_then(monkeypatch):
    """88 steps that gain a fifth each: it was ended after 26, and the simplex began anew."""
    problem = google_pool(10_000, constraints=True)
    answer = interior_only(problem, monkeypatch)
    assert verify(problem, answer).valid


def test_the_interior_point_keeps_complementarity_until_its_rows_are_met(monkeypatch):
    """It fell to 1e-200 while the rows missed 7e-10, and the systems became singular."""
    problem = unlike_servers(300, 60, 7, seed=4)
    answer = interior_only(problem, monkeypatch)
    assert verify(problem, answer).valid


@given(st.integers(0, 10**9), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
@examples(200)
def test_preferred_workloads_are_those_of_the_search_of_all_pairs(
    seed, tenants, classes, resources
):
    form, x = spread(seed, tenants, classes, resources, several=5)
    expected = reference.preferred_workloads(form, x)
    assert preferred_workloads(form, x, None) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_search_for_preferred_workloads_looks_at_the_deadline():
    form, x = spread(0, 2, 3, 2, several=50)
    with pytest.raises(SolveTimeoutError):
        preferred_workloads(form, x, time.monotonic() - 1)
