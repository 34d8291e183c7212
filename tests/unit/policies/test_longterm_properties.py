"""Long-term policies on small random pools, several steps long, against a reference in fractions."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    History,
    Problem,
    history_from_document,
    history_to_document,
    solve,
    verify,
)
from tests.examples import examples
from tests.references.long_term import Past, Step
from tests.unit.policies.problems import problems

POLICIES = ("lt-drf", "lt-af", "h-mrf")
pending = st.sampled_from([0, 0, 1, 2, 3, 5, 10, 40, math.inf])


@st.composite
def instances(draw, placement=None):
    """A pool, what is pending in each of up to three steps, the step's length and options."""
    placement = placement or draw(st.sampled_from(["affinity", "pool"]))
    problem = draw(problems(max_servers=3, selectors=placement == "affinity"))
    steps = draw(
        st.lists(st.lists(pending, min_size=problem.n, max_size=problem.n), min_size=1, max_size=3)
    )
    options = {"placement": placement}
    if draw(st.booleans()):
        options["starvation_timeout"] = draw(st.sampled_from([0.1, 0.5, 1, 2]))
    if draw(st.booleans()):
        options["borrow_cap"] = draw(st.sampled_from([0, 0.25, 1]))
    return problem, steps, draw(st.sampled_from([0.1, 1, 60])), options


def with_pending(problem, tasks):
    return dataclasses.replace(problem, tasks=np.array(tasks, dtype=np.float64))


@pytest.mark.parametrize("policy", POLICIES)
@examples(500)
@given(instance=instances())
def test_it_does_what_the_page_says(policy, instance):
    problem, steps, length, options = instance
    past = Past(problem.t, problem.m, length)
    history = History.zeros(problem, length)
    for tasks in steps:
        asked = with_pending(problem, tasks)
        answer = solve(asked, policy, options=options, history=history)
        expected = Step(
            asked,
            policy,
            past,
            options["placement"],
            options.get("starvation_timeout"),
            options.get("borrow_cap"),
        )
        assert answer.tasks.tolist() == expected.run()
        verification = verify(asked, answer, history)
        assert verification.valid, [check for check in verification.checks if not check.holds]
        assert answer.history is not None
        history = answer.history
        assert np.allclose(history.used, np.array(past.used, dtype=float), rtol=1e-12, atol=0)
        assert np.allclose(history.alone, np.array(past.alone, dtype=float), rtol=1e-12, atol=0)
        assert np.allclose(history.waiting, np.array(past.waiting, dtype=float), rtol=1e-12)
        assert math.isclose(history.elapsed, past.elapsed)


@pytest.mark.parametrize("policy", POLICIES)
@examples(100)
@given(instance=instances(placement="affinity"))
def test_tasks_go_where_the_reference_puts_them(policy, instance):
    problem, steps, length, options = instance
    asked = with_pending(problem, steps[0])
    answer = solve(asked, policy, options=options, history=History.zeros(problem, length))
    past = Past(problem.t, problem.m, length)
    expected = Step(
        asked,
        policy,
        past,
        "affinity",
        options.get("starvation_timeout"),
        options.get("borrow_cap"),
    )
    expected.run()
    placed = {}
    for j, server in expected.launched:
        placed[j, expected.row_of[server]] = placed.get((j, expected.row_of[server]), 0) + 1
    workload, row, tasks = answer.placements_by_row()
    columns = (column.tolist() for column in (workload, row, tasks))
    assert {(j, r): count for j, r, count in zip(*columns, strict=True)} == placed


@pytest.mark.parametrize("policy", POLICIES)
@examples(50)
@given(instance=instances())
def test_a_history_that_was_written_and_read_continues_to_the_last_digit(policy, instance):
    problem, steps, length, options = instance
    kept = written = History.zeros(problem, length)
    options["literal_alone"] = True
    for tasks in steps:
        asked = with_pending(problem, tasks)
        first = solve(asked, policy, options=options, history=kept)
        again = solve(asked, policy, options=options, history=written)
        assert np.array_equal(first.tasks, again.tasks)
        assert first.history is not None
        assert again.history is not None
        document = json.dumps(
            history_to_document(again.history, problem.tenants, problem.resources)
        )
        kept = first.history
        written = history_from_document(json.loads(document), problem.tenants, problem.resources)
        for name in ("used", "alone", "waiting", "literal_alone"):
            assert np.array_equal(getattr(kept, name), getattr(written, name)), name


@st.composite
def long_runs(draw):
    """One workload per tenant on one pool, and what is pending in each of ten steps."""
    m, t = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    demand = st.lists(st.sampled_from([0.1, 0.25, 1.0, 2.0, 3.0]), min_size=m, max_size=m)
    problem = Problem.create(
        resources=("cpu", "memory", "gpu")[:m],
        capacity=[draw(st.lists(st.sampled_from([4.0, 10.0, 15.0]), min_size=m, max_size=m))],
        tenants=[f"u{i}" for i in range(t)],
        demand=draw(st.lists(demand, min_size=t, max_size=t)),
        weight=draw(st.lists(st.sampled_from([1.0, 1.5, 2.0, 3.0]), min_size=t, max_size=t)),
    )
    counts = st.lists(pending, min_size=t, max_size=t)
    return problem, draw(st.lists(counts, min_size=10, max_size=10))


@examples(500)
@given(run=long_runs())
def test_under_h_mrf_nobody_ever_loses_by_sharing_one_pool(run):
    """Tenants alone run whole tasks that together fit the pool, so that everybody can have β ≥ 1."""
    problem, steps = run
    history = History.zeros(problem)
    for tasks in steps:
        asked = with_pending(problem, tasks)
        answer = solve(asked, "h-mrf", options={"placement": "pool"}, history=history)
        assert answer.history is not None
        history = answer.history
        degree = history.sharing_degree
        assert (degree[~np.isnan(degree)] >= 1 - 1e-9).all()


@examples(200)
@given(run=long_runs(), policy=st.sampled_from(POLICIES))
def test_with_an_empty_window_and_one_resource_all_give_what_memoryless_drf_gives(run, policy):
    """Then every measure is the share in this step; h-mrf first lets everybody catch up with alone."""
    problem, steps = run
    asked = Problem.create(
        resources=("cpu",),
        capacity=problem.capacity[:, :1],
        tenants=problem.tenants,
        demand=problem.demand[:, :1],
        weight=problem.weight,
        tasks=steps[0],
    )
    answer = solve(asked, policy, options={"placement": "pool"})
    memoryless = solve(asked, "drf", mode="indivisible")
    if policy == "h-mrf":
        assert answer.history is not None
        degree = answer.history.sharing_degree
        assert (degree[~np.isnan(degree)] >= 1 - 1e-9).all()
    else:
        assert np.array_equal(answer.tasks, memoryless.tasks)


def tampered(history, name, tenant):
    values = getattr(history, name).copy()
    values[tenant] += 0.5
    return dataclasses.replace(history, **{name: values})


@pytest.mark.parametrize("policy", POLICIES)
@examples(100)
@given(instance=instances(), where=st.sampled_from(["used", "alone", "waiting"]), data=st.data())
def test_a_history_that_was_tampered_with_is_found_out(policy, instance, where, data):
    problem, steps, length, options = instance
    asked = with_pending(problem, steps[0])
    before = History.zeros(problem, length)
    answer = solve(asked, policy, options=options, history=before)
    assert answer.history is not None
    tenant = data.draw(st.integers(0, problem.t - 1))
    wrong = tampered(answer.history, where, tenant)
    assert not verify(asked, dataclasses.replace(answer, history=wrong), before).valid
    assert not verify(asked, dataclasses.replace(answer, history=None), before).valid
    assert not verify(asked, answer, tampered(before, where, tenant)).valid or where == "waiting"
    longer = dataclasses.replace(answer.history, elapsed=answer.history.elapsed + 1)
    assert not verify(asked, dataclasses.replace(answer, history=longer), before).valid
