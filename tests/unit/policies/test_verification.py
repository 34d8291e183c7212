"""The verifier accepts answers and finds whatever was changed in them."""

from dataclasses import replace

import numpy as np
import pytest

from policies import (
    Allocation,
    certificate_from_document,
    certificate_to_document,
    solve,
    verify,
)
from tests.unit.policies.problems import problem_of

CAPACITY = [[2, 12], [12, 2], [3, 3]]
DEMAND = [[0.2, 1], [1, 0.2], [1, 0], [0.5, 0.5]]
FIELDS = {"tasks": [np.inf, np.inf, 2, np.inf], "weight": [1, 2, 1, 1], "server_count": [1, 1, 2]}


@pytest.fixture
def problem():
    return problem_of(
        CAPACITY,
        DEMAND,
        **FIELDS,
        server_labels=[{"zone": "a"}, {"zone": "b"}, {"zone": "b"}],
        selectors=[{}, {}, {}, {"zone": "b"}],
        best_effort=[False, False, False, False],
    )


@pytest.fixture
def answer(problem):
    return solve(problem, "drfh")


def refusals(problem, answer):
    verification = verify(problem, answer)
    assert verification.valid == all(check.holds for check in verification.checks)
    return [check.name for check in verification.checks if not check.holds]


def test_an_answer_is_accepted(problem, answer):
    assert refusals(problem, answer) == []


@pytest.mark.parametrize("factor", [0.99, 1.01])
@pytest.mark.parametrize("field", ["tasks", "level", "placement_tasks", "objective", "bound"])
def test_any_number_changed_is_found(problem, answer, field, factor):
    values = np.atleast_1d(getattr(answer, field)).astype(float)
    for i in range(len(values)):
        changed = values.copy()
        changed[i] *= factor
        value = changed if field not in ("objective", "bound") else float(changed[0])
        assert refusals(problem, replace(answer, **{field: value})), (field, i)


@pytest.mark.parametrize(("workload", "tasks"), [(2, 3.0), (0, -1.0)])
def test_more_tasks_than_there_are_or_less_than_nothing_are_found_as_such(workload, tasks):
    problem = problem_of(CAPACITY, DEMAND, **FIELDS)
    answer = solve(problem, "drf")
    changed = answer.tasks.copy()
    changed[workload] = tasks
    assert "task_limits" in refusals(problem, replace(answer, tasks=changed))


def test_an_overfilled_pool_is_found_as_such():
    problem = problem_of(CAPACITY, DEMAND, **FIELDS)
    answer = solve(problem, "drf")
    more = answer.tasks * [1.01, 1, 1, 1]
    assert "pool_capacity" in refusals(problem, replace(answer, tasks=more))


def test_a_server_overfilled_in_one_resource_is_found_as_such():
    """A task that takes processors moves to where memory is left, and no processor."""
    problem = problem_of(CAPACITY, DEMAND, **FIELDS)
    answer = solve(problem, "drfh")
    placed = list(zip(answer.placement_workload, answer.placement_class, strict=True))
    tasks = answer.placement_tasks.copy()
    tasks[placed.index((1, 0))] += 0.1
    tasks[placed.index((1, 1))] -= 0.1
    assert "server_capacity" in refusals(problem, replace(answer, placement_tasks=tasks))
    there = answer.placement_class == 0
    used = np.array(DEMAND)[answer.placement_workload[there]].T @ tasks[there]
    assert (used > CAPACITY[0]).tolist() == [True, False]


def test_more_placed_than_runs_is_found_as_such(problem, answer):
    tasks = answer.placement_tasks * [1.01, *[1] * (len(answer.placement_tasks) - 1)]
    changed = replace(answer, placement_tasks=tasks)
    assert "placements_add_up" in refusals(problem, changed)


def test_tasks_of_a_workload_that_may_run_nowhere_are_found_as_such():
    labels = {"server_labels": [{}, {}, {}], "selectors": [{}, {}, {}, {"zone": "a"}]}
    problem = problem_of(CAPACITY, DEMAND, **FIELDS, **labels)
    answer = solve(problem, "drfh")
    assert answer.tasks[3] == 0
    changed = replace(answer, tasks=np.array([*answer.tasks[:3], 0.001]))
    assert "unservable" in refusals(problem, changed)


def test_a_placement_given_in_two_halves_is_found(problem, answer):
    halves = answer.placement_tasks / [2, *[1] * (len(answer.placement_tasks) - 1)]
    changed = replace(
        answer,
        placement_piece=np.append(answer.placement_workload, answer.placement_workload[0]),
        placement_class=np.append(answer.placement_class, answer.placement_class[0]),
        placement_tasks=np.append(halves, halves[0]),
    )
    assert refusals(problem, changed) == ["placements"]


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_shares_above_and_below_the_round_s_level_are_found_as_such(problem, answer, factor):
    first, *others = answer.certificate.rounds
    rounds = (replace(first, level=first.level * factor), *others)
    certificate = replace(answer.certificate, rounds=rounds)
    assert "shares" in refusals(problem, replace(answer, certificate=certificate))


def test_a_best_effort_tenant_in_a_round_of_the_others_is_found_as_such():
    problem = problem_of(CAPACITY, DEMAND, **FIELDS, best_effort=[False, False, False, True])
    answer = solve(problem, "drfh")
    assert [item.stage for item in answer.certificate.rounds] == [0, 1]
    frozen_in = answer.certificate.frozen_in.copy()
    frozen_in[3] = 0
    certificate = replace(answer.certificate, frozen_in=frozen_in)
    changed = replace(answer, certificate=certificate)
    assert refusals(problem, changed) == ["certificate"]


def test_negative_prices_are_no_prices(problem, answer):
    first, *others = answer.certificate.rounds
    negative = replace(first, prices=np.where(first.prices > 0, -first.prices, first.prices))
    certificate = replace(answer.certificate, rounds=(negative, *others))
    assert "certificate" in refusals(problem, replace(answer, certificate=certificate))


def test_prices_too_far_apart_to_be_added_up_prove_nothing():
    """Their costs cancel to 0 but for rounding, as if nothing were left for u3."""
    problem = problem_of(
        [[1, 0.25], [0.5, 0]],
        [[0.1, 0.1], [0.1, 0], [0, 0.1], [0.1, 0]],
        server_count=[2, 3],
        t=3,
        workload_tenant=[1, 0, 2, 2],
        tasks=[1, np.inf, 1, np.inf],
        best_effort=[False, False, True],
    )
    answer = solve(problem, "drfh")
    assert answer.tasks == pytest.approx([1, 34, 1, 0])
    first, last = answer.certificate.rounds
    gpus_next_to_nothing = np.array([[1.2e19, 2.0], [1.2e19, 0.4]])
    rounds = (first, replace(last, level=0.0, bound=0.0, prices=gpus_next_to_nothing))
    kept = answer.placement_workload < 2
    denied = replace(
        answer,
        tasks=answer.tasks * [1, 1, 0, 0],
        level=answer.level * [1, 1, 0],
        limited_by=("task_limit", "resource:cpu", "resource:memory", "level"),
        placement_piece=answer.placement_workload[kept],
        placement_class=answer.placement_class[kept],
        placement_tasks=answer.placement_tasks[kept],
        certificate=replace(answer.certificate, rounds=rounds),
    )
    assert {"bounds_stated", "tenants_stuck"} <= set(refusals(problem, denied))


def test_a_gap_that_is_not_the_certificate_s_is_found(problem, answer):
    assert refusals(problem, replace(answer, gap=answer.gap + 1e-6)) == ["objective"]


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_any_price_level_or_bound_changed_is_found(problem, answer, factor):
    document = certificate_to_document(answer.certificate)
    for number, item in enumerate(document["rounds"]):
        places = [
            (c, r) for c, row in enumerate(item["prices"]) for r, p in enumerate(row) if p > 0
        ]
        assert places, f"round {number} has no price"
        for c, r in places:
            forged = certificate_to_document(answer.certificate)
            forged["rounds"][number]["prices"][c][r] *= factor
            assert refusals(problem, with_certificate(answer, forged)), (number, c, r)
        for name in ("level", "bound"):
            forged = certificate_to_document(answer.certificate)
            forged["rounds"][number][name] *= factor
            assert refusals(problem, with_certificate(answer, forged)), (number, name)


def test_a_round_given_to_another_tenant_is_found(problem, answer):
    for i, number in enumerate(answer.certificate.frozen_in.tolist()):
        for other in {-1, *range(len(answer.certificate.rounds) + 1)} - {number}:
            forged = certificate_to_document(answer.certificate)
            forged["frozen_in"][i] = other
            names = refusals(problem, with_certificate(answer, forged))
            satisfied = answer.limited_by[i] == "task_limit" and other >= 0
            assert names or satisfied, (i, other)


def test_a_reason_that_does_not_follow_is_found(problem, answer):
    for j, reason in enumerate(answer.limited_by):
        for other in {"task_limit", "level", "resource:cpu", "resource:memory"} - {reason}:
            reasons = list(answer.limited_by)
            reasons[j] = other
            assert refusals(problem, replace(answer, limited_by=tuple(reasons)))


def test_a_placement_where_the_workload_may_not_run_is_found(problem, answer):
    moved = answer.placement_class.copy()
    moved[answer.placement_workload == 3] = 0
    assert "eligibility" in refusals(problem, replace(answer, placement_class=moved))


def test_prices_of_unmerged_servers_are_found(problem, answer):
    document = certificate_to_document(answer.certificate)
    for item in document["rounds"]:
        item["prices"] = item["prices"] + item["prices"][-1:]
    assert refusals(problem, with_certificate(answer, document)) == ["certificate"]


def test_another_problem_s_answer_is_refused(answer):
    smaller = problem_of(np.array(CAPACITY) * 0.9, DEMAND, **FIELDS)
    assert refusals(smaller, answer)


def test_an_answer_for_other_workloads_has_the_wrong_shape(answer):
    assert refusals(problem_of(CAPACITY, DEMAND[:3]), answer) == ["shapes"]


def test_a_stored_decision_can_be_rebuilt_and_verified(problem, answer):
    workload, row, _, _, each = answer.placements_by_range()
    certificate = certificate_from_document(certificate_to_document(answer.certificate))
    rebuilt = Allocation.from_parts(
        problem,
        choice=answer.choice,
        tasks=answer.tasks,
        placement_piece=workload,
        placement_row=row,
        placement_each=each,
        level=answer.level,
        limited_by=answer.limited_by,
        objective=answer.objective,
        bound=answer.bound,
        gap=answer.gap,
        certificate=certificate,
    )
    assert refusals(problem, rebuilt) == []
    assert rebuilt.placement_tasks.tolist() == answer.placement_tasks.tolist()


def test_whole_tasks_are_verified_without_a_certificate():
    problem = problem_of([[10, 10]], [[3, 3]], contributed_by=[0])
    answer = solve(problem, "static")
    assert refusals(problem, answer) == []
    assert refusals(problem, replace(answer, tasks=answer.tasks + 1))


def with_certificate(answer, document):
    return replace(answer, certificate=certificate_from_document(document))


def test_room_for_one_more_whole_task_is_found_as_such():
    problem = problem_of([[15, 15]], [[5, 2], [3, 3.5]])
    answer = solve(problem, "drf", mode="indivisible")
    changed = replace(answer, tasks=answer.tasks - [1, 0])
    assert "saturated" in refusals(problem, changed)
