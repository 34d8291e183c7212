"""Sweeps of the corners of siblings, as the verifier works them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray

# Levels of siblings that differ by less, relative, are equal but for rounding.
SAME_LEVEL = 1e-11
# Running sums are taken afresh once they are this part of what they were: rounding stays behind.
FRESH = 1e-3


@dataclass(frozen=True, eq=False)
class Sweep:
    """The corners of a node's children in the order in which they are swept.

    Attributes:
        nodes: (s,) the children that move; child: (e,) position among them of whose corner each is.
        at: (e,) the child's position there, after: (e,) once it jumped; height: (e,) the level.
        slope: (e,) growth of the child's position with the level.
        before, reached: (e,) the node's position when the corner comes, and after its jump.
        rate: (e,) growth of the node's position with the level after it.
    """

    nodes: IntArray
    child: IntArray
    at: FloatArray
    after: FloatArray
    height: FloatArray
    slope: FloatArray
    before: FloatArray
    reached: FloatArray
    rate: FloatArray


@dataclass(frozen=True, eq=False)
class Layer:
    """The sweeps of all groups of one depth, one after the other.

    Attributes:
        nodes: (g,) the groups; first, last: (g,) the first and the last event of each.
        owner: (e,) position of the group of each event; number: (e,) position of the event in its group.
        child: (e,) position of the event's child among all children. Other columns are of ``Sweep``.
        children: (c,) the node of each child, or the tenant that moves alone below it.
        group: (c,) position of its group; is_tenant: (c,).
        position: (c,) where a child that is a group begins.
    """

    nodes: IntArray
    first: IntArray
    last: IntArray
    owner: IntArray
    number: IntArray
    child: IntArray
    at: FloatArray
    after: FloatArray
    height: FloatArray
    slope: FloatArray
    before: FloatArray
    reached: FloatArray
    rate: FloatArray
    children: IntArray
    group: IntArray
    is_tenant: BoolArray
    position: FloatArray

    @classmethod
    def of(
        cls,
        nodes: Sequence[int],
        sweeps: Sequence[Sweep],
        lone: IntArray,
        position: FloatArray,
        t: int,
    ) -> Layer:
        """Join the sweeps of some groups.

        Args:
            lone: (v,) the tenant that moves alone below a node, -1 elsewhere; position: (v,) where nodes
                begin; t: number of tenants.
        """
        events = np.array([len(sweep.at) for sweep in sweeps])
        sizes = np.array([len(sweep.nodes) for sweep in sweeps])
        first, offset = np.cumsum(events) - events, np.cumsum(sizes) - sizes
        owner = np.repeat(np.arange(len(sweeps)), events)
        children = np.concatenate([sweep.nodes for sweep in sweeps])
        found = np.where(lone[children] >= 0, lone[children], children)
        return cls(
            nodes=np.array(nodes),
            first=first,
            last=first + events - 1,
            owner=owner,
            number=np.arange(len(owner)) - first[owner],
            child=np.concatenate([sweep.child for sweep in sweeps]) + offset[owner],
            at=np.concatenate([sweep.at for sweep in sweeps]),
            after=np.concatenate([sweep.after for sweep in sweeps]),
            height=np.concatenate([sweep.height for sweep in sweeps]),
            slope=np.concatenate([sweep.slope for sweep in sweeps]),
            before=np.concatenate([sweep.before for sweep in sweeps]),
            reached=np.concatenate([sweep.reached for sweep in sweeps]),
            rate=np.concatenate([sweep.rate for sweep in sweeps]),
            children=found,
            group=np.repeat(np.arange(len(sweeps)), sizes),
            is_tenant=found < t,
            position=position[found],
        )

    def positions(self, target: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Return which children (c,) have begun, and their positions.

        Args:
            target: (g,) positions of the groups, -inf for those that have not begun.
        """
        # Events of a group are in the order of its positions.
        come = np.bincount(self.owner[self.before <= target[self.owner]], minlength=len(self.nodes))
        latest_event = np.maximum(self.first + come - 1, self.first)
        jumps = (come > 0) & (target < self.reached[latest_event])
        passed = np.flatnonzero(self.number < (come - jumps)[self.owner])
        latest = np.full(len(self.children), -1)
        latest[self.child[passed]] = passed
        position = np.zeros(len(self.children))
        begun = latest >= 0
        height, rate = self.height[latest_event], self.rate[latest_event]
        rises = (come > 0) & ~jumps & (rate > 0)
        # Added last: a level that hardly grows does not distinguish near positions.
        ahead = np.zeros(len(self.nodes))
        ahead[rises] = (target[rises] - self.reached[latest_event[rises]]) / rate[rises]
        event, group = latest[begun], self.group[begun]
        since = height[group] - self.height[event]
        position[begun] = self.after[event] + self.slope[event] * (since + ahead[group])
        if jumps.any():
            event = latest_event[jumps]
            position[self.child[event]] = self.at[event] + (target[jumps] - self.before[event])
            begun[self.child[event]] = True
        return begun, position


def by_tier(level: FloatArray, tier: IntArray) -> IntArray:
    """Return the order of levels (e,) by tier, and of equal ones by position."""
    if (tier == tier[0]).all():
        return np.argsort(level, kind="stable")
    return np.lexsort((level, tier))


def running_rates(rates: FloatArray, before: FloatArray, child: IntArray) -> FloatArray:
    """Return the sums (e, c) over siblings of their rates after each corner.

    Args:
        rates: (e, c) of the corner's sibling after it; before: (e, c) until it; child: (e,) which one.
    """
    change = rates - before
    total = np.cumsum(change, axis=0)
    begin = 0
    while begin < len(total):
        peak = np.maximum.accumulate(total[begin:], axis=0)
        fallen = np.flatnonzero(((total[begin:] < FRESH * peak) & (peak > 0)).any(axis=1))
        if not len(fallen):
            break
        # Of sums of much larger rates, which have ended by now, nothing but rounding is left.
        begin += int(fallen[0])
        latest = np.full(int(child.max()) + 1, -1)
        latest[child[: begin + 1]] = np.arange(begin + 1)
        fresh = rates[latest[latest >= 0]].sum(axis=0)
        total[begin] = fresh
        total[begin + 1 :] = fresh + np.cumsum(change[begin + 1 :], axis=0)
    return np.maximum(total, 0.0)


def common_levels(tier: IntArray, level: FloatArray) -> FloatArray:
    """Return the levels (e,) with one level for all that are equal but for rounding within a tier."""
    order = by_tier(level, tier)
    sorted_, tiers = level[order], tier[order]
    apart = (sorted_[1:] - sorted_[:-1] > SAME_LEVEL * sorted_[1:]) | (tiers[1:] != tiers[:-1])
    cluster = np.zeros(len(order), dtype=np.int64)
    cluster[1:] = np.cumsum(apart)
    last = np.append(np.flatnonzero(apart), len(order) - 1)
    common = np.empty_like(level)
    common[order] = sorted_[last][cluster]
    return common
