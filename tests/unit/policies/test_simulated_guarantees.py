"""Guarantees, own servers and loans in simulations: figures, a reference in fractions, and refusals."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies import Guarantee, Limit, PolicyNotApplicableError, Problem, Window, solve
from policies.simulation import POLICIES, ServerChanges, Trace, simulate
from tests.examples import examples
from tests.references.simulation import ONE_POOL, Simulated
from tests.unit.policies.drawn_traces import changes_of, plain
from tests.unit.policies.trees import problems_with_guarantees

INF = np.inf
KEEPING = [name for name, policy in POLICIES.items() if policy.takes_limits]
CASES: list[tuple[str, Any]] = [(name, {}) for name in KEEPING] + [
    ("drfh", {"placement": rule, "seed": 5}) for rule in ("first-fit", "affinity", "two-choices")
] + [("drfh", {"share": "alone"})]  # fmt: skip


def name_of(case):
    return "-".join([case[0], *map(str, case[1].values())])


def begun(found, second):
    """Tasks of each workload that began at a second."""
    workload = found.trace.workload[found.start == second]
    return np.bincount(workload, minlength=found.problem.n).tolist()


def long_tasks(problem, count):
    """As many tasks of each workload, from the beginning and for long."""
    workload = np.repeat(np.arange(problem.n), count)
    return Trace.create(
        workload=workload, submit=np.zeros(len(workload)), duration=np.full(len(workload), 1e6)
    )


def two_tenants(**fields):
    given = [Guarantee("tenant", 0, np.array([40.0])), Guarantee("tenant", 1, np.array([10.0]))]
    return Problem.create(
        **{
            "resources": ["gpu"], "capacity": [[100]], "tenants": ["a", "b"], "demand": [[1], [1]],
            "guarantees": given, **fields,
        }
    )  # fmt: skip


@pytest.mark.parametrize("policy", KEEPING)
@pytest.mark.parametrize(("counted", "expected"), [(True, [50, 50]), (False, [65, 35])])
def test_levels_count_what_is_guaranteed_or_what_is_above(policy, counted, expected):
    """Case F of the page on guarantees."""
    problem = two_tenants(count_guaranteed=counted)
    assert begun(simulate(problem, long_tasks(problem, 200), policy), 0) == expected


@pytest.mark.parametrize("policy", KEEPING)
@pytest.mark.parametrize(("counted", "expected"), [(True, [5, 5, 10]), (False, [8, 3, 9])])
def test_a_guarantee_inside_that_of_a_group_counts_there_or_is_on_top(policy, counted, expected):
    """a and b run their floors. If these do not count, one more task is due to the group at level 0."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[20]], tenants=["a", "b", "c"], demand=[[1]] * 3,
        weight=[1, 1, 1000], groups=["g"], tenant_group=[0, 0, -1], count_guaranteed=counted,
        guarantees=[Guarantee("group", 0, np.array([10.0])), Guarantee("tenant", 0, np.array([4.0]))],
    )  # fmt: skip
    assert begun(simulate(problem, long_tasks(problem, 40), policy), 0) == expected
    assert solve(problem, policy, mode="indivisible").tasks.tolist() == expected


def condominium(own, weight):
    h100, a10 = {"gpu": ("h100",)}, {"gpu": ("a10",)}
    return Problem.create(
        resources=["gpu"], capacity=[[1]] * 4, server_count=[5, 5, 5, 50],
        server_labels=[{"gpu": "h100"}] * 3 + [{"gpu": "a10"}], contributed_by=[0, 1, 2, -1],
        tenants=["A", "B", "C"], workload_tenant=[0, 0, 1, 1, 2], demand=[[1]] * 5,
        selectors=[h100, a10, h100, a10, h100], own_servers=[own] * 3,
        weight=[1, 1, weight],
    )  # fmt: skip


@pytest.mark.parametrize("placement", ["best-fit", "first-fit", "affinity", "two-choices"])
@pytest.mark.parametrize("weight", [1, 3])
def test_own_servers_of_a_condominium(placement, weight):
    """Case E: each has the five H100 servers that it brought, also if C weighs more."""
    problem, options = condominium(True, weight), {"placement": placement}
    found = begun(simulate(problem, long_tasks(problem, 60), "drfh", options=options), 0)
    assert found == [5, 25, 5, 25, 5]
    shared = condominium(False, 3)
    found = begun(simulate(shared, long_tasks(shared, 60), "drfh", options=options), 0)
    assert found[4] > 5


@pytest.mark.parametrize("case", CASES, ids=name_of)
@examples(100)
@given(data=st.data())
def test_on_empty_servers_the_tasks_are_those_of_a_decision(case, data):
    policy, options = case
    problem = data.draw(problems_with_guarantees(pooled=policy in ONE_POOL))
    problem = replace(problem, tasks=np.minimum(problem.tasks, 9.0))
    workload = np.repeat(np.arange(problem.n), problem.tasks.astype(int))
    trace = Trace.create(
        workload=workload, submit=np.zeros(len(workload)), duration=np.ones(len(workload))
    )
    answer = solve(problem, policy, mode="indivisible", options=options)
    if options.get("placement") == "two-choices":
        return  # a decision draws for its floors and for everything else from the beginning
    # A simulation leaves out workloads of which no task fits on any server, and they have no floor.
    assume("no_server_large_enough" not in answer.limited_by)
    assert begun(simulate(problem, trace, policy, options=options), 0) == answer.tasks.tolist()


@pytest.mark.parametrize("case", CASES, ids=name_of)
@examples(300)
@given(data=st.data())
def test_it_does_what_the_page_says(case, data):
    policy, options = case
    problem = data.draw(problems_with_guarantees(pooled=policy in ONE_POOL))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    problem = replace(problem, server_count=rng.integers(1, 4, problem.k))
    count = int(rng.integers(5, 40))
    trace = Trace.create(
        workload=rng.integers(0, problem.n, count),
        submit=rng.choice([0, 0, 0, 0.5, 1, 2, 3, 4.5, 5], count),
        duration=rng.choice([0.5, 1, 2, 2, 4, 7], count),
    )
    changes, terms = ServerChanges.none(), []
    if data.draw(st.booleans()):
        changes = data.draw(changes_of(int(problem.server_count.sum())))
    if data.draw(st.booleans()):
        other = replace(
            problem,
            guarantees=problem.guarantees[1:],
            own_servers=~problem.own_servers,
            count_guaranteed=not problem.count_guaranteed,
        )
        terms = [(2.0, other), (4.5, problem)]
    found = simulate(problem, trace, policy, options=options, changes=changes, terms=terms)
    moves = list(
        zip(changes.time.tolist(), changes.server.tolist(), changes.joins.tolist(), strict=True)
    )
    window = Window.unbounded()
    expected = Simulated(problem, trace, policy, window, 1, math.inf, options, moves, terms)
    assert np.array_equal(found.start, plain(expected.start), equal_nan=True)
    assert found.server.tolist() == expected.numbers()


@pytest.mark.parametrize("policy", KEEPING)
@examples(50)
@given(data=st.data())
def test_guarantees_of_nothing_change_nothing(policy, data):
    """Amounts of 0 go through all of the code that starts tasks of floors."""
    problem = data.draw(problems_with_guarantees(pooled=policy in ONE_POOL))
    nothing = np.zeros(problem.t, dtype=bool)
    bare = replace(problem, guarantees=(), own_servers=nothing)
    zero = Guarantee("tenant", 0, np.zeros(problem.m))
    trace = long_tasks(problem, 4)
    one, other = (
        simulate(each, trace, policy)
        for each in (bare, replace(bare, guarantees=(zero,), own_servers=nothing))
    )
    assert np.array_equal(one.start, other.start, equal_nan=True)
    assert one.server.tolist() == other.server.tolist()
    assert one.changed_rate.tolist() == other.changed_rate.tolist()


def test_a_floor_waits_for_the_tasks_of_others_and_then_goes_first():
    """b has all four GPUs, and one of its tasks ends each second; a is guaranteed two of them."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[4]], tenants=["a", "b"], demand=[[1], [1]], weight=[1, 100],
        guarantees=[Guarantee("tenant", 0, np.array([2.0]))],
    )  # fmt: skip
    trace = Trace.create(
        workload=[1] * 10 + [0] * 3, submit=[0] * 10 + [1] * 3,
        duration=[2, 3, 4, 5, *[9] * 6, 9, 9, 9],
    )  # fmt: skip
    found = simulate(problem, trace, "drfh")
    without = simulate(replace(problem, guarantees=()), trace, "drfh")
    # The third task of a is beyond its floor, and b's weight is greater.
    assert found.start[10:12].tolist() == [2, 3]
    assert found.start[4:6].tolist() == [4, 5]
    assert without.start[4:6].tolist() == [3, 4]


def test_a_floor_is_kept_on_the_servers_of_its_guarantee():
    problem = Problem.create(
        resources=["gpu"], capacity=[[2], [2]], server_labels=[{"gpu": "h100"}, {"gpu": "a10"}],
        tenants=["a", "b"], demand=[[1], [1]], weight=[1, 100],
        guarantees=[Guarantee("tenant", 0, np.array([2.0]), {"gpu": ("a10",)})],
    )  # fmt: skip
    found = simulate(problem, long_tasks(problem, 4), "drfh", options={"placement": "first-fit"})
    assert found.server[found.start == 0].tolist() == [1, 1, 0, 0]


def test_a_running_task_counts_for_own_servers_last():
    """The first task is on the own server and counts for the guarantee. The second may run anywhere."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[1], [1], [1]], tenants=["a"], demand=[[1]],
        server_labels=[{"room": "b"}, {"room": "a"}, {"room": "a"}], contributed_by=[-1, 0, -1],
        guarantees=[Guarantee("tenant", 0, np.array([2.0]), {"room": ("a",)})],
        own_servers=np.array([True]),
    )  # fmt: skip
    trace = Trace.create(workload=[0, 0], submit=[0, 1], duration=[9, 9])
    found = simulate(problem, trace, "drfh", options={"placement": "first-fit"})
    assert found.server.tolist() == [1, 0]


def test_guarantees_count_from_the_second_of_their_terms_on():
    problem = two_tenants(weight=[1, 99])
    free = replace(problem, guarantees=())
    workload = np.repeat([0, 1], 400)
    trace = Trace.create(workload=workload, submit=np.zeros(800), duration=np.ones(800))
    found = simulate(free, trace, "drf", terms=[(1.0, problem), (2.0, free)], until=2.5)
    assert [begun(found, second)[0] for second in (0, 1, 2)] == [1, 40, 1]


def test_others_have_no_more_of_a_lender_s_servers_than_it_lends():
    problem = Problem.create(
        resources=["gpu"], capacity=[[5], [5]], contributed_by=[0, 1], tenants=["a", "b"],
        demand=[[1], [1]], limits=[Limit("lend", 0, np.array([2.0]))],
    )  # fmt: skip
    trace = Trace.create(workload=[1] * 12, submit=np.zeros(12), duration=np.ones(12))
    found = simulate(problem, trace, "drfh")
    assert begun(found, 0) == [0, 7]
    assert begun(found, 1) == [0, 5]


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - set(KEEPING)))
def test_other_policies_refuse_guarantees_at_any_time(policy):
    problem = two_tenants()
    free = replace(problem, guarantees=())
    own = replace(free, own_servers=np.array([True, False]))
    trace = Trace.create(workload=[0], submit=[0], duration=[1])
    for first, terms in ((problem, ()), (free, [(5.0, problem)]), (own, ())):
        with pytest.raises(PolicyNotApplicableError, match="does not keep guarantees") as refused:
            simulate(first, trace, policy, terms=terms)
        assert refused.value.code == "policy.no_guarantees"
