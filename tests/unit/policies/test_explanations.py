"""What an answer tells one tenant: its share, what held it back, and who is near it."""

import numpy as np
import pytest
from hypothesis import given

from policies import Gang, Problem, policies_available, solve
from policies.documents.evaluation import evaluate_document
from policies.explaining.explanations import explain
from tests.examples import examples
from tests.unit.policies.problems import problem_of, problems

CHOICES = [(info.name, mode) for info in policies_available() for mode in info.modes]


def test_what_binds_is_worth_the_level_at_its_prices():
    """Figure 2 of the DRFH paper; the prices of everything full add up to the level (duality)."""
    problem = problem_of([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]])
    answer = solve(problem, "drfh")
    mine = explain(answer, 0)
    assert mine.level == pytest.approx(5 / 7)
    assert (mine.just_above, mine.just_below) == (None, None)
    capacity = problem.capacity[answer.classes.first_row]
    worth = sum(item.price * capacity[item.server_class, item.resource] for item in mine.binding)
    assert worth == pytest.approx(5 / 7)
    assert "ran out" in mine.sentence


def test_who_has_all_its_tasks_is_told_so_and_who_is_above():
    problem = problem_of([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]], tasks=[3, np.inf])
    answer = solve(problem, "drfh")
    mine = explain(answer, 0)
    assert mine.sentence.endswith("that is all it asked for.")
    assert mine.just_above == pytest.approx(float(answer.weighted_share[1]))
    assert explain(answer, 1).just_below == pytest.approx(float(answer.weighted_share[0]))


@pytest.mark.parametrize(("policy", "mode"), CHOICES)
@examples(30)
@given(problem=problems(selectors=False))
def test_every_answer_is_explained_to_every_tenant(policy, mode, problem):
    answer = solve(problem, policy, mode=mode)
    for tenant in range(problem.t):
        mine = explain(answer, tenant)
        assert mine.sentence
        assert mine.share == pytest.approx(float(answer.tenant_share[tenant]))
        assert all(item.price > 0 for item in mine.binding)
        assert len(mine.workloads) == (problem.workload_tenant == tenant).sum()


def test_an_evaluation_includes_them_when_asked():
    document = {
        "resources": ["cpu"],
        "servers": [{"capacity": {"cpu": 4}}],
        "tenants": [{"name": "a"}, {"name": "b"}],
        "workloads": [
            {"tenant": "a", "name": "w", "demand": {"cpu": 1}, "server_selector": {"z": "x"}}
        ],
        "policy": {"name": "drfh"},
        "include": ["explanations"],
    }
    first, second = evaluate_document(document)["explanations"]
    assert first["workloads"] == [{"workload": "w", "limited_by": "no_eligible_server"}]
    assert "matches what it selects" in first["sentence"]
    assert second["sentence"] == "b runs nothing: it has no workload."


@pytest.mark.parametrize(
    ("fields", "standing"),
    [
        ({"weights_mode": "contribution"}, "because it contributed nothing to this pool"),
        ({"best_effort": [False, True]}, "because it is best effort"),
    ],
)
def test_who_is_served_last_is_told_why(fields, standing):
    problem = Problem.create(
        resources=["cpu"],
        capacity=[[8]],
        contributed_by=[0],
        tenants=["owner", "guest"],
        demand=[[1], [1]],
        tasks=[5, np.inf],
        **fields,
    )
    sentence = explain(solve(problem, "drf"), 1).sentence
    assert sentence == (
        "guest runs 3 tasks of workload-0002, a dominant share of 37.5 % of what the others leave, "
        f"{standing}; it stopped where cpu ran out on the servers where it costs least."
    )


def waiting_gangs(count, **fields):
    """Return workloads of one tenant on 2 servers of 8 GPUs, 3 gangs of 8 GPUs and the others of 9."""
    pieces = [Gang(np.array([3 + j % 3]), np.array([[8.0 + j // 3]])) for j in range(count)]
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[2], tenants=["a"], workload_tenant=[0] * count,
        demand=[[1]] * count, tasks=[1] * count, gangs=dict(enumerate(pieces)),
        workload_names=[chr(ord("a") + j) * 2 for j in range(count)], **fields,
    )  # fmt: skip
    return solve(problem, "drfh", mode="indivisible")


def test_each_workload_that_waits_for_a_reason_of_its_own_is_explained():
    sentence = explain(waiting_gangs(2), 0).sentence
    assert sentence.endswith(
        "; aa stopped: even on empty servers, only 2 of 3 pieces of one more task fit; bb stopped: even"
        " on empty servers, only 2 of 4 pieces of one more task fit."
    )
    one = explain(waiting_gangs(1), 0).sentence
    assert one.endswith(
        "; aa stopped: even on empty servers, only 2 of 3 pieces of one more task fit."
    )


def test_at_most_three_reasons_are_explained():
    sentence = explain(waiting_gangs(5), 0).sentence
    assert sentence.count("stopped:") == 3
    assert sentence.endswith("only 2 of 5 pieces of one more task fit; and 2 more workloads wait.")
    sentence = explain(waiting_gangs(6), 0, first=5).sentence
    assert "; ff, dd and ee get nothing more: one piece is larger than every server" in sentence
    assert sentence.endswith("only 2 of 4 pieces of one more task fit; and 1 more workload waits.")


def test_workloads_with_one_reason_are_named_together():
    problem = Problem.create(
        resources=["gpu", "cpu"], capacity=[[8, 0], [0, 8]], tenants=["a"], workload_tenant=[0] * 5,
        demand=[[9, 0], [9, 0], [0, 1], [1, 0], [1, 0]], workload_names=["x", "y", "c", "g", "h"],
        tasks=[1, 1, 99, 99, 99],
    )  # fmt: skip
    sentence = explain(solve(problem, "drfh", mode="indivisible"), 0).sentence
    assert sentence.endswith(
        "; x and y get nothing more: one task is larger than every server it may run on; c stopped where"
        " cpu ran out; g and h stopped where gpu ran out."
    )
