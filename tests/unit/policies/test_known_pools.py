"""Pools of guarantees that are divided once: equal ones, and no others."""

from dataclasses import replace

import numpy as np
import pytest

from policies import CurrentPlacements, Gang, Guarantee, Limit, Problem
from policies.floors.known_pools import KnownPools

ONE = np.ones(1, dtype=np.int64)
KEPT = CurrentPlacements(
    workload=0 * ONE, row=0 * ONE, offset=0 * ONE, servers=ONE, tasks=np.ones(1)
)


def pool(**fields):
    return Problem.create(
        resources=["gpu"], capacity=[[8]], tenants=["a", "b"], demand=[[1], [2]],
        groups=["ml"], tenant_group=[0, -1], **fields,
    )  # fmt: skip


def divided(*pools):
    """The number of each pool's answer, in the order in which they are divided."""
    known, count = KnownPools(), iter(range(len(pools)))
    return [known.answer(each, lambda _: next(count)) for each in pools]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"limits": [Limit("group", 0, np.array([4.0]))]},
        {"guarantees": [Guarantee("tenant", 1, np.array([4.0]), {"gpu": ("h100",)})]},
        {"gangs": {0: Gang(np.array([2]), np.array([[1.0]]))}},
        {"kept_placements": KEPT},
        {"selectors": [{"gpu": "h100"}, {}]},
    ],
)
def test_equal_pools_are_divided_once(fields):
    assert divided(pool(**fields), pool(**fields), pool()) == [0, 0, int(fields != {})]


@pytest.mark.parametrize(
    "fields",
    [
        {"weight": np.array([1.0, 2.0])},
        {"tasks": np.array([np.inf, 3.0])},
        {"priority": np.array([0, 1])},
        {"tenant_group": np.array([-1, -1])},
        {"tenant_tier": np.array([0, 1])},
        {"group_weight": np.array([2.0])},
        {"best_effort": np.array([False, True])},
        {"count_guaranteed": False},
        {"limits": (Limit("group", 0, np.array([4.0])),)},
        {"limits": (Limit("group", 0, np.array([5.0])),)},
        {"guarantees": (Guarantee("tenant", 1, np.array([4.0])),)},
        {"kept_placements": replace(KEPT, tasks=2 * KEPT.tasks)},
    ],
)
def test_pools_that_differ_are_divided_apart(fields):
    given = pool(limits=[Limit("group", 0, np.array([3.0]))], kept_placements=KEPT)
    assert divided(given, replace(given, **fields), given) == [0, 1, 0]
