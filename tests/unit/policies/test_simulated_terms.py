"""Simulated trees of groups and limits, also ones that change: against a reference in fractions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Limit, PolicyError, PolicyNotApplicableError, Problem, Window
from policies.simulation import POLICIES, ServerChanges, Trace, simulate
from tests.examples import examples
from tests.references.simulation import LONG_TERM, ONE_POOL, Simulated
from tests.unit.policies.drawn_traces import changes_of, other_terms, plain, traces, windows
from tests.unit.policies.trees import problems_in_groups, with_limits

IN_GROUPS = [name for name, policy in POLICIES.items() if policy.takes_groups]
FLAT = sorted(POLICIES.keys() - set(IN_GROUPS))


@pytest.mark.parametrize(
    "case",
    [(name, {}) for name in IN_GROUPS]
    + [(name, {"placement": "pool"}) for name in IN_GROUPS if name in LONG_TERM]
    + [
        ("drfh", {"placement": "first-fit"}),
        ("drfh", {"share": "alone"}),
        ("h-mrf", {"starvation_timeout": 2.0}),
    ],
    ids=lambda case: "-".join([case[0], *map(str, case[1].values())]),
)
@examples(300)
@given(data=st.data())
def test_in_groups_it_does_what_the_page_says(case, data):
    policy, options = case
    one_pool = policy in ONE_POOL or options.get("placement") == "pool"
    problem = data.draw(problems_in_groups(selectors=not one_pool))
    trace = data.draw(traces(problem.n))
    changes = ServerChanges.none()
    if data.draw(st.booleans()):
        changes = data.draw(changes_of(int(problem.server_count.sum())))
    terms = data.draw(other_terms(problem))
    window = data.draw(windows) if policy in LONG_TERM else Window.unbounded()
    step, until = (
        data.draw(st.sampled_from([0.25, 1, 3])),
        data.draw(st.sampled_from([math.inf, 4])),
    )
    found = simulate(
        problem, trace, policy, options=options, window=window, step=step, until=until,
        changes=changes, terms=terms,
    )  # fmt: skip
    moves = list(
        zip(changes.time.tolist(), changes.server.tolist(), changes.joins.tolist(), strict=True)
    )
    expected = Simulated(problem, trace, policy, window, step, until, options, moves, terms)
    assert np.array_equal(found.start, plain(expected.start), equal_nan=True)
    assert found.server.tolist() == expected.numbers()
    for which, amounts in enumerate((found.used, found.alone)):
        rows = [
            [float(expected.total(which, i, r)) for r in range(problem.m)] for i in range(problem.t)
        ]
        assert np.allclose(amounts, np.reshape(rows, amounts.shape), rtol=1e-12, atol=0)


KEEPING_LIMITS = [name for name, policy in POLICIES.items() if policy.takes_limits]


@pytest.mark.parametrize(
    "case",
    [(name, {}) for name in KEEPING_LIMITS]
    + [("drfh", {"placement": rule}) for rule in ("first-fit", "affinity", "two-choices")],
    ids=lambda case: "-".join([case[0], *map(str, case[1].values())]),
)
@examples(500)
@given(data=st.data())
def test_limits_are_kept_as_the_page_says(case, data):
    policy, options = case
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    problem = data.draw(problems_in_groups(selectors=policy not in ONE_POOL))
    terms = data.draw(other_terms(problem))

    def limited(problem):
        return with_limits(problem, rng, some_servers=policy not in ONE_POOL)

    if data.draw(st.booleans()):
        problem = limited(problem)
    terms = [(moment, limited(later) if rng.random() < 0.7 else later) for moment, later in terms]
    trace = data.draw(traces(problem.n))
    changes = ServerChanges.none()
    if data.draw(st.booleans()):
        changes = data.draw(changes_of(int(problem.server_count.sum())))
    until = data.draw(st.sampled_from([math.inf, 4]))
    found = simulate(
        problem, trace, policy, options=options, until=until, changes=changes, terms=terms
    )
    moves = list(
        zip(changes.time.tolist(), changes.server.tolist(), changes.joins.tolist(), strict=True)
    )
    window = Window.unbounded()
    expected = Simulated(problem, trace, policy, window, 1, until, options, moves, terms)
    assert np.array_equal(found.start, plain(expected.start), equal_nan=True)
    assert found.server.tolist() == expected.numbers()


GPUS = {
    "resources": ["gpu"], "capacity": [[2], [2]], "server_labels": [{"gpu": "h100"}, {"gpu": "a100"}],
    "tenants": ["vision", "speech"], "demand": [[1], [1]], "groups": ["ml"],
    "tenant_group": [0, 0],
}  # fmt: skip


def test_a_limit_of_one_kind_of_servers_for_a_time():
    """Group ml has two H100; until second 10 it may use one of them."""
    trace = Trace.create(workload=[0, 0, 1, 1], submit=[0, 0, 0, 0], duration=[4, 20, 20, 4])
    free = Problem.create(**GPUS)
    one = Limit("group", 0, np.array([1.0]), {"gpu": ("h100",)})
    limited = replace(free, limits=(one,))
    found = simulate(limited, trace, "drfh", terms=[(10.0, free)])
    assert found.start.tolist() == [0, 0, 0, 4]
    assert found.server.tolist() == [0, 1, 1, 0]
    closed = Limit("group", 0, np.array([0.0]), {"gpu": ("h100",)})
    trace = replace(trace, duration=np.full(4, 20.0))
    found = simulate(
        replace(free, limits=(closed,)), trace, "drfh", terms=[(3.0, limited), (10.0, free)]
    )
    assert sorted(found.start.tolist()) == [0, 0, 3, 10]


def test_tasks_that_run_go_on_when_a_limit_falls_below_them():
    trace = Trace.create(workload=[0, 0, 0], submit=[0, 0, 6], duration=[5, 7, 1])
    free = Problem.create(**GPUS)
    limited = replace(free, limits=(Limit("tenant", 0, np.array([1.0]), {}),))
    found = simulate(free, trace, "drfh", terms=[(1.0, limited)])
    assert (found.start.tolist(), found.end.tolist()) == ([0, 0, 7], [5, 7, 8])


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - set(KEEPING_LIMITS)))
def test_other_policies_refuse_limits_at_any_time(policy):
    trace = Trace.create(workload=[0], submit=[0], duration=[1])
    flat = Problem.create(**{**GPUS, "groups": [], "tenant_group": None, "server_labels": None})
    limited = replace(flat, limits=(Limit("tenant", 0, np.array([1.0]), {}),))
    for first, terms in ((limited, ()), (flat, [(5.0, limited)])):
        with pytest.raises(PolicyNotApplicableError, match="does not keep limits") as refused:
            simulate(first, trace, policy, terms=terms)
        assert refused.value.code == "policy.no_limits"
    some = replace(flat, limits=(Limit("tenant", 0, np.array([1.0]), {"a": ("b",)}),))
    with pytest.raises(PolicyNotApplicableError, match="sees the pool as one server"):
        simulate(some, trace, "drf")


@pytest.mark.parametrize("policy", FLAT)
@pytest.mark.parametrize(
    "tree", [{"groups": ["g"], "tenant_group": [0, -1]}, {"tenant_tier": [0, 1]}]
)
def test_other_policies_refuse_groups_and_tiers_at_any_time(policy, tree):
    pool = {"resources": ["cpu"], "capacity": [[4]], "tenants": ["a", "b"], "demand": [[1], [1]]}
    trace = Trace.create(workload=[0, 1], submit=[0, 0], duration=[1, 1])
    flat = Problem.create(**pool)
    for first, terms in ((Problem.create(**pool, **tree), ()),
                         (flat, [(5.0, Problem.create(**pool, **tree))])):  # fmt: skip
        with pytest.raises(PolicyNotApplicableError, match="groups or tiers") as refused:
            simulate(first, trace, policy, terms=terms)
        assert refused.value.code == "policy.no_groups"
    without_members = Problem.create(**pool, groups=["empty"], tenant_tier=[3, 3])
    assert simulate(without_members, trace, policy).end.tolist() == [1, 1]


@pytest.mark.parametrize("policy", IN_GROUPS)
@examples(100)
@given(data=st.data())
def test_groups_of_one_member_decide_as_a_flat_pool(policy, data):
    """Where a tenant's dominant share is that of its group, which one kind of task makes so."""
    t = data.draw(st.integers(2, 5))
    amount = st.integers(1, 4)
    pool = {
        "resources": ["cpu", "memory"],
        "capacity": data.draw(st.lists(st.tuples(amount, amount), min_size=1, max_size=2)),
        "tenants": [f"t{i}" for i in range(t)],
        "demand": data.draw(st.lists(st.tuples(amount, amount), min_size=t, max_size=t)),
    }
    weight = data.draw(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=t, max_size=t))
    flat = Problem.create(**pool, weight=weight)
    alone = Problem.create(
        **pool, groups=[f"g{i}" for i in range(t)], tenant_group=range(t), group_weight=weight
    )
    trace = data.draw(traces(t))
    one, other = (simulate(problem, trace, policy) for problem in (flat, alone))
    assert np.array_equal(one.start, other.start, equal_nan=True)
    assert one.server.tolist() == other.server.tolist()
    assert one.changed_rate[:, :2].tolist() == other.changed_rate[:, :2].tolist()


CASE_A = {
    "resources": ["cpu", "memory"], "capacity": [[100, 100]], "tenants": ["a", "b", "c"],
    "demand": [[1, 1]] * 3, "groups": ["g1", "g2"], "group_weight": [3, 1],
    "tenant_group": [0, 0, 1], "weight": [2, 1, 1],
}  # fmt: skip
CASE_C = {
    "resources": ["cpu", "memory"], "capacity": [[100, 100]],
    "tenants": ["a1", "a2", "b", "c", "e"],
    "demand": [[1, 0], [1, 0], [0, 1], [0, 1], [1, 0]], "groups": ["g1", "g2", "g3"],
    "tenant_group": [0, 0, 0, 1, 2],
}  # fmt: skip


@pytest.mark.parametrize("policy", ["drf", "drfh"])
@pytest.mark.parametrize(
    ("case", "waiting", "expected"),
    [
        (CASE_A, [20, 100, 100], [20, 55, 25]),  # case A of the page on groups
        (CASE_C, [100] * 5, [25, 25, 50, 50, 50]),  # case C
    ],
)
def test_the_figures_of_the_page_on_groups(policy, case, waiting, expected):
    workload = np.repeat(np.arange(len(waiting)), waiting)
    trace = Trace.create(
        workload=workload, submit=np.zeros(len(workload)), duration=np.ones(len(workload))
    )
    found = simulate(Problem.create(**case), trace, policy)
    begun = np.bincount(workload[found.start == 0], minlength=len(waiting))
    assert begun.tolist() == expected


def test_terms_count_from_their_second_on():
    """Until second 1 groups of equal weights, then 3 to 1."""
    pool = {"resources": ["cpu"], "capacity": [[8]], "tenants": ["a", "b"], "demand": [[1], [1]],
            "groups": ["g", "h"], "tenant_group": [0, 1]}  # fmt: skip
    trace = Trace.create(workload=[0] * 20 + [1] * 20, submit=np.zeros(40), duration=np.ones(40))
    later = Problem.create(**pool, group_weight=[3, 1])
    found = simulate(Problem.create(**pool), trace, "drf", terms=[(1.0, later)], until=1.5)
    begun = [
        np.bincount(trace.workload[found.start == second], minlength=2).tolist()
        for second in (0, 1)
    ]
    assert begun == [[4, 4], [6, 2]]


@pytest.mark.parametrize("moments", [[2.0, 1.0], [1.0, 1.0], [math.nan], [math.inf]], ids=str)
def test_terms_have_finite_ascending_seconds(moments):
    problem = Problem.create(resources=["cpu"], capacity=[[4]], tenants=["a"], demand=[[1]])
    trace = Trace.create(workload=[0], submit=[0], duration=[1])
    with pytest.raises(PolicyError, match="ascending"):
        simulate(problem, trace, "drf", terms=[(moment, problem) for moment in moments])
    other = Problem.create(resources=["cpu"], capacity=[[4]], tenants=["b"], demand=[[1]])
    with pytest.raises(PolicyError, match="same tenants"):
        simulate(problem, trace, "drf", terms=[(1.0, other)])
