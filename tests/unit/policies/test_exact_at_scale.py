"""Exact DRFH where the interior point and the purification do the work."""

import numpy as np
import pytest

from benchmarks.instances import google_pool
from policies import Problem, SolveTimeoutError, solve, verify
from policies.leximin import rounds
from policies.leximin.crossover import few_placements
from policies.model.server_classes import server_classes
from policies.proofs.normal_form import normalise

KINDS = {
    "plain": {},
    "four resources": {"resources": 4},
    "finite tasks": {"finite": True},
    "zero demands": {"zero_demands": True},
    "placement constraints": {"constraints": True},
    "everything": {"finite": True, "zero_demands": True, "constraints": True},
}


@pytest.mark.parametrize("share", ["dominant", "alone"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_interior_point_agrees_with_the_simplex_method(kind, share, monkeypatch):
    problem = google_pool(120, **kind)
    interior = solve(problem, "drfh", options={"share": share})
    monkeypatch.setattr(rounds, "SMALL", problem.n * 1000)
    simplex = solve(problem, "drfh", options={"share": share})
    assert interior.tenant_share == pytest.approx(simplex.tenant_share, rel=2e-9)
    assert verify(problem, interior).valid
    assert verify(problem, simplex).valid


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_answers_are_certified_feasible_and_sparse(kind):
    problem = google_pool(200, **kind)
    answer = solve(problem, "drfh")
    whole = problem.capacity[answer.classes.first_row] * answer.classes.servers[:, None]
    assert answer.gap <= 1e-9
    assert (answer.used_by_class <= whole * (1 + 1e-12)).all()
    assert len(answer.placement_tasks) <= problem.n + answer.classes.count * problem.m


def test_many_distinct_servers_and_few_tenants():
    random = np.random.default_rng(3)
    problem = Problem.create(
        resources=("cpu", "memory"),
        capacity=random.uniform(0.1, 2, (150, 2)),
        tenants=("a", "b", "c"),
        demand=random.uniform(0.01, 0.3, (3, 2)),
    )
    answer = solve(problem, "drfh")
    assert verify(problem, answer).valid
    assert answer.weighted_share == pytest.approx(np.full(3, answer.objective), rel=1e-9)


def test_purification_keeps_every_share_and_fills_no_class_further():
    form = normalise(*_with_classes(google_pool(80, finite=True))).leximin
    interior = rounds.maximise_level(
        rounds.level_program(form, form.weight, np.zeros(form.t))[0], None
    ).x
    sparse = few_placements(form, interior, None)
    assert (sparse >= 0).all()
    assert sparse.sum(axis=1) == pytest.approx(interior.sum(axis=1), rel=1e-13)
    used, before = sparse.T @ form.demand, interior.T @ form.demand
    assert (used <= np.maximum(before, form.capacity_share) * (1 + 1e-12)).all()
    assert (sparse > 0).sum() <= form.n + form.K * form.m < (interior > 0).sum()


def test_the_time_limit_is_kept():
    with pytest.raises(SolveTimeoutError) as caught:
        solve(google_pool(2000, resources=4), "drfh", time_limit=1e-4)
    assert caught.value.code == "solve.timeout"


def _with_classes(problem):
    return problem, server_classes(problem)
