"""A mix of the first stage's workloads that leaves less to the second one than another is refused."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from policies import (
    Problem,
    allocation_to_document,
    choose,
    solve,
    verify,
    verify_answer,
)
from policies.documents.certificate import certificate_from_document, certificate_to_document
from policies.documents.problem import ParsedProblem
from policies.equilibrium import ceei
from tests.examples import numbers, thorough
from tests.references.second_stage import greatest_product, greatest_share
from tests.unit.policies.problems import problem_of
from tests.unit.policies.test_ceei_second_stage import second_stage_problem

COUNT = 400
# Of the product, or of the pool: far beyond what rounding leaves open.
LESS = 1e-5


def choosing_problem(number):
    """First-stage tenants that choose between workloads, and leave something to best-effort ones."""
    rng = np.random.default_rng([20261125, number])
    m = int(rng.integers(2, 6))
    first, second = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    counts = np.r_[rng.integers(1, 4, first), rng.integers(1, 4, second)]
    counts[0] = max(counts[0], 2)
    n, late = int(counts.sum()), np.repeat(np.arange(first + second) >= first, counts)
    if rng.random() < 0.5:
        demand = rng.choice([0.0, 0.25, 0.5, 1.0, 2.0, 4.0], (n, m))
        capacity = rng.choice([8.0, 16.0, 20.0, 64.0], m)
    else:
        demand = rng.uniform(0.01, 4, (n, m)) * (rng.random((n, m)) < 0.7)
        capacity = 10 ** rng.uniform(0.5, 3, m)
    demand[np.arange(n), rng.integers(0, m, n)] += 0.5
    tasks = np.where(rng.random(n) < np.where(late, 0.2, 0.9), rng.integers(1, 9, n), np.inf)
    return Problem.create(
        resources=("cpu", "memory", "gpu", "disk", "net")[:m],
        capacity=[capacity],
        demand=demand,
        tenants=[f"u{i}" for i in range(first + second)],
        workload_tenant=np.repeat(np.arange(first + second), counts),
        weight=rng.choice([0.1, 0.5, 1.0, 2.0, 30.0], first + second),
        tasks=tasks,
        priority=rng.integers(-1, 2, n),
        best_effort=np.arange(first + second) >= first,
    )


def another_mix(problem, cost):
    """An answer whose first stage has the shares of ours in another mix, and the rest follows from it.

    Args:
        problem: of two stages; cost: of a number of workloads, which the mix keeps low.
    """

    def random_mix(form, stage, x, deadline):
        mine = np.flatnonzero(form.stage[form.owner] < stage)
        owners, owner = np.unique(form.owner[mine], return_inverse=True)
        same = (owner == np.arange(len(owners))[:, None]) * 1.0
        found = linprog(
            cost(len(mine)),
            A_ub=form.demand[mine].T,
            b_ub=np.maximum(form.capacity_share[0], form.demand[mine].T @ x[mine]),
            A_eq=same,
            b_eq=same @ x[mine],
            bounds=np.column_stack([np.zeros(len(mine)), np.maximum(form.limit, x)[mine]]),
        )
        mix = np.zeros(form.n)
        mix[mine] = x[mine] if found.x is None else np.maximum(found.x, 0.0)
        return mix / max(1.0, float((mix @ form.demand / form.capacity_share[0]).max()))

    return with_mix(problem, random_mix)


def with_mix(problem, mix):
    """An answer that follows from a mix of the first stage: a function like ``best_mix``."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ceei, "leaves_most", lambda *_: False)
        patched.setattr(ceei, "best_mix", mix)
        return solve(problem, "ceei")


def shares_of(problem, answer):
    share = answer.tasks * problem.dominant_share_per_task
    return np.bincount(problem.workload_tenant, share, minlength=problem.t)


def could_have_more(problem, answer):
    """Does another mix of the same shares leave more to the second stage? By an independent solver."""
    share = shares_of(problem, answer)
    late = problem.second_stage
    kept = np.where(late, np.nan, share)
    buyers = np.flatnonzero(late & (share > 0))
    for i in np.flatnonzero(late & (share == 0)).tolist():
        if greatest_share(problem, kept, i) > 100 * LESS:
            return True
    if not len(buyers):
        return False
    weight = problem.effective_weight[buyers]
    _, most = greatest_product(problem, kept, buyers.tolist())
    return most - float(weight @ np.log(share[buyers])) / float(weight.sum()) > LESS


def failing(problem, answer):
    return {check.name for check in verify(problem, answer).checks if not check.holds}


def two_mixes():
    """A runs either of two workloads; B needs the gpu that the second one takes."""
    return problem_of(
        [[1, 1]],
        [[1, 0], [1, 1], [0, 1]],
        workload_tenant=[0, 0, 1],
        t=2,
        best_effort=[False, True],
        priority=[0, 5, 0],
    )


def gpu_first(count):
    return np.arange(count)


def test_a_mix_that_takes_the_gpu_from_the_second_stage_is_refused():
    problem = two_mixes()
    forged = another_mix(problem, gpu_first)
    assert forged.tasks == pytest.approx([0, 1, 0])
    assert failing(problem, forged) == {"mixes_proven"}


@pytest.mark.parametrize("part", range(4 if thorough() else 1))
def test_no_mix_that_leaves_less_is_called_valid(part):
    found, accepted = Counter(), []
    for number in range(part * COUNT // 4, (part + 1) * COUNT // 4):
        problem = choosing_problem(number)
        draw = np.random.default_rng([20261126, number]).normal
        answer = another_mix(problem, lambda count, draw=draw: draw(size=count))
        false, refused = could_have_more(problem, answer), failing(problem, answer)
        found["false"] += false
        found["by the mix alone"] += false and refused == {"mixes_proven"}
        if false and not refused:
            accepted.append(number)
    assert accepted == []
    assert found["by the mix alone"] > 5, found


@pytest.mark.parametrize("problem_at", [second_stage_problem, choosing_problem])
def test_every_answer_of_ours_is_proven(problem_at):
    for number in numbers(1000):
        problem = problem_at(number)
        assert failing(problem, solve(problem, "ceei")) == set(), number


@pytest.mark.parametrize("number", [318, 6694])
def test_a_mix_takes_no_more_from_the_first_stage_than_rounding(number):
    """A tenant that hardly misses its limits was given them, and all shares were scaled down to fit."""
    problem = choosing_problem(number)
    assert failing(problem, solve(problem, "ceei")) == set()


@pytest.mark.parametrize("number", [6077, 6463, 7224])
def test_a_mix_that_just_fits_is_found(number):
    """Presolve called its program infeasible."""
    problem = choosing_problem(number)
    assert failing(problem, solve(problem, "ceei")) == set()


def with_mix_prices():
    """An answer whose mix the rounds' own prices do not prove."""
    for number in range(1000):
        problem = second_stage_problem(number)
        answer = solve(problem, "ceei")
        if answer.certificate.rounds[-1].mix_prices is not None:
            return problem, answer
    raise AssertionError("no such problem")


def priced(answer, prices):
    first, second = answer.certificate.rounds
    rounds = (first, replace(second, mix_prices=prices))
    return replace(answer, certificate=replace(answer.certificate, rounds=rounds))


def test_the_prices_of_the_mix_are_part_of_the_certificate():
    problem, answer = with_mix_prices()
    prices = answer.certificate.rounds[1].mix_prices
    document = certificate_to_document(answer.certificate)
    assert document["rounds"][1]["mix_prices"] == prices.tolist()
    assert "mix_prices" not in document["rounds"][0]
    again = certificate_from_document(document)
    assert again.rounds[1].mix_prices.tolist() == prices.tolist()
    assert again.rounds[0].mix_prices is None
    written = allocation_to_document(answer, ["certificate"])
    assert verify_answer(ParsedProblem(problem, "ceei"), written, choose("ceei")).valid


def test_a_certificate_without_them_proves_no_mix():
    """As certificates of earlier versions: what is not proven is named."""
    problem, answer = with_mix_prices()
    assert failing(problem, priced(answer, None)) == {"mixes_proven"}


@pytest.mark.parametrize("turn", [np.negative, lambda p: p * np.nan, lambda p: p[:, :-1], np.ravel])
def test_prices_of_a_mix_that_are_not_prices_are_refused(turn):
    problem, answer = with_mix_prices()
    changed = priced(answer, turn(answer.certificate.rounds[1].mix_prices))
    assert "certificate" in failing(problem, changed)


def test_prices_so_small_that_rounding_hides_them_prove_nothing():
    """The gpu is full in this mix alone; 1e-20 of it vanishes beside what all else costs."""
    problem = two_mixes()
    forged = with_mix(problem, lambda *_: np.array([1.0, 0.0, 0.0]))
    assert forged.tasks.tolist() == [0, 1, 0]
    for tiny in (1e-300, 1e-20, 1e-17, 1e-12, 1e-6):
        changed = priced(forged, np.array([[1.0, tiny]]))
        assert failing(problem, changed) == {"mixes_proven"}, tiny


@pytest.mark.parametrize("size", [1.0, 1e6, 1e10, 1e15, 1e300])
def test_a_price_so_high_that_a_billionth_of_the_pool_pays_for_the_mix_proves_nothing(size):
    """The cpu is full in every mix, and may cost anything: half the gpu is withheld nevertheless."""
    problem = two_mixes()
    forged = with_mix(problem, lambda *_: np.array([0.5, 0.5, 0.0]))
    assert forged.tasks == pytest.approx([0.5, 0.5, 0.5])
    assert failing(problem, priced(forged, np.array([[size, 2.0]]))) == {"mixes_proven"}


@pytest.mark.parametrize("policy", ["drf", "drfh", "tda"])
def test_policies_without_a_market_have_no_prices_of_mixes(policy):
    problem = two_mixes()
    answer = solve(problem, policy)
    rounds = tuple(replace(item, mix_prices=np.zeros((1, 2))) for item in answer.certificate.rounds)
    changed = replace(answer, certificate=replace(answer.certificate, rounds=rounds))
    assert failing(problem, changed) == {"promised"}
