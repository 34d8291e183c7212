"""The option ``share`` of ``drfh``: tasks over those that a workload would run alone."""

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    Limit,
    ParsedProblem,
    PolicyOptionsError,
    Problem,
    ShareDefinition,
    allocation_to_document,
    choose,
    current_placements_of,
    explain,
    properties_of,
    solve,
    verify,
    verify_answer,
)
from policies.documents.problem import problem_to_document
from policies.model.alone import tasks_on_whole_pool
from policies.model.reasons import wants_more
from policies.properties.fairness import strong_sharing_incentive, takes_part
from policies.properties.groups import entitled_parts, group_share_guarantee
from tests.examples import examples
from tests.references.alone import shares_alone, tasks_alone
from tests.references.filling import fill
from tests.references.groups import leximin_in_groups
from tests.references.leximin import reference_shares
from tests.unit.policies.problems import problem_of, problems
from tests.unit.policies.trees import problems_in_groups, problems_with_limits

ALONE = {"share": "alone"}
PLACEMENTS = ("best-fit", "first-fit", "affinity", "two-choices")
TWO_SERVERS = {"server_labels": [{"server": "1"}, {"server": "2"}]}
FIRST, SECOND = {"server": "1"}, {"server": "2"}
ANYWHERE: dict[str, str] = {}


def alone(problem, mode="divisible", **options):
    answer = solve(problem, "drfh", mode=mode, options=ALONE | options)
    checks = verify(problem, answer).checks
    assert all(check.holds for check in checks), [check for check in checks if not check.holds]
    return answer


def shares(problem, tasks, *, whole=False):
    """(t,) shares before weights of tenants that run so many tasks."""
    found = np.zeros(problem.t)
    each = [float(part) for part in shares_alone(problem, whole=whole)]
    np.add.at(found, problem.workload_tenant, tasks * each)
    return found


def near(fractions, **tolerance):
    return pytest.approx([float(Fraction(each)) for each in fractions], **tolerance)


# Capacities, demands, selectors; shares and tasks by dominant shares, and alone.
FIGURES = {
    "constraints": (
        ([[4, 12], [12, 4]], [[1, 3], [3, 1], [1, 1]], [FIRST, ANYWHERE, SECOND]),
        (["3/13"] * 3, ["16/13", "16/13", "48/13"]),
        (["6/17"] * 3, ["32/17", "32/17", "48/17"]),
    ),
    "Proposition 4": (
        ([[1, 2], [4, 3]], [[1, 1], [3, 2]], None),
        (["12/25"] * 2, ["12/5", "4/5"]),
        (["6/11"] * 2, ["24/11", "10/11"]),
    ),
    "less than a third of every server": (
        ([[6, 6], [2, 6]], [[1, 2], [2, 2], [2, 2]], [FIRST, FIRST, ANYWHERE]),
        (["2/7"] * 3, ["12/7", "8/7", "8/7"]),
        (["4/13"] * 3, ["20/13", "16/13", "16/13"]),
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name):
    (capacity, demand, selectors), dominant, by_tasks = FIGURES[name]
    problem = problem_of(capacity, demand, selectors=selectors, **TWO_SERVERS)
    for share, (level, tasks) in {"dominant": dominant, "alone": by_tasks}.items():
        answer = solve(problem, "drfh", options={"share": share})
        assert verify(problem, answer).valid
        assert answer.level == near(level, rel=1e-12)
        assert answer.tasks == near(tasks, rel=1e-12)
        assert answer.objective == pytest.approx(answer.level[0], rel=1e-12)


def test_selectors_can_leave_somebody_less_than_its_part_of_every_server():
    (capacity, demand, selectors), *_ = FIGURES["less than a third of every server"]
    problem = problem_of(capacity, demand, selectors=selectors, **TWO_SERVERS)
    third = [min(c / 3 / d for c, d in zip(server, demand[2], strict=True)) for server in capacity]
    assert sum(third) == pytest.approx(4 / 3)
    assert alone(problem).tasks[2] == pytest.approx(16 / 13, rel=1e-12)
    assert 16 / 13 < 4 / 3


def test_whole_tasks_alone_are_counted_server_by_server():
    """With divisible counts the tasks of 5 would have 1.6 of each server, and six of the ten servers."""
    problem = problem_of([[8]], [[8], [5]], server_count=[10])
    assert tasks_on_whole_pool(problem, whole=True).tolist() == [10, 10]
    assert tasks_on_whole_pool(problem, whole=False).tolist() == [10, 16]
    answer = alone(problem, "indivisible")
    assert answer.tasks.tolist() == [5, 5]
    assert answer.level.tolist() == [0.5, 0.5]
    assert solve(problem, "drfh", mode="indivisible").tasks.tolist() == [4, 6]


def test_whole_tasks_by_hand():
    """Alone 5 tasks of (1, 3) or (3, 1), or 8 of (1, 1): the second server takes 2 and 2."""
    (capacity, demand, selectors), *_ = FIGURES["constraints"]
    problem = problem_of(capacity, demand, selectors=selectors, **TWO_SERVERS)
    assert tasks_on_whole_pool(problem, whole=True).tolist() == [5, 5, 8]
    assert alone(problem, "indivisible").tasks.tolist() == [4, 2, 2]
    assert solve(problem, "drfh", mode="indivisible").tasks.tolist() == [4, 1, 3]


def test_the_default_is_the_dominant_share_to_the_last_bit():
    problem = problem_of([[1, 14], [8, 4], [0.3, 0.7]], [[1, 4], [3, 1], [0.1, 0.1]])
    for mode in ("divisible", "indivisible"):
        default = solve(problem, "drfh", mode=mode)
        named = solve(problem, "drfh", mode=mode, options={"share": "dominant"})
        assert default.choice.share is named.choice.share is ShareDefinition.DOMINANT
        for part in ("tasks", "level", "placement_tasks"):
            assert getattr(default, part).tobytes() == getattr(named, part).tobytes()


@pytest.mark.parametrize(
    ("policy", "options"),
    [("drfh", {"share": "tasks"}), ("drfh", {"share": None}), ("drf", ALONE), ("asset", ALONE)],
)
def test_what_a_share_counts_has_two_names_under_one_policy(policy, options):
    with pytest.raises(PolicyOptionsError) as error:
        choose(policy, options=options)
    assert error.value.code == "policy.options"


@examples(300)
@given(problem=problems())
def test_tasks_alone_are_those_of_one_server_after_the_other(problem):
    for whole in (True, False):
        found = tasks_on_whole_pool(problem, whole=whole).tolist()
        assert found == near(tasks_alone(problem, whole=whole), rel=1e-15)


@pytest.mark.parametrize("capacity", [0.3, 0.7, 5 / 9, 1e9 + 0.1])
def test_a_server_that_has_exactly_room_for_three_tasks_has_three(capacity):
    problem = problem_of([[capacity * 3]], [[capacity]])
    if capacity * 3 == float(Fraction(repr(capacity)) * 3):
        assert tasks_on_whole_pool(problem, whole=True).tolist() == [3]


@examples(200)
@given(problem=problems())
def test_divisible_shares_agree_with_linear_programs(problem):
    answer = alone(problem)
    expected = reference_shares(problem, each=shares_alone(problem, whole=False))
    assert shares(problem, answer.tasks) == pytest.approx(expected, rel=2e-6, abs=2e-6)


@examples(200)
@given(problem=problems_in_groups(selectors=True))
def test_divisible_shares_in_groups_are_those_of_exact_arithmetic(problem):
    answer = alone(problem)
    each = shares_alone(problem, whole=False)
    expected = [float(share) for share in leximin_in_groups(problem, each=each)]
    assert shares(problem, answer.tasks) == pytest.approx(expected, abs=1e-9)


@examples(400)
@given(problem=problems_with_limits(), flat=problems_with_limits(flat=True))
def test_divisible_shares_with_limits_agree_with_exact_and_linear_programs(problem, flat):
    answer = alone(problem)
    each = shares_alone(problem, whole=False)
    expected = [float(share) for share in leximin_in_groups(problem, each=each)]
    assert shares(problem, answer.tasks) == pytest.approx(expected, abs=1e-8)
    expected = reference_shares(flat, each=shares_alone(flat, whole=False))
    assert shares(flat, alone(flat).tasks) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(60)
@given(data=st.data())
def test_whole_tasks_are_those_of_the_plain_filling(placement, data):
    kind = data.draw(st.sampled_from([problems, problems_in_groups, problems_with_limits]))
    fields = {} if kind is problems else {"selectors": True, "finite": True}
    problem = data.draw(kind(**fields))
    answer = alone(problem, "indivisible", placement=placement, seed=5)
    each = shares_alone(problem, whole=True)
    assert answer.tasks.tolist() == fill(problem, placement, 5, each=each)[1]


def test_groups_are_compared_by_the_sum_of_their_tenants_shares():
    """Dominant vectors of (1, 0) and (0, 1) fit into each other; parts of a pool alone add up."""
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[10, 10], [10, 10]], tenants=["dev", "prod", "sci"],
        demand=[[1, 0], [0, 1], [1, 1]], groups=["eng"], tenant_group=[0, 0, -1],
    )  # fmt: skip
    assert solve(problem, "drfh").tasks == pytest.approx([10, 10, 10])
    answer = alone(problem)
    assert answer.level == pytest.approx([1 / 3, 1 / 3, 2 / 3])
    assert answer.tasks == near(["20/3", "20/3", "40/3"])
    assert alone(problem, "indivisible").tasks.tolist() == [7, 7, 13]


def test_a_limit_does_not_change_what_a_workload_would_run_alone():
    problem = problem_of([[1, 2], [4, 3]], [[1, 1], [3, 2]])
    limited = replace(problem, limits=(Limit("tenant", 0, np.array([2.0, np.inf])),))
    answer = alone(limited)
    assert answer.tasks == near([2, 1])
    assert answer.level == near(["1/2", "3/5"])
    assert answer.limited_by[0] == "limit:tenant"


def random_pool(rng, constrained=False):
    """Workloads without a number of tasks on servers that differ, with positive demands."""
    t, k, m = int(rng.integers(2, 7)), int(rng.integers(2, 6)), int(rng.integers(2, 4))
    return problem_of(
        rng.integers(1, 13, (k, m)).tolist(),
        rng.integers(1, 7, (t, m)).tolist(),
        server_count=rng.integers(1, 4, k),
        weight=rng.integers(1, 4, t),
    )


def lacking(problem, answer):
    """(t,) part by which each tenant has fewer tasks than its weight's part of every server runs."""
    part = problem.weight / problem.weight.sum()
    entitled = part * [float(tasks) for tasks in tasks_alone(problem, whole=False)]
    return np.maximum(entitled - answer.tasks, 0.0) / entitled


def test_without_constraints_nobody_has_less_than_its_part_of_every_server():
    """By dominant shares somebody has less in a fifth of a thousand pools."""
    rng = np.random.default_rng(29)
    below = 0
    for _ in range(1000):
        problem = random_pool(rng)
        assert lacking(problem, alone(problem)).max() <= 1e-9
        below += lacking(problem, solve(problem, "drfh")).max() > 1e-6
    assert below > 200


@examples(100)
@given(problem=problems_in_groups())
def test_without_constraints_tenants_and_groups_have_their_parts(problem):
    """Of its own tasks alone a tenant has its part, or all that it has; a group of the sum."""
    answer = alone(problem)
    assert group_share_guarantee(answer, takes_part(answer)).holds is not False
    part = entitled_parts(problem.tree(0), takes_part(answer))[: problem.t]
    wanting = np.zeros(problem.t, dtype=np.bool_)
    wanting[problem.workload_tenant[wants_more(answer.limited_by)]] = True
    held = shares(problem, answer.tasks)
    assert (held >= part * (1 - 1e-9))[wanting & takes_part(answer)].all()


def test_a_group_without_its_part_is_named_unless_something_constrains_it():
    capacity, demand = [[1, 2], [4, 3]], [[1, 1], [3, 2]]
    tree = {"groups": ["a", "b"], "tenant_group": [0, 1]}
    problem = problem_of(capacity, demand, **tree)
    assert group_share_guarantee(alone(problem), takes_part(alone(problem))).holds is True
    less = replace(alone(problem), tasks=alone(problem).tasks * [1.0, 0.9])
    verdict = group_share_guarantee(less, takes_part(less))
    assert (verdict.holds, verdict.worst["group"]) == (False, "b")
    assert verdict.worst["size"] == pytest.approx(1 / 2 - 0.9 * 6 / 11)
    (capacity, demand, selectors), *_ = FIGURES["less than a third of every server"]
    tree = {"groups": ["a", "b", "c"], "tenant_group": [0, 1, 2]}
    chosen = problem_of(capacity, demand, selectors=selectors, **TWO_SERVERS, **tree)
    verdict = group_share_guarantee(alone(chosen), takes_part(alone(chosen)))
    assert verdict.holds is None
    assert "selectors" in verdict.reason


def test_what_the_page_says_about_parts_of_every_server():
    for name, share, holds in (
        ("Proposition 4", "dominant", False),
        ("Proposition 4", "alone", True),
        ("less than a third of every server", "dominant", False),
        ("less than a third of every server", "alone", False),
    ):
        (capacity, demand, selectors), *_ = FIGURES[name]
        problem = problem_of(capacity, demand, selectors=selectors, **TWO_SERVERS)
        verdict = strong_sharing_incentive(solve(problem, "drfh", options={"share": share}))
        assert verdict.holds is holds
    # In tasks over those alone: 4/3 of 16/3, less 4/13.
    assert verdict.worst["tenant"] == "u3"
    assert verdict.worst["size"] == pytest.approx((4 / 3 - 16 / 13) / 4)


def test_tenants_with_several_workloads_are_compared_by_tasks_over_those_alone():
    """By dominant shares the first tenant would rather run its second workload."""
    problem = problem_of(
        [[4, 12], [12, 4]], [[1, 3], [1, 1], [1, 1]], t=2, workload_tenant=[0, 0, 1]
    )
    checked = properties_of(alone(problem), seconds=5).verdicts
    for name in ("envy_free", "pareto_optimal", "strong_sharing_incentive"):
        assert checked[name].holds is not False


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
@pytest.mark.parametrize("tree", [{}, {"groups": ["g"], "tenant_group": [0, -1]}])
def test_an_answer_under_the_other_option_is_refused(mode, tree):
    """Servers of which dominant shares and tasks over those alone hand out others."""
    problem = problem_of([[4, 12], [12, 4]], [[3, 1], [1, 1]], **tree)
    found = {
        share: solve(problem, "drfh", mode=mode, options={"share": share})
        for share in ("dominant", "alone")
    }
    assert found["dominant"].tasks.tolist() != found["alone"].tasks.tolist()
    for share, other in (("dominant", "alone"), ("alone", "dominant")):
        assert verify(problem, found[share]).valid
        stated = replace(found[share], choice=found[other].choice)
        assert not verify(problem, stated).valid


def test_a_false_level_of_a_group_is_refused_in_a_document():
    problem = problem_of([[1, 2], [4, 3]], [[1, 1], [3, 2]], groups=["g"], tenant_group=[0, -1])
    for mode in ("divisible", "indivisible"):
        answer = alone(problem, mode)
        document = allocation_to_document(answer, ["placements", "certificate"])
        document["policy"] = {"name": "drfh", "mode": mode, "options": ALONE}
        parsed = ParsedProblem(problem, "drfh", mode, ALONE)
        assert verify_answer(parsed, document, answer.choice).valid
        assert document["groups"][0]["level"] == pytest.approx(answer.level[0])
        document["groups"][0]["level"] = float(answer.tenant_share[0])
        assert not verify_answer(parsed, document, answer.choice).valid


@examples(100)
@given(problem=problems(max_tenants=5), data=st.data())
def test_tasks_keep_their_places_where_the_counts_are_the_same(problem, data):
    limits = st.sampled_from([0.0, 1.0, 2.0, 4.0, np.inf])
    tasks = np.array(data.draw(st.lists(limits, min_size=problem.n, max_size=problem.n)))
    running = current_placements_of(alone(replace(problem, tasks=tasks), "indivisible"))
    answer = solve(problem, "drfh", mode="indivisible", options=ALONE, running=running)
    assert verify(problem, answer, running=running).valid
    assert answer.tasks.tolist() == alone(problem, "indivisible").tasks.tolist()


def test_explanations_say_what_a_tenant_would_run_alone():
    capacity, demand = [[1, 2], [4, 3]], [[1, 1], [3, 2]]
    for tree in ({}, {"groups": ["g"], "tenant_group": [0, 0]}):
        found = explain(alone(problem_of(capacity, demand, weight=[2, 1], **tree)), 0)
        level = found.level
        assert found.weighted_share == pytest.approx(level)
        assert f"{200 * level:.4g} % of what it would run alone, at weight 2" in found.sentence
        assert (found.just_above, found.just_below) == (None, None)
        assert found.share == pytest.approx(2 * level * 4 / 5)
    late = explain(alone(problem_of(capacity, demand, best_effort=[True, False])), 0)
    assert late.weighted_share is None


def test_what_the_command_line_solves_it_verifies(tmp_path):
    problem = problem_of([[1, 2], [4, 3]], [[1, 1], [3, 2]])
    path, answer = tmp_path / "problem.json", tmp_path / "answer.json"
    path.write_text(json.dumps(problem_to_document(ParsedProblem(problem, "drfh", None, {}))))
    command = [sys.executable, "-m", "policies"]
    options = ["--policy", "drfh", "--option", "share=alone", "--json"]
    solved = subprocess.run(
        [*command, "solve", path, *options], check=True, capture_output=True, text=True
    )
    rows = json.loads(solved.stdout)["allocations"]
    assert [row["tasks"] for row in rows] == near(["24/11", "10/11"])
    answer.write_text(solved.stdout)
    subprocess.run([*command, "verify", path, answer], check=True, capture_output=True)
