"""Properties of fairness: the papers' verdicts on named examples, and what is always so."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from policies import jain_index, solve
from policies.documents.evaluation import evaluate_document
from policies.model.history import History
from policies.properties.fairness import (
    bottleneck_fair,
    envy_free,
    sharing_incentive,
    single_resource_fair,
    strong_sharing_incentive,
    weak_sharing_incentive,
)
from policies.properties.pareto import pareto_optimal
from policies.properties.properties import (
    PROPERTY_NAMES,
    properties_of,
    resource_as_you_contributed,
)
from policies.properties.resolving import (
    Budget,
    population_monotonic,
    strategy_proof,
    without_tenant,
)
from tests.examples import examples
from tests.unit.policies.problems import problem_of, problems


def exact(value):
    return Fraction(repr(float(value)))


def judged(check, capacity, demand, policy, mode=None, **fields):
    problem = problem_of(capacity, demand, **fields)
    return check(solve(problem, policy, mode=mode))


def monotonic(allocation):
    return population_monotonic(allocation, Budget.of(60.0))


def truthful(allocation):
    return strategy_proof(allocation, Budget.of(60.0))


def test_asset_fairness_violates_sharing_incentive():
    verdict = judged(strong_sharing_incentive, [[30, 30]], [[1, 3], [1, 1]], "asset", "indivisible")
    assert verdict.holds is False
    assert verdict.worst == {"tenant": "u2", "size": pytest.approx(15 / 30 - 12 / 30)}
    owned = problem_of([[15, 15], [15, 15]], [[1, 3], [1, 1]], contributed_by=[0, 1])
    assert sharing_incentive(solve(owned, "asset", mode="indivisible")).holds is False
    assert sharing_incentive(solve(owned, "drf")).holds is True


def test_asset_fairness_violates_bottleneck_fairness():
    demand = [[3, 2], [4, 1]]
    verdict = judged(bottleneck_fair, [[210, 210]], demand, "asset", "indivisible")
    assert verdict.holds is False
    assert verdict.worst == {
        "tenant": "u1",
        "size": pytest.approx(105 / 210 - 30 * 3 / 210 - 4 / 210),
    }
    for mode in ("divisible", "indivisible"):
        assert judged(bottleneck_fair, [[210, 210]], demand, "drf", mode).holds is True


def test_asset_fairness_of_divisible_tasks_violates_both_as_the_paper_says():
    incentive = judged(strong_sharing_incentive, [[30, 30]], [[1, 3], [1, 1]], "asset", "divisible")
    assert incentive.worst == {"tenant": "u2", "size": pytest.approx(15 / 30 - 12 / 30)}
    bottleneck = judged(bottleneck_fair, [[21, 21]], [[3, 2], [4, 1]], "asset", "divisible")
    assert bottleneck.worst == {"tenant": "u1", "size": pytest.approx(1 / 2 - 3 * 3 / 21)}


def test_bottleneck_fairness_does_not_apply_to_different_dominant_resources():
    verdict = judged(bottleneck_fair, [[9, 18]], [[1, 4], [3, 1]], "drf")
    assert (verdict.holds, verdict.reason) == (None, "tenants have different dominant resources")


def test_drf_reduces_to_max_min_of_a_single_resource():
    assert judged(single_resource_fair, [[10]], [[1], [2]], "drf").holds is True
    assert judged(single_resource_fair, [[9, 18]], [[1, 4], [3, 1]], "drf").holds is None


@pytest.mark.parametrize("check", [envy_free, monotonic, truthful, strong_sharing_incentive])
def test_drf_keeps_the_properties_of_its_paper(check):
    assert judged(check, [[9, 18]], [[1, 4], [3, 1]], "drf").holds is True


def test_ceei_is_not_strategy_proof():
    verdict = judged(truthful, [[100, 100]], [[16, 1], [1, 2]], "ceei")
    assert verdict.holds is False
    # The paper's lie: 8 of the memory, half of the dominant share; 25/6 instead of 100/31 tasks.
    assert verdict.worst["tenant"] == "u1"
    assert verdict.worst["size"] >= (25 / 6 - 100 / 31) * 0.16 - 1e-9
    assert verdict.worst["misreport"].startswith("memory")


def test_ceei_is_not_population_monotonic():
    verdict = judged(monotonic, [[100, 100]], [[4, 1], [1, 16], [16, 1]], "ceei")
    assert verdict.holds is False
    assert verdict.worst["tenant"] == "u2"
    assert verdict.worst["other"] == "u3"
    assert verdict.worst["size"] == pytest.approx((5.351 - 4.762) * 0.16, abs=1e-3)


def test_ceei_is_envy_free_and_pareto_optimal():
    answer = solve(problem_of([[100, 100]], [[4, 1], [1, 16], [16, 1]]), "ceei")
    assert envy_free(answer).holds is True
    assert pareto_optimal(answer, 1.0).holds is True


def test_drf_is_not_population_monotonic_with_zero_demands():
    verdict = judged(monotonic, [[1, 1]], [[1, 0], [1, 0.5], [0, 1]], "drf")
    assert verdict.holds is False
    assert verdict.worst == {"tenant": "u3", "other": "u1", "size": pytest.approx(3 / 4 - 2 / 3)}


def test_drfh_may_violate_strong_sharing_incentive_and_keeps_the_weak_one():
    problem = problem_of([[1, 2], [4, 3]], [[1, 1], [3, 2]])
    answer = solve(problem, "drfh")
    strong, weak = strong_sharing_incentive(answer), weak_sharing_incentive(answer)
    assert (strong.holds, weak.holds) == (False, True)
    assert strong.worst == {"tenant": "u2", "size": pytest.approx(1 / 2 - 12 / 25)}
    assert "Proposition 5" in weak.reason
    for check in (envy_free, monotonic, truthful):
        assert check(answer).holds is True
    assert pareto_optimal(answer, 1.0).holds is True


def test_who_has_less_of_the_same_envies():
    owned = {"contributed_by": [0, 1]}
    verdict = judged(envy_free, [[10, 10], [4, 4]], [[3, 3], [3, 3]], "static", **owned)
    assert verdict.holds is False
    assert verdict.worst == {"tenant": "u2", "other": "u1", "size": pytest.approx(2 * 3 / 14)}


def test_weights_scale_the_bundles_that_are_envied():
    # Twice the weight, twice the tasks: nobody envies; with equal weights the second would.
    assert judged(envy_free, [[9]], [[1], [1]], "drf", weight=[2, 1]).holds is True
    problem = problem_of([[9]], [[1], [1]], weight=[2, 1])
    equal = problem_of([[9]], [[1], [1]])
    answer = solve(problem, "drf")
    object.__setattr__(answer, "problem", equal)
    verdict = envy_free(answer)
    assert verdict.worst == {"tenant": "u2", "other": "u1", "size": pytest.approx(3 / 9)}


def test_nobody_envies_what_it_has_no_tasks_for():
    assert judged(envy_free, [[9]], [[1], [1]], "drf", tasks=[np.inf, 2]).holds is True


def test_static_partitioning_is_what_sharing_incentive_asks_for():
    problem = problem_of([[10, 10], [4, 4]], [[3, 3], [3, 3]], contributed_by=[0, 1])
    assert sharing_incentive(solve(problem, "static")).holds is True
    assert pareto_optimal(solve(problem, "static"), 1.0).holds is True


def test_an_allocation_that_wastes_is_not_pareto_optimal():
    problem = problem_of([[10, 10]], [[3, 3], [1, 1]], contributed_by=[0], tasks=[np.inf, 4])
    verdict = pareto_optimal(solve(problem, "static"), 1.0)
    assert verdict.holds is False
    assert verdict.worst == {"tenant": "u2", "size": pytest.approx(1 / 10)}


def test_claiming_more_tasks_counts_in_its_own_mode_only():
    problem = problem_of([[120, 120]], [[1, 2], [2, 1], [1, 4]], tasks=[50, 10, 10])
    answer = solve(problem, "drf", mode="indivisible")
    assert answer.tasks.tolist() == [35, 10, 10]
    assert truthful(answer).holds is True
    verdict = strategy_proof(answer, Budget.of(60.0), task_count=True)
    assert verdict.holds is False
    # The paper's liar, the third, gains 4 tasks; the best liar of those tried gains more.
    claimed = problem_of([[120, 120]], [[1, 2], [2, 1], [1, 4]], tasks=[50, 10, 14])
    assert solve(claimed, "drf", mode="indivisible").tasks.tolist() == [27, 10, 14]
    assert verdict.worst["size"] >= 4 * 4 / 120 - 1e-12
    assert verdict.worst["misreport"].startswith("tasks ×")


def test_a_budget_that_is_used_up_leaves_the_question_open():
    answer = solve(problem_of([[9, 18]], [[1, 4], [3, 1]]), "drf")
    for check in (population_monotonic, strategy_proof):
        verdict = check(answer, Budget.of(0.0))
        assert verdict.holds is None
        assert "budget" in verdict.reason


def test_progress_is_told():
    told = []
    answer = solve(problem_of([[9, 18]], [[1, 4], [3, 1]]), "drf")
    properties_of(answer, seconds=60.0, progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert told[-1][0] == told[-1][1]


STEPS = ((30, 4), (20, 24), (27, 8), (10, 30))


@pytest.mark.parametrize(
    ("policy", "ratio"), [("drf", 86 / 56), ("asset", 86 / 56), ("h-mrf", 1.0)]
)
def test_example_3_is_as_contributed_under_h_mrf_only(policy, ratio):
    waiting, history, total = [0, 0], None, np.zeros(2)
    for new in STEPS:
        tasks = [a + b for a, b in zip(waiting, new, strict=True)]
        problem = problem_of([[100, 100]], [[1, 4], [4, 1]], tasks=tasks)
        if policy == "h-mrf":
            options = {"placement": "pool"}
            answer = solve(problem, policy, options=options, history=history)
            history = answer.history
        else:
            answer = solve(problem, policy, mode="indivisible")
        total += answer.tasks
        waiting = [a - int(b) for a, b in zip(tasks, answer.tasks, strict=True)]
    aggregate = total * 5 / 100
    everybody = np.ones(2, dtype=bool)
    assert resource_as_you_contributed(aggregate, np.ones(2), everybody) == pytest.approx(ratio)


@pytest.mark.parametrize(("policy", "holds"), [("lt-af", False), ("h-mrf", True)])
def test_example_4_violates_sharing_incentive_under_lt_af(policy, holds):
    options, answer = {"placement": "pool"}, None
    for tasks in ((15, 80), (60, 40)):
        problem = problem_of([[100, 100]], [[1, 2], [1, 1]], tasks=tasks)
        history = None if answer is None else answer.history
        answer = solve(problem, policy, options=options, history=history)
    verdict = sharing_incentive(answer)
    assert verdict.holds is holds
    if not holds:
        assert verdict.worst == {"tenant": "u2", "size": pytest.approx(1 - 86 / 90)}


def test_the_document_has_every_name_of_the_contract():
    document = {
        "resources": ["cpu", "memory"],
        "servers": [{"capacity": {"cpu": 1, "memory": 2}}, {"capacity": {"cpu": 4, "memory": 3}}],
        "tenants": [{"name": "u1"}, {"name": "u2"}],
        "workloads": [
            {"tenant": "u1", "name": "a", "demand": {"cpu": 1, "memory": 1}},
            {"tenant": "u2", "name": "b", "demand": {"cpu": 3, "memory": 2}},
        ],
        "policy": {"name": "drfh"},
        "include": ["properties"],
    }
    properties = evaluate_document(document)["properties"]
    assert list(properties)[: len(PROPERTY_NAMES)] == list(PROPERTY_NAMES)
    for name in PROPERTY_NAMES:
        assert set(properties[name]) == {"holds", "worst", "reason"}
    assert properties["strong_sharing_incentive"]["worst"]["tenant"] == "u2"
    assert properties["jain_index"] == pytest.approx(1)
    assert properties["utilization"]["cpu"] == pytest.approx((2.4 + 3 * 0.8) / 5)


def envious_pairs(answer):
    """{(i, j): share gained}, pair by pair and server by server, in fractions."""
    problem = answer.problem
    found = {}
    weight = [exact(w) for w in problem.effective_weight]
    for i in range(problem.t):
        for j in range(problem.t):
            if i == j or problem.second_stage[i] or problem.second_stage[j]:
                continue
            could = Fraction(0)
            for p in range(len(answer.placement_tasks)):
                c = answer.placement_class[p]
                if answer.placement_workload[p] != j or not answer.classes.allowed[i, c]:
                    continue
                got = exact(answer.placement_tasks[p])
                could += min(
                    got * exact(problem.demand[j, r]) * weight[i] / weight[j] / exact(d)
                    for r, d in enumerate(problem.demand[i])
                    if d
                )
            could = min(could, exact(problem.tasks[i])) if np.isfinite(problem.tasks[i]) else could
            gain = (could - exact(answer.tasks[i])) * exact(problem.dominant_share_per_task[i])
            if gain > 1e-6:
                found[i, j] = float(gain)
    return found


@examples(200)
@given(problems(several=False))
def test_envy_is_what_every_pair_would_gain(problem):
    answer = solve(problem, "drfh")
    answers = [answer]
    uneven = answer.placement_tasks * np.linspace(0.2, 1.0, len(answer.placement_tasks))
    if len(uneven):
        tasks = np.bincount(answer.placement_workload, uneven, minlength=problem.n)
        object.__setattr__(answer, "tasks", tasks)
        answers.append(answer)
        object.__setattr__(answer, "placement_tasks", uneven)
        for name in ("dominant_share", "tenant_share", "weighted_share"):
            answer.__dict__.pop(name, None)
    for one in answers:
        pairs = envious_pairs(one)
        verdict = envy_free(one)
        assert verdict.holds is (not pairs)
        if pairs:
            assert verdict.worst["size"] == pytest.approx(max(pairs.values()), rel=1e-6)


@pytest.mark.parametrize("share", ["dominant", "alone"])
@examples(100)
@given(problem=problems(several=False, max_tenants=3, max_servers=3))
def test_exact_drfh_is_envy_free_pareto_optimal_and_strategy_proof(share, problem):
    answer = solve(problem, "drfh", options={"share": share})
    assert envy_free(answer).holds is True
    assert pareto_optimal(answer, 1.0).holds is True
    assert strategy_proof(answer, Budget.of(60.0)).holds is not False


@pytest.mark.parametrize("share", ["dominant", "alone"])
@examples(100)
@given(
    problem=problems(
        several=False,
        positive=True,
        selectors=False,
        limits=False,
        best_effort=False,
        max_tenants=3,
    )
)
def test_with_positive_demands_drfh_is_population_monotonic_and_weakly_worth_sharing(
    share, problem
):
    answer = solve(problem, "drfh", options={"share": share})
    assert population_monotonic(answer, Budget.of(60.0)).holds is not False


def test_a_tenant_that_leaves_leaves_its_servers():
    problem = problem_of(
        [[4, 4], [2, 2]], [[1, 1], [1, 2], [2, 1]], contributed_by=[2, 0], tasks=[1, 2, 3]
    )
    left = without_tenant(problem, 0)
    assert left.tenants == ("u2", "u3")
    assert left.contributed_by.tolist() == [1, -1]
    assert left.workload_tenant.tolist() == [0, 1]
    assert left.tasks.tolist() == [2, 3]
    assert left.totals.tolist() == problem.totals.tolist()


def test_long_term_histories_lose_the_row_of_who_leaves():
    problem = problem_of([[100, 100]], [[1, 4], [4, 1], [1, 1]], tasks=[30, 30, 30])
    before = History.zeros(problem)
    answer = solve(problem, "h-mrf", history=before)
    assert population_monotonic(answer, Budget.of(60.0), before).holds is not None


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1.0, 1e300])
def test_jains_index_does_not_depend_on_the_size_of_shares(size):
    assert jain_index([3 * size, size, float("nan")]) == pytest.approx(16 / 20, rel=1e-3)


@pytest.mark.parametrize("shares", [[], [0.0, 0.0], [float("nan")]])
def test_jains_index_needs_a_share_above_0(shares):
    assert jain_index(shares) is None
