"""CEEI: the worked figures (policies §2), and the greatest product on random problems."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies import solve, verify
from policies.verification import exact_market
from policies.verification.exact_costs import Fractions
from policies.verification.exact_market import products_proven
from policies.verification.form import form_of
from policies.verification.market import Market
from policies.verification.rounds import rounds_of
from policies.verification.stated import Stated
from tests.examples import examples
from tests.unit.policies.problems import problem_of, problems
from tests.unit.policies.tampering import tampered

EXAMPLES = examples(500)


def ceei(problem):
    answer = solve(problem, "ceei")
    verification = verify(problem, answer)
    assert verification.valid, [check for check in verification.checks if not check.holds]
    return answer


@pytest.mark.parametrize(
    ("capacity", "demand", "tasks"),
    [
        ([9, 18], [[1, 4], [3, 1]], [45 / 11, 18 / 11]),
        ([100, 100], [[16, 1], [1, 2]], [100 / 31, 1500 / 31]),
        ([100, 100], [[16, 8], [1, 2]], [25 / 6, 100 / 3]),
        ([100, 100], [[4, 1], [1, 16], [16, 1]], [11.28331763, 5.35137329, 3.09470976]),
        ([100, 100], [[4, 1], [1, 16]], [500 / 21, 100 / 21]),
    ],
)
def test_the_paper_s_examples(capacity, demand, tasks):
    answer = ceei(problem_of([capacity], demand))
    assert answer.tasks == pytest.approx(tasks, rel=1e-8)
    assert answer.gap <= 1e-9


def test_the_prices_are_part_of_the_answer():
    answer = ceei(problem_of([[9, 18]], [[1, 4], [3, 1]]))
    (prices,) = answer.certificate.rounds[0].prices
    # Everybody spends a budget of 1: tasks × demand × price.
    spent = answer.tasks * (answer.problem.demand_share @ prices)
    assert prices == pytest.approx([1.8, 0.2])
    assert spent == pytest.approx([1, 1])


def test_weights_are_budgets():
    answer = ceei(problem_of([[12, 12]], [[1, 1], [1, 1]], weight=[2, 1]))
    assert answer.tasks == pytest.approx([8, 4])


def test_a_satisfied_tenant_leaves_the_rest_to_the_others():
    answer = ceei(problem_of([[12]], [[1], [1], [1]], tasks=[1, np.inf, np.inf]))
    assert answer.tasks == pytest.approx([1, 5.5, 5.5])
    assert answer.limited_by == ("task_limit", "resource:cpu", "resource:cpu")


def test_best_effort_comes_second():
    answer = ceei(
        problem_of(
            [[9, 18]],
            [[1, 4], [3, 1], [0, 1], [1, 0]],
            tasks=[1, np.inf, np.inf, np.inf],
            best_effort=[False, False, True, True],
        )
    )
    assert answer.tasks == pytest.approx([1, 8 / 3, 34 / 3, 0])
    assert answer.limited_by == ("task_limit", "resource:cpu", "resource:memory", "resource:cpu")


@EXAMPLES
@given(problem=problems(selectors=False, best_effort=False))
def test_nothing_has_a_greater_product(problem):
    answer = ceei(problem)
    runs = answer.level > 0
    assume(runs.any())
    mine = np.isin(problem.workload_tenant, np.flatnonzero(runs))
    j = np.flatnonzero(mine & (answer.tasks > 0))
    share = cp.Variable(len(j), nonneg=True)
    member = (problem.workload_tenant[j] == np.flatnonzero(runs)[:, None]).astype(float)
    limit = problem.share_limit[j]
    limits = [share[i] <= limit[i] for i in np.flatnonzero(np.isfinite(limit))]
    weight = problem.effective_weight[runs]
    product = cp.sum(cp.multiply(weight, cp.log(member @ share))) / weight.sum()
    program = cp.Problem(
        cp.Maximize(product), [problem.normalised_demand[j].T @ share <= 1, *limits]
    )
    program.solve(solver="CLARABEL")
    assert np.log(answer.objective) == pytest.approx(program.value, abs=1e-6)


@EXAMPLES
@given(problem=problems(selectors=False))
def test_every_answer_proves_itself(problem):
    answer = ceei(problem)
    assert not answer.gap > 1e-9


@EXAMPLES
@given(problem=problems(selectors=False), down=st.sampled_from([0, 1e-10, 1e-9, 2e-9, 1e-6]))
def test_what_floating_point_is_certain_of_is_so_in_fractions(problem, down):
    """Of shares as they are, a little lower, and by so little that rounding could hide it."""
    answer = ceei(problem)
    answer = replace(answer, tasks=answer.tasks * (1 - down))
    stated = Stated(problem, answer.choice)
    places = stated.places()
    form = form_of(stated, places)
    rounds = answer.certificate.rounds
    found = products_proven(stated, places, form, answer, answer.certificate)
    exact = Fractions.of(stated, places, rounds_of(stated, form, answer.certificate), answer)
    x = form.shares_of(answer.tasks)
    for number, item in enumerate(rounds):
        market = Market.of(form, item.stage, x)
        if not len(market.workloads):
            continue
        certain = exact_market._in_fractions(exact, market, item.stage, item.prices[0])
        assert found[number] == certain
        if down != 1e-9 and not np.isfinite(problem.tasks).any():
            assert certain == (down < 1e-9)


@EXAMPLES
@given(problem=problems(selectors=False), data=st.data())
def test_any_number_changed_is_found(problem, data):
    answer = solve(problem, "ceei")
    change = data.draw(tampered(answer))
    if change is not None:
        what, changed = change
        assert not verify(problem, changed).valid, what


def test_prices_that_prove_nothing_are_found():
    problem = problem_of([[9, 18]], [[1, 4], [3, 1]])
    answer = solve(problem, "ceei")
    for r in range(2):
        prices = answer.certificate.rounds[0].prices.copy()
        prices[0, r] *= 1.01
        rounds = (replace(answer.certificate.rounds[0], prices=prices),)
        certificate = replace(answer.certificate, rounds=rounds)
        assert not verify(problem, replace(answer, certificate=certificate)).valid
