"""Paths of the verifier: beside a plain walk, and where they take over the rest of the one before."""

from fractions import Fraction

import numpy as np
import pytest

from policies import Problem, choose
from policies.verification.group_path import GroupPath
from policies.verification.groups import Groups
from policies.verification.stated import Stated
from tests.examples import numbers
from tests.references.groups import PlainTree, share_at


def drawn_tree(seed, *, most=40):
    random = np.random.default_rng(seed)
    tenants, groups = int(random.integers(4, most)), int(random.integers(2, 12))
    tiers = random.integers(0, 2, groups) if random.random() < 0.3 else np.zeros(groups, dtype=int)
    return random, Problem.create(
        resources=["cpu", "gpu", "disk"],
        capacity=[[50, 40, 60]],
        tenants=[f"t{i}" for i in range(tenants)],
        weight=random.uniform(0.5, 2, tenants).round(3),
        demand=random.uniform(0.01, 2, (tenants, 3)).round(2),
        groups=[f"g{i}" for i in range(groups)],
        group_parent=[-1, *(int(random.integers(-1, at)) for at in range(1, groups))],
        group_weight=random.uniform(0.5, 2, groups).round(2),
        group_tier=tiers,
        tenant_group=random.integers(-1, groups, tenants),
    )


@pytest.mark.parametrize("seed", numbers(60))
def test_shares_at_any_position_are_those_of_a_plain_walk(seed):
    random, problem = drawn_tree(seed, most=10)
    groups = Stated(problem, choose("drfh", "divisible", {})).groups
    t, tree = problem.t, PlainTree(problem)
    leaves = [("tenant", i) for i in range(t)]
    direction = problem.demand_share / problem.dominant_share_per_task[:, None]
    cap = np.where(random.random(t) < 0.4, random.uniform(0.01, 1, t), np.inf)
    now, rising = np.zeros(t), random.random(t) < 0.9
    for _ in range(2):
        path = GroupPath(groups, 0, direction, now, cap, rising.copy())
        last = path.last if np.isfinite(path.last) else path.first + 2.0
        for position in np.linspace(path.first, last, 5).tolist():
            plain = share_at(
                tree,
                {leaf: Fraction(has) for leaf, has in zip(leaves, now.tolist(), strict=True)},
                {leaf for leaf in leaves if path.moving[leaf[1]]},
                {leaf: None if np.isinf(c) else Fraction(c)
                 for leaf, c in zip(leaves, cap.tolist(), strict=True)},
                Fraction(position),
            )  # fmt: skip
            apart = path.shares(position) - np.array([float(plain[leaf]) for leaf in leaves])
            assert np.abs(apart).max() <= 1e-10 * max(position, 1.0)
        now = path.shares(float(random.uniform(path.first, last)))
        rising &= (now < cap) & (random.random(t) < 0.7)


@pytest.mark.parametrize("seed", numbers(400))
def test_rounds_are_walked_alike_from_the_path_before_and_anew(seed):
    random, problem = drawn_tree(seed)
    groups = Stated(problem, choose("drfh", "divisible", {})).groups
    assert isinstance(groups, Groups)
    t = problem.t
    direction = random.uniform(0, 1, (t, 3)) * (random.random((t, 3)) < 0.8)
    direction[np.arange(t), random.integers(0, 3, t)] = 1.0
    cap = np.where(random.random(t) < 0.4, random.uniform(0.01, 1, t), np.inf)
    now, rising, before = np.zeros(t), np.ones(t, dtype=np.bool_), None
    while rising.any():
        anew = GroupPath(groups, 0, direction, now, cap, rising.copy())
        going_on = GroupPath(groups, 0, direction, now, cap, rising.copy(), before)
        last = anew.last if np.isfinite(anew.last) else anew.first + 2.0
        for position in np.linspace(anew.first, last, 9).tolist():
            apart = np.abs(going_on.shares(position) - anew.shares(position))
            assert apart.max() <= 1e-12 * max(position, 1.0)
        now = going_on.shares(float(random.uniform(anew.first, last)))
        rising &= (now < cap) & (random.random(t) < 0.8)
        before = going_on


def test_groups_in_which_the_same_tenants_rise_are_not_swept_again():
    problem = Problem.create(
        resources=["cpu"], capacity=[[10]], tenants=list("abcdef"), demand=[[1]] * 6,
        groups=["g", "h"], tenant_group=[0, 0, 0, 1, 1, 1],
    )  # fmt: skip
    groups = Stated(problem, choose("drfh", "divisible", {})).groups
    everyone, ends = np.ones(6, dtype=np.bool_), np.full(6, np.inf)
    first = GroupPath(groups, 0, np.ones((6, 1)), np.zeros(6), ends, everyone)
    others = np.array([False, True, True, True, True, True])
    second = GroupPath(groups, 0, np.ones((6, 1)), first.shares(0.6), ends, others, first)
    g, h = 6, 7
    assert second._sweeps[h] is first._sweeps[h]
    assert second._sweeps[g] is not first._sweeps[g]
