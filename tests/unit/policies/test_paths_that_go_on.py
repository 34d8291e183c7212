"""A path that takes over what is left of the one before is the path that is worked out anew."""

import numpy as np
import pytest

from policies import Problem, choose
from policies.verification.group_path import GroupPath
from policies.verification.groups import Groups
from policies.verification.stated import Stated
from tests.examples import numbers


def drawn_tree(seed):
    random = np.random.default_rng(seed)
    tenants, groups = int(random.integers(4, 40)), int(random.integers(2, 12))
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
