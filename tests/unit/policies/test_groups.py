"""Trees of groups: the figures, plain references of all modes, and what is refused."""

import json
import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    History,
    ParsedProblem,
    PolicyNotApplicableError,
    Problem,
    ProblemError,
    SolveFailedError,
    allocation_to_document,
    choose,
    explain,
    policies_available,
    problem_from_document,
    problem_to_document,
    solve,
    verify,
    verify_answer,
)
from policies.model.allocation import PaidShares
from policies.proofs.group_path import GroupPath
from policies.verification.group_path import GroupPath as VerifiedPath
from policies.verification.stated import Stated
from tests.examples import examples
from tests.references.filling import fill
from tests.references.groups import PlainTree, leximin_in_groups, walk
from tests.references.long_term import Past, Step
from tests.unit.policies.trees import problems_in_groups, tree_of

PAGE = Path(__file__).parents[3] / "docs" / "policies" / "groups.md"
INF = np.inf
F = Fraction

# capacity, tenants, demand, tasks (0: unlimited) and the tree; divisible shares, whole tasks.
FIGURES = {
    "a department of two": (
        [[10, 10]], "sci dev prod", [[1, 1], [1, 0], [0, 1]], [10, 10, 10],
        {"groups": ["eng"], "tenant_group": [-1, 0, 0]},
        [F(1, 2)] * 3, [5, 5, 5],
    ),
    "one of four is a group": (
        [[30, 30]], "p1 p2 p31 p32 p4", [[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]], [30] * 5,
        {"groups": ["p3"], "tenant_group": [-1, -1, 0, 0, -1]},
        [F(1, 3)] * 3 + [F(1, 2)] * 2, [10, 10, 10, 15, 15],
    ),
    "nobody else wants the other resource": (
        [[10, 10]], "n1 n21 n22", [[1, 0], [1, 0], [0, 1]], [0, 0, 0],
        {"groups": ["n2"], "tenant_group": [-1, 0, 0]},
        [F(1, 2), F(1, 2), F(1)], [5, 5, 10],
    ),
    "A": (
        [[100, 100]], "a b c", [[1, 1]] * 3, [20, 0, 0],
        {
            "weight": [2, 1, 1], "groups": ["g1", "g2"], "group_weight": [3, 1],
            "tenant_group": [0, 0, 1],
        },
        [F(1, 5), F(11, 20), F(1, 4)], [20, 55, 25],
    ),
    "B": (
        [[100, 100]], "a b c", [[1, 0], [0, 1], [0, 1]], [30, 0, 0],
        {"weight": [3, 1, 1], "groups": ["g1", "g2"], "tenant_group": [0, 0, 1]},
        [F(3, 10), F(1, 2), F(1, 2)], [30, 50, 50],
    ),
    "C": (
        [[100, 100]], "a1 a2 b c e", [[1, 0], [1, 0], [0, 1], [0, 1], [1, 0]], [0] * 5,
        {"groups": ["g1", "g2", "g3"], "tenant_group": [0, 0, 0, 1, 2]},
        [F(1, 4)] * 2 + [F(1, 2)] * 3, [25, 25, 50, 50, 50],
    ),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["drf", "drfh"])
@pytest.mark.parametrize("name", FIGURES)
def test_figures_on_one_server(name, policy):
    capacity, tenants, demand, tasks, tree, shares, whole = FIGURES[name]
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=capacity, tenants=tenants.split(), demand=demand,
        tasks=[count or INF for count in tasks], **tree,
    )  # fmt: skip
    divisible = solve(problem, policy, mode="divisible")
    assert divisible.tenant_share == pytest.approx([float(share) for share in shares], abs=1e-12)
    indivisible = solve(problem, policy, mode="indivisible")
    assert indivisible.tasks.tolist() == whole
    assert verify(problem, divisible).valid
    assert verify(problem, indivisible).valid


def test_a_group_of_one_has_half_of_a_pool_of_large_tasks():
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[12], demand=[[8]] * 11,
        tenants=[f"t{i}" for i in range(11)], groups=["ten", "one"], tenant_group=[0] * 10 + [1],
    )  # fmt: skip
    assert solve(problem, "drfh", mode="indivisible").tasks.tolist() == [1] * 6 + [0] * 4 + [6]


def test_a_faculty_beside_another_on_unlike_servers():
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[2, 12], [12, 2]], tenants=["a", "b", "biology"],
        demand=[[0.2, 1], [1, 0.2], [1, 0.2]], groups=["physics"], tenant_group=[0, 0, -1],
    )  # fmt: skip
    answer = solve(problem, "drfh")
    assert answer.tenant_share == pytest.approx([5 / 14, 5 / 14, 3 / 7], abs=1e-12)
    assert solve(problem, "drfh", mode="indivisible").tasks.tolist() == [5, 5, 6]


def test_a_group_with_gpus_beside_a_tenant_without():
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[64, 8], [96, 0]], tenants=["vision", "speech", "bio"],
        demand=[[4, 1], [8, 1], [2, 0]], groups=["ml"], tenant_group=[0, 0, -1],
    )  # fmt: skip
    answer = solve(problem, "drfh")
    assert answer.tenant_share == pytest.approx([5 / 13, 5 / 13, 10 / 13], abs=1e-12)


@given(problem=problems_in_groups())
@examples(200)
def test_divisible_shares_of_a_pool_are_those_of_exact_arithmetic(problem):
    answer = solve(problem, "drf", mode="divisible")
    expected = [float(share) for share in leximin_in_groups(problem, pooled=True)]
    assert answer.tenant_share == pytest.approx(expected, abs=1e-9)
    assert verify(problem, answer).valid


@given(problem=problems_in_groups(selectors=True))
@examples(200)
def test_divisible_shares_on_servers_are_those_of_exact_arithmetic(problem):
    answer = solve(problem, "drfh", mode="divisible")
    expected = [float(share) for share in leximin_in_groups(problem)]
    assert answer.tenant_share == pytest.approx(expected, abs=1e-9)
    assert verify(problem, answer).valid


@pytest.mark.parametrize("placement", ["pool", "best-fit", "first-fit", "affinity", "two-choices"])
@given(data=st.data())
@examples(200)
def test_whole_tasks_are_those_of_the_plain_reference(placement, data):
    pooled = placement == "pool"
    problem = data.draw(problems_in_groups(selectors=not pooled, finite=True))
    options = {} if pooled else {"placement": placement, "seed": 5}
    policy = "drf" if pooled else "drfh"
    answer = solve(problem, policy, mode="indivisible", options=options)
    _, count = fill(problem, placement, seed=5)
    assert answer.tasks.tolist() == count
    assert verify(problem, answer).valid


@pytest.mark.parametrize("policy", ["lt-drf", "lt-af", "h-mrf"])
@given(data=st.data())
@examples(100)
def test_long_term_policies_are_those_of_the_plain_reference(policy, data):
    placement = data.draw(st.sampled_from(["pool", "affinity"]))
    problem = data.draw(problems_in_groups(selectors=placement == "affinity", finite=True))
    past = Past(problem.t, problem.m, 1.0)
    history = History.zeros(problem)
    for _ in range(3):
        options = {"placement": placement, "borrow_cap": 0.5, "starvation_timeout": 2}
        answer = solve(problem, policy, options=options, history=history)
        step = Step(problem, policy, past, placement, timeout=2.0, cap=0.5)
        assert answer.tasks.tolist() == step.run()
        assert verify(problem, answer, history=history).valid
        history = answer.history


@given(seed=st.integers(0, 2**32 - 1))
@examples(400)
def test_both_walks_of_a_path_are_those_of_exact_arithmetic(seed):
    rng = np.random.default_rng(seed)
    t, m = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    demand = rng.integers(0, 4, (t, m))
    demand[np.arange(t), rng.integers(0, m, t)] += 1
    problem = Problem.create(
        resources=["cpu", "memory", "gpu"][:m], capacity=[[12] * m], demand=demand,
        tenants=[f"t{i}" for i in range(t)], weight=rng.integers(1, 4, t), **tree_of(rng, t),
    )  # fmt: skip
    groups = Stated(problem, choose("drf")).groups
    if groups is None:
        return
    start = rng.integers(0, 5, t) * int(rng.random() < 0.5)
    cap = np.where(rng.random(t) < 0.5, start + rng.integers(0, 6, t), INF)
    rising = rng.random(t) < 0.8
    tree = PlainTree(problem)
    share = {("tenant", i): Fraction(int(start[i])) for i in range(t)}
    caps = {i: None if np.isinf(cap[i[1]]) else Fraction(int(cap[i[1]])) for i in share}
    moving = {i for i in share if rising[i[1]] and (caps[i] is None or share[i] < caps[i])}
    direction = np.array(problem.normalised_demand)
    paths = (
        GroupPath(problem.tree(0), direction, start.astype(float), cap, rising),
        VerifiedPath(groups, 0, direction, start.astype(float), cap, rising),
    )
    for further in (F(1, 3), F(1), F(7, 3), F(5), F(11), F(40)):
        expected = walk(tree, share, moving, caps, sum(share[i] for i in moving) + further)
        for path in paths:
            found = path.shares(float(sum(share.values()) + further))
            assert found == pytest.approx([float(expected[i]) for i in share], abs=1e-9)


@given(seed=st.integers(0, 2**32 - 1))
@examples(400)
def test_a_path_ends_where_the_first_row_of_costs_exceeds_its_budget(seed):
    rng = np.random.default_rng(seed)
    t, rows = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    problem = Problem.create(
        resources=["cpu"], capacity=[[12]], demand=np.ones((t, 1)), tenants=[f"t{i}" for i in range(t)],
        weight=rng.integers(1, 4, t), **tree_of(rng, t),
    )  # fmt: skip
    start = rng.integers(0, 5, t) * float(rng.random() < 0.5)
    cap = np.where(rng.random(t) < 0.5, start + rng.integers(0, 6, t), INF)
    path = GroupPath(problem.tree(0), np.ones((t, 1)), start, cap, rng.random(t) < 0.8)
    size = rng.integers(0, 5, rows)
    first, count = np.r_[0, np.cumsum(size)], int(size.sum())
    begin = rng.integers(0, 3, count) * (rng.random(count) < 0.5)
    paid = PaidShares(
        rng.integers(0, t, count), rng.integers(0, 3, count) / 2, begin.astype(float),
        np.where(rng.random(count) < 0.5, begin + rng.integers(0, 4, count), INF),
    )  # fmt: skip
    budget = rng.integers(0, 9, rows).astype(float)

    def excess(position):
        share = path.shares(position)[paid.owner]
        cost = (np.clip(share, paid.start, paid.end) - paid.start) * paid.price
        return np.array([cost[a:b].sum() for a, b in pairwise(first)]) - budget

    found, row = path.first_exceeded(paid, first, budget)
    if not path.moving.any():
        assert (found, row) == (path.first, -1)
    elif row < 0:
        assert found in (INF, path.last)
        assert (excess(min(found, 1e3)) <= 1e-9).all()
    elif (excess(path.first) > 0).any():
        assert found == path.first
        assert excess(path.first)[row] > 0
    else:
        assert (excess(found) <= 1e-9).all()
        assert excess(found + 1e-6)[row] > 0


@given(problem=problems_in_groups(flat=True, finite=True))
@examples(50)
def test_groups_without_tenants_and_one_tier_for_all_change_no_bit(problem):
    without = replace(problem, tenant_tier=np.zeros(problem.t, dtype=np.int64))
    empty = replace(
        without,
        groups=("empty", "below"),
        group_parent=np.array([-1, 0]),
        group_weight=np.array([3.0, 1.0]),
        group_tier=np.array([1, 0]),
    )
    for policy in ("drf", "drfh", "h-mrf"):
        for mode in choose(policy).policy.modes:
            plain = solve(without, policy, mode=mode)
            for same in (problem, empty):
                answer = solve(same, policy, mode=mode)
                assert answer.tasks.tobytes() == plain.tasks.tobytes()
                assert answer.level.tobytes() == plain.level.tobytes()


def test_documents_keep_the_tree():
    document = problem_to_document(
        problem_from_document(
            {
                "resources": ["cpu"], "policy": {"name": "drfh"},
                "groups": [
                    {"name": "b", "parent": "a", "weight": 0.5, "tier": -1}, {"name": "a"},
                ],
                "tenants": [{"name": "x", "group": "b", "tier": 2}, {"name": "y"}],
            }
        )
    )  # fmt: skip
    assert document["groups"] == [
        {"name": "b", "parent": "a", "weight": 0.5, "tier": -1},
        {"name": "a", "parent": None, "weight": 1.0, "tier": 0},
    ]
    assert document["tenants"][0]["group"] == "b"
    assert document["tenants"][0]["tier"] == 2
    assert "group" not in document["tenants"][1]


@pytest.mark.parametrize(
    ("groups", "code", "pointer"),
    [
        ([{"name": "a", "parent": "a"}], "group.cycle", "/groups/0/parent"),
        (
            [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}],
            "group.cycle", "/groups/0/parent",
        ),
        ([{"name": "a", "parent": "none"}], "group.unknown", "/groups/0/parent"),
        ([{"name": "a"}, {"name": "a"}], "group.duplicate", "/groups/1"),
        ([{"name": ""}], "group.name", "/groups/0/name"),
        ([{"name": "a", "weight": 0}], "weight.not_positive", "/groups/0/weight"),
        ([{"name": "a", "weight": "NaN"}], "weight.not_a_number", "/groups/0/weight"),
        ([{"name": "a", "tier": 10**7}], "tier.out_of_range", "/groups/0/tier"),
        ([{"name": "a", "tier": 0.5}], "field.type", "/groups/0/tier"),
        (
            [{"name": str(i), "parent": str(i - 1) if i else None} for i in range(9)],
            "group.too_deep", "/groups/8/parent",
        ),
        ([{"name": str(i)} for i in range(10_001)], "group.too_many", "/groups"),
        ({"a": 1}, "field.type", "/groups"),
    ],
)  # fmt: skip
def test_trees_that_are_none_are_refused(groups, code, pointer):
    with pytest.raises(ProblemError) as refused:
        problem_from_document({"resources": ["cpu"], "policy": {"name": "drf"}, "groups": groups})
    assert (refused.value.code, refused.value.pointer) == (code, pointer)


def test_a_tenant_of_an_unknown_group_is_refused():
    with pytest.raises(ProblemError) as refused:
        problem_from_document(
            {
                "resources": ["cpu"], "policy": {"name": "drf"},
                "tenants": [{"name": "x", "group": "none"}],
            }
        )  # fmt: skip
    assert (refused.value.code, refused.value.pointer) == ("group.unknown", "/tenants/0/group")


def test_other_policies_refuse_groups_and_tiers():
    problem = Problem.create(
        resources=["cpu"], capacity=[[4]], tenants=["a", "b"], demand=[[1], [1]],
        groups=["g"], tenant_group=[0, -1],
    )  # fmt: skip
    tiers = replace(problem, tenant_group=np.array([-1, -1]), tenant_tier=np.array([0, 1]))
    able = {policy.name for policy in policies_available() if policy.takes_groups}
    assert able == {"drf", "drfh", "lt-drf", "lt-af", "h-mrf"}
    for policy in policies_available():
        for each in (problem, tiers):
            if policy.name in able:
                assert verify(each, solve(each, policy.name)).valid
                continue
            with pytest.raises(PolicyNotApplicableError, match="drf, drfh, h-mrf, lt-af, lt-drf"):
                solve(each, policy.name)


def test_weights_per_resource_are_for_flat_pools():
    problem = Problem.create(
        resources=["cpu"], capacity=[[4]], tenants=["a", "b"], demand=[[1], [1]],
        groups=["g"], tenant_group=[0, -1],
    )  # fmt: skip
    with pytest.raises(PolicyNotApplicableError) as refused:
        solve(problem, "drf", options={"resource_weights": {"a": {"cpu": 2}}})
    assert refused.value.code == "policy.no_groups"


def test_a_lower_tier_goes_first():
    problem = Problem.create(
        resources=["cpu"], capacity=[[10]], tenants=["a", "b", "c"], demand=[[1]] * 3,
        tasks=[4, INF, INF], groups=["urgent"], group_tier=[-1], tenant_group=[0, -1, -1],
    )  # fmt: skip
    for mode in ("divisible", "indivisible"):
        assert solve(problem, "drf", mode=mode).tasks.tolist() == pytest.approx([4, 3, 3])


def test_an_explanation_names_the_groups_that_share():
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[64, 8], [96, 0]], tenants=["vision", "speech", "bio"],
        demand=[[4, 1], [8, 1], [2, 0]], groups=["ml"], group_weight=[2], tenant_group=[0, 0, -1],
    )  # fmt: skip
    answer = solve(problem, "drfh")
    assert explain(answer, 0).sentence == (
        "vision runs 4 tasks of workload-0001, a dominant share of 50 % at weight 1;"
        " ml uses 100 % of the pool at weight 2, divided among 2 tenants;"
        " it stopped where gpu ran out on the servers where it costs least."
    )
    assert "uses" not in explain(answer, 2).sentence
    assert explain(answer, 2).just_above is None


def test_a_row_for_each_group_says_its_level():
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[64, 8], [96, 0]], tenants=["vision", "speech", "bio"],
        demand=[[4, 1], [8, 1], [2, 0]], groups=["ml", "empty"], tenant_group=[0, 0, -1],
    )  # fmt: skip
    parts = ["certificate", "placements"]
    document = allocation_to_document(solve(problem, "drfh"), include=parts)
    ml, empty = document["groups"]
    assert ml["level"] == pytest.approx(10 / 13)
    assert ml["resources"]["gpu"] == pytest.approx(80 / 13)
    assert ml["frozen_in"] == 0
    assert empty == {
        "name": "empty", "level": None, "resources": {"cpu": 0.0, "gpu": 0.0}, "frozen_in": None,
    }  # fmt: skip
    parsed = ParsedProblem(problem, "drfh")
    assert verify_answer(parsed, document, choose("drfh")).valid
    for name, value in (("level", 0.5), ("resources", {"gpu": 8}), ("frozen_in", 1)):
        forged = {**document, "groups": [{**ml, name: value}, empty]}
        assert not verify_answer(parsed, forged, choose("drfh")).valid
    assert not verify_answer(parsed, {**document, "groups": [ml]}, choose("drfh")).valid


def test_the_example_of_the_page_gives_its_answer():
    blocks = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    question, expected = json.loads(blocks[0]), json.loads(blocks[1])
    parsed = problem_from_document(question)
    document = allocation_to_document(solve(parsed.problem, parsed.policy))
    rounded = [{**row, "level": round(row["level"], 4)} for row in document["groups"]]
    for row in rounded:
        row["resources"] = {name: round(used, 4) for name, used in row["resources"].items()}
    assert rounded == expected["groups"]
    tasks = {row["tenant"]: round(row["tasks"], 4) for row in document["allocations"]}
    assert tasks == expected["tasks"]


def test_a_level_before_the_beginning_of_its_round_is_refused():
    problem = Problem.create(
        resources=["cpu"], capacity=[[10]], tenants=["a", "b"], demand=[[1]] * 2, groups=["g"],
        tenant_group=[0, -1], best_effort=[False, True],
    )  # fmt: skip
    answer = solve(problem, "drf", mode="divisible")
    first, last = answer.certificate.rounds
    assert [first.level, last.level] == pytest.approx([1, 1], abs=1e-14)
    assert verify(problem, answer).valid
    for proven in (True, False):
        lower = replace(last, level=1 - 1e-7, proven=proven)
        rounds = replace(answer.certificate, rounds=(first, lower))
        forged = replace(answer, certificate=rounds, gap=1e-7)
        assert not verify(problem, forged).valid


def test_a_path_with_weights_far_apart_is_that_of_exact_arithmetic():
    """Of the sum of rates that had a large weight, rounding is left beside a weight of 6.2e-4."""
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[44, 34]], tenants=["a", "b", "c"],
        demand=[[1.5, 4], [2, 0], [1, 1]], tasks=[1, 8, 0], weight=[8980.3, 6.2e-4, 1e5], groups=["g"],
        group_weight=[332435.2], tenant_group=[0, -1, -1],
    )  # fmt: skip
    for policy in ("drf", "drfh"):
        answer = solve(problem, policy, mode="divisible")
        assert answer.tenant_share == pytest.approx([4 / 34, 16 / 44, 0], abs=1e-12)
        assert verify(problem, answer).valid


@pytest.mark.parametrize("tenants", [2, 3])
def test_paths_of_a_level_that_hardly_grows_distinguish_near_positions(tenants):
    """Memory decides the level of the group, and those who rise use next to none of it."""
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[1, 1]], tenants=["a", "b", "c"][:tenants],
        demand=[[0, 1], *[[1, 2e-8]] * (tenants - 1)], groups=["g"], group_weight=[10.25],
        tenant_group=[0] * tenants,
    )  # fmt: skip
    start = np.array([0.99999998, *[0.07] * (tenants - 1)])
    cap, rising = np.full(tenants, INF), np.arange(tenants) > 0
    direction = np.array(problem.normalised_demand)
    for path in (
        GroupPath(problem.tree(0), direction, start, cap, rising),
        VerifiedPath(Stated(problem, choose("drf")).groups, 0, direction, start, cap, rising),
    ):
        for further in (1e-9, 7e-9, 1e-6):
            risen = path.shares(float(start.sum()) + further) - start
            expected = [0, *[further / (tenants - 1)] * (tenants - 1)]
            assert risen == pytest.approx(expected, rel=0, abs=1e-15)


@pytest.mark.parametrize("alone", ["first", "second"])
def test_siblings_whose_levels_stay_equal_rise_one_after_the_other(alone):
    """Memory of those who do not rise decides both groups' levels. In one, a single tenant rises."""
    tenants = ["a", "b", "c", "d", "e"]
    several, single = (1, 0) if alone == "first" else (0, 1)
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[1, 1]], tenants=tenants,
        demand=[[0, 1], [1, 0], [1, 0], [0, 1], [1, 0]], groups=["g", "h"],
        tenant_group=[several, several, several, single, single],
    )  # fmt: skip
    start = np.array([0.2, 0, 0, 0.2, 0])
    cap = np.array([0.2, 0.04, 0.04, 0.2, 0.08])
    rising = np.array([False, True, True, False, True])
    direction = np.array(problem.normalised_demand)
    of_first = [0, 0, 0, 0, 0.06] if alone == "first" else [0, 0.03, 0.03, 0, 0]
    both = [0, 0.01, 0.01, 0, 0.08] if alone == "first" else [0, 0.04, 0.04, 0, 0.02]
    for path in (
        GroupPath(problem.tree(0), direction, start, cap, rising),
        VerifiedPath(Stated(problem, choose("drf")).groups, 0, direction, start, cap, rising),
    ):
        for further, expected in ((0.06, of_first), (0.1, both)):
            risen = path.shares(float(start.sum()) + further) - start
            assert risen == pytest.approx(expected, abs=1e-12)


def test_next_to_a_tenant_with_all_its_tasks_no_other_is_stuck():
    """d ends its tasks as the second class fills, but for rounding; c, which is like d, rises on."""
    problem = Problem.create(
        resources=["cpu", "memory", "gpu", "disk"],
        capacity=[[30, 20, 40, 90], [80, 80, 10, 90], [90, 30, 70, 80]],
        server_count=[1, 2, 2],
        server_labels=[{"zone": "1"}, {"zone": "0"}, {"zone": "1"}],
        tenants=["a", "b", "c", "d"],
        demand=[[2, 0, 2, 2], [1, 2, 1, 4], [4, 0, 3, 3], [2, 0, 4, 3]],
        tasks=[INF, 8, INF, 8],
        selectors=[{"zone": "0"}, {}, {}, {}],
        groups=[f"g{i}" for i in range(10)],
        group_parent=[-1, -1, -1, 0, 1, 2, -1, 1, 6, 5],
        group_weight=[1, 2, 1, 2, 3, 2, 2, 3, 3, 3],
        tenant_group=[6, 7, 8, 4],
    )
    answer = solve(problem, "drfh", mode="divisible")
    expected = [float(share) for share in leximin_in_groups(problem)]
    assert answer.tenant_share == pytest.approx(expected, abs=1e-9)
    assert verify(problem, answer).valid


def test_a_misreport_can_pay_in_a_group():
    """b needs GPUs alone; with as many cpus as well, its group's level is of cpus."""
    tasks = []
    for demand in ([0, 0, 2], [2, 0, 2]):
        problem = Problem.create(
            resources=["cpu", "memory", "gpu"], capacity=[[12] * 3], tenants=["a", "b", "c", "d"],
            demand=[[3, 1, 2], demand, [1, 1, 2], [0, 2, 0]], tasks=[INF, INF, 2, INF],
            groups=["g"], tenant_group=[0, 0, -1, -1],
        )  # fmt: skip
        tasks.append(solve(problem, "drf", mode="divisible").tasks[1])
        share = leximin_in_groups(problem, pooled=True)[1]
        assert tasks[-1] == pytest.approx(float(6 * share))
    assert tasks == pytest.approx([12 / 5, 18 / 7])


def test_an_answer_that_does_not_verify_is_not_returned():
    """With these weights, rounding led the solver's walk elsewhere: shares were off by 1e-6."""
    rng = np.random.default_rng(149)
    demand = rng.integers(0, 4, (60, 4))
    demand[np.arange(60), rng.integers(0, 4, 60)] += 1
    problem = Problem.create(
        resources=["cpu", "memory", "gpu", "disk"], capacity=10 * rng.integers(1, 12, (3, 4)),
        tenants=[f"t{i}" for i in range(50)], demand=demand, tasks=rng.choice([1, 8, INF], 60),
        workload_tenant=np.r_[np.arange(50), rng.integers(0, 50, 10)],
        weight=10 ** rng.uniform(-6, 6, 50), groups=[f"g{i}" for i in range(10)],
        group_parent=[-1, -1, -1, *(int(rng.integers(-1, i)) for i in range(3, 10))],
        group_weight=10 ** rng.uniform(-6, 6, 10), tenant_group=rng.integers(-1, 10, 50),
    )  # fmt: skip
    try:
        answer = solve(problem, "drf", mode="divisible")
    except SolveFailedError:
        return
    assert verify(problem, answer).valid
