"""Time division that ends before its optimum is proven: the best so far, and what is open."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Problem, allocation_to_document, solve, verify
from policies.documents.answer import summary_document
from policies.documents.certificate import certificate_from_document, certificate_to_document
from tests.examples import examples, long
from tests.references.time_division import leximin_shares
from tests.unit.policies.test_tda_properties import failed_checks, small_pools


def large_pool(tenants=120, resources=2, seed=1):
    """A grid of a thousand units each way, far too large to be tabulated."""
    random = np.random.default_rng(seed)
    return Problem.create(
        resources=("cpu", "memory", "gpu")[:resources],
        capacity=[[1000] * resources],
        tenants=[f"u{i}" for i in range(tenants)],
        demand=random.integers(1, 60, (tenants, resources)),
        weight=random.choice([0.5, 1.0, 2.0], tenants),
    )


@examples(250)
@given(
    small_pools(servers=2, selectors=True),
    st.sampled_from([1e-12, 1e-7, 1e-6, 1e-5, 1e-4]),
)
def test_whatever_the_effort_the_answer_is_feasible_and_its_bound_holds(problem, effort):
    answer = solve(problem, "tda", options={"pack": True, "effort": effort})
    assert failed_checks(problem, answer) == []
    optimum = leximin_shares(problem, pack=True)
    level = optimum / problem.effective_weight
    first = answer.certificate.rounds[:1]
    for item in first:
        mine = problem.second_stage == bool(item.stage)
        mine &= answer.certificate.frozen_in >= 0
        assert item.bound >= level[mine].min() - 1e-7
    if all(item.proven for item in answer.certificate.rounds):
        assert answer.tenant_share == pytest.approx(optimum, abs=1e-7)


def test_more_effort_gives_a_higher_level_and_no_bound_is_below_it():
    problem = large_pool()
    answers = [
        solve(problem, "tda", options={"effort": effort}) for effort in (1e-6, 0.02, 0.1, 1.0)
    ]
    levels = [answer.objective for answer in answers]
    assert levels == sorted(levels)
    assert levels[0] < levels[-1]
    for answer in answers:
        assert failed_checks(problem, answer) == []
        assert answer.bound >= levels[-1] * (1 - 1e-9)
        assert answer.gap == pytest.approx(1 - answer.objective / answer.bound, abs=1e-12)
        assert answer.gap == answer.schedule.gap
        assert len(answer.schedule.fraction) <= problem.t
    first, last = answers[0], answers[-1]
    assert first.gap > 1e-3
    assert first.statistics["stopped"] == "work"
    assert not first.certificate.rounds[-1].proven
    assert last.gap <= 1e-9
    assert last.statistics["stopped"] is None
    assert all(item.proven for item in last.certificate.rounds)


@pytest.mark.parametrize("resources", [pytest.param(2, marks=long), 3])
def test_hundreds_of_tenants_on_a_grid_of_a_thousand_are_proven(resources):
    problem = large_pool(tenants=300, resources=resources)
    answer = solve(problem, "tda", options={"effort": 3})
    assert failed_checks(problem, answer) == []
    assert answer.gap <= 1e-9
    assert len(answer.schedule.fraction) <= problem.t


def test_the_same_work_gives_the_same_bytes():
    problem = large_pool()
    documents = [
        json.dumps(
            allocation_to_document(
                solve(problem, "tda", options={"effort": 0.05}), ("schedule", "certificate")
            )
        )
        for _ in range(2)
    ]
    assert documents[0] == documents[1]


def test_time_that_runs_out_gives_the_best_so_far():
    problem = large_pool(tenants=400, resources=3)
    answer = solve(problem, "tda", options={"effort": 100}, time_limit=2.0)
    assert failed_checks(problem, answer) == []
    assert answer.statistics["stopped"] == summary_document(answer)["stopped"] == "time"
    assert answer.gap > 0
    assert not answer.certificate.rounds[-1].proven


def test_an_open_round_says_so_and_cannot_be_called_proven():
    problem = large_pool()
    answer = solve(problem, "tda", options={"effort": 0.01})
    document = certificate_to_document(answer.certificate)
    assert document["rounds"][-1]["proven"] is False
    again = certificate_from_document(document)
    assert [item.proven for item in again.rounds] == [
        item.proven for item in answer.certificate.rounds
    ]
    rounds = tuple(replace(item, proven=True) for item in again.rounds)
    forged = replace(answer, certificate=replace(again, rounds=rounds))
    failed = {check.name for check in verify(problem, forged).checks if not check.holds}
    assert failed == {"levels_proven", "tenants_stuck", "levels"}


def test_all_tasks_but_for_a_billionth_of_the_time_are_all_tasks():
    """Stopped early, the mixture may have a slot of some 2e-9 in which a task of `many` is missing."""
    problem = Problem.create(
        resources=("cpu", "memory"),
        capacity=[[5, 8]],
        server_count=[2],
        tenants=["u1", "u2"],
        best_effort=[False, True],
        workload_names=["wide", "many", "late"],
        workload_tenant=[0, 0, 1],
        demand=[[3, 0.1], [0, 0.1], [0, 0.25]],
        tasks=[np.inf, 100, np.inf],
    )
    answer = solve(problem, "tda", options={"effort": 1e-5})
    assert answer.tasks[1] == pytest.approx(100, rel=1e-9)
    assert answer.limited_by[1] == "task_limit"
    assert failed_checks(problem, answer) == []
