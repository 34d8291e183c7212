"""Deficits of a period that was cut short: repaid by time sharing, refused elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from policies import (
    PROPERTY_NAMES,
    PolicyNotApplicableError,
    Problem,
    ProblemError,
    policies_available,
    problem_from_document,
    problem_to_document,
    properties_of,
    solve,
    verify,
)
from policies.documents.comparison import compare_documents


def thesis(**fields):
    """15 and 15; tasks of 5,2 and 3,3.5: on average 63/41 and 90/41 tasks, both shares 21/41."""
    return Problem.create(
        resources=["cpu", "memory"],
        capacity=[[15, 15]],
        tenants=["u1", "u2"],
        demand=[[5, 2], [3, 3.5]],
        **fields,
    )


DOCUMENT = {
    "resources": ["cpu", "memory"],
    "servers": [{"name": "pool", "capacity": {"cpu": 15, "memory": 15}}],
    "tenants": [{"name": "u1", "owed": 0.125}, {"name": "u2"}],
    "workloads": [
        {"tenant": "u1", "name": "one", "demand": {"cpu": 5, "memory": 2}},
        {"tenant": "u2", "name": "two", "demand": {"cpu": 3, "memory": 3.5}},
    ],
    "policy": {"name": "tda"},
}


def test_a_deficit_is_repaid_in_full():
    """(3, 0) for 13.15/41 of the time, else (1, 3): the shares are 0.1 apart."""
    answer = solve(thesis(deficit=[0.1, 0.0]), "tda")
    one, two = answer.tenant_share
    assert one - two == pytest.approx(0.1, abs=1e-14)
    assert answer.schedule.repaid == pytest.approx([one - 21 / 41, 0])
    assert solve(thesis(), "tda").schedule.repaid is None
    assert answer.tasks == pytest.approx([69 / 41, 81 / 41])
    assert answer.level == pytest.approx([one, one])
    assert answer.objective == pytest.approx(one)
    assert verify(answer.problem, answer).valid


@pytest.mark.parametrize(("owed", "first"), [([0.1, 0.0], [3, 0]), ([0.0, 0.1], [1, 3])])
def test_the_period_begins_with_the_slot_of_the_largest_deficit(owed, first):
    assert solve(thesis(deficit=owed), "tda").schedule.tasks[0].tolist() == first


def test_more_than_a_period_can_give_is_given_as_far_as_it_goes():
    answer = solve(thesis(deficit=[0.0, 5.0]), "tda")
    assert answer.tasks.tolist() == [0.0, 4.0]
    assert verify(answer.problem, answer).valid


def test_equal_deficits_change_nothing():
    plain, owed = solve(thesis(), "tda"), solve(thesis(deficit=[0.25, 0.25]), "tda")
    assert owed.tasks == pytest.approx(plain.tasks, abs=1e-14)
    twice = solve(thesis(deficit=[0.25, 0.5], weight=[1, 2]), "tda")
    assert twice.tasks == pytest.approx(solve(thesis(weight=[1, 2]), "tda").tasks, abs=1e-14)


def test_an_answer_is_not_that_of_other_debts():
    answer = solve(thesis(deficit=[0.1, 0.0]), "tda")
    other = thesis(deficit=[0.11, 0.0])
    assert not verify(other, replace(answer, problem=other)).valid


@pytest.mark.parametrize("info", policies_available(), ids=lambda info: info.name)
def test_policies_without_turns_refuse_to_owe(info):
    if info.time_sharing:
        return
    with pytest.raises(PolicyNotApplicableError) as refusal:
        solve(thesis(deficit=[0.0, -0.1]), info.name)
    assert (refusal.value.code, refusal.value.pointer) == ("policy.owed", "/tenants/1/owed")


@pytest.mark.parametrize("owed", [np.nan, np.inf, -np.inf, 1001.0, -1001.0])
def test_a_deficit_out_of_range_is_refused(owed):
    with pytest.raises(ProblemError) as refusal:
        thesis(deficit=[0.0, owed])
    assert (refusal.value.code, refusal.value.pointer) == ("owed.out_of_range", "/tenants/1/owed")


def test_documents_state_deficits_and_only_those():
    parsed = problem_from_document(DOCUMENT)
    assert parsed.problem.deficit.tolist() == [0.125, 0.0]
    written = problem_to_document(parsed)
    assert [tenant.get("owed") for tenant in written["tenants"]] == [0.125, None]
    assert problem_from_document(written).problem.deficit.tolist() == [0.125, 0.0]


def test_a_comparison_owes_under_the_policies_that_take_turns():
    columns = compare_documents(DOCUMENT, ["tda", "drf"])
    assert [column["error"] for column in columns["columns"]] == [None, None]
    shares = [row["dominant_share"] for row in columns["columns"][0]["allocations"]]
    assert shares[0] - shares[1] == pytest.approx(0.125)


def test_properties_of_a_schedule_that_repays_a_deficit_are_answered():
    problem = thesis(deficit=[0.2, -0.2])
    answer = solve(problem, "tda")
    verdicts = properties_of(answer).verdicts
    assert set(verdicts) == set(PROPERTY_NAMES)
