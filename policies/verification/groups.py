"""A pool's tree of groups as the verifier reads it, and whose turn it is in one.

Nodes are numbered: tenants, then groups, then the pool. Written from docs/policies/groups.md;
it shares no code with what solvers walk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.problem import Problem
from policies.verification.turns import ByHistory, ByShare, next_of


@dataclass(frozen=True, eq=False)
class Groups:
    """The nodes of a tree.

    Attributes:
        problem: whose tree it is.
        group_weight: ((g,), (g,)) of each group in the first and in the second stage.
        weight: (t,) of tenants, each in its own stage; late: (t,) those in the second one.
    """

    problem: Problem
    group_weight: tuple[FloatArray, FloatArray]
    weight: FloatArray
    late: BoolArray

    @property
    def pool(self) -> int:
        """The pool's node."""
        return self.problem.t + len(self.problem.groups)

    @cached_property
    def parent(self) -> IntArray:
        """Parent (v,) of each node, -1 for the pool."""
        t = self.problem.t
        above = np.concatenate([self.problem.tenant_group, self.problem.group_parent])
        nodes: IntArray = np.r_[np.where(above >= 0, above + t, self.pool), -1]
        return nodes

    @cached_property
    def tier(self) -> IntArray:
        """Tier (v,) of each node."""
        return np.concatenate([self.problem.tenant_tier, self.problem.group_tier, [0]])

    @cached_property
    def child_nodes(self) -> list[IntArray]:
        """Children (v) of each node, tenants before groups."""
        order = np.argsort(self.parent[:-1], kind="stable")
        edges = np.searchsorted(self.parent[order], np.arange(self.pool + 2)).tolist()
        return [order[begin:end] for begin, end in pairwise(edges)]

    @cached_property
    def children(self) -> list[list[int]]:
        """Children (v) of each node as whole numbers."""
        return [mine.tolist() for mine in self.child_nodes]

    @cached_property
    def top_down(self) -> list[int]:
        """The pool and all groups, each after its parent."""
        order, t = [self.pool], self.problem.t
        # The list grows while it is walked, which is breadth first.
        for node in order:
            mine = self.child_nodes[node]
            order += mine[mine >= t].tolist()
        return order

    @cached_property
    def _deepest_first(self) -> list[IntArray]:
        """The nodes below the pool by depth, the deepest first."""
        depth = np.zeros(self.pool + 1, dtype=np.int64)
        for node in self.top_down[1:]:
            depth[node] = depth[self.parent[node]] + 1
        tenants = slice(0, self.problem.t)
        depth[tenants] = depth[self.parent[tenants]] + 1
        return [np.flatnonzero(depth == d) for d in range(int(depth.max()), 0, -1)]

    def weights(self, stage: int) -> FloatArray:
        """Return the divisor (v,) of each node's share in a stage."""
        return np.concatenate([self.weight, self.group_weight[stage], [1.0]])

    def path(self, node: int) -> list[int]:
        """Return the node and those above it, up to the pool."""
        found = [node]
        while self.parent[found[-1]] >= 0:
            found.append(int(self.parent[found[-1]]))
        return found

    def sums(self, leaves: FloatArray) -> FloatArray:
        """Return the sums (v, m) over the tenants below each node, of (t, m)."""
        total = np.zeros((self.pool + 1, leaves.shape[1]))
        total[: len(leaves)] = leaves
        for nodes in self._deepest_first:
            # `add.at`, because siblings have the same parent.
            np.add.at(total, self.parent[nodes], total[nodes])
        return total

    def parts(self, counted: BoolArray, stage: int = 0) -> FloatArray:
        """Return the part (t,) of the pool that each counted (t,) tenant is entitled to."""
        present = self.sums(counted[:, None].astype(np.float64))[:, 0] > 0
        weight = np.where(present, self.weights(stage), 0.0)
        part = np.zeros(self.pool + 1)
        part[self.pool] = 1.0
        together = np.zeros(self.pool + 1)
        np.add.at(together, self.parent[:-1], weight[:-1])
        for nodes in self._deepest_first[::-1]:
            above = self.parent[nodes]
            divisor = np.where(together[above] > 0, together[above], 1.0)
            part[nodes] = part[above] * weight[nodes] / divisor
        return part[: len(counted)]


def contributed_by_groups(problem: Problem, contributed: FloatArray) -> FloatArray:
    """Return what the tenants below each group contributed (g, m), of (t, m)."""
    total = np.zeros((len(problem.groups), contributed.shape[1]))
    for tenant, group in enumerate(problem.tenant_group.tolist()):
        while group >= 0:
            total[group] += contributed[tenant]
            group = int(problem.group_parent[group])
    return total


class InGroups:
    """Turns in a pool with groups.

    They go from the pool down, to the child that the policy puts first.

    A child without a tenant that waits has no turn, and none while one of a lower tier has.
    """

    def __init__(self, groups: Groups, tenants: ByShare | ByHistory) -> None:
        self.groups = groups
        self.tenants = tenants
        self.used, self.alone = groups.sums(tenants.used), groups.sums(tenants.alone)
        self.waiting = np.zeros(groups.pool + 1, dtype=np.int64)
        self._place = np.zeros(groups.pool + 1, dtype=np.int64)
        self._keys: list[FloatArray] = []
        for mine in groups.children:
            self._place[mine] = np.arange(len(mine))
            self._keys.append(np.full((3, len(mine)), np.inf))
        self._tiers = [groups.tier[mine] for mine in groups.children]
        self._stage = 0
        self._weight = groups.weights(0)
        self._is_in = np.zeros(groups.problem.t, dtype=np.bool_)

    def enter(self, tenant: int) -> None:
        """Let a tenant take turns."""
        if int(self.groups.late[tenant]) != self._stage:
            self._stage = int(self.groups.late[tenant])
            self._weight = self.groups.weights(self._stage)
        self.tenants.enter(tenant)
        if not self._is_in[tenant]:
            self._is_in[tenant] = True
            self.waiting[self.groups.path(tenant)] += 1
        self._update(tenant)

    def leave(self, tenant: int) -> None:
        """Take out a tenant with nothing more to launch."""
        self.tenants.leave(tenant)
        self._is_in[tenant] = False
        self.waiting[self.groups.path(tenant)] -= 1
        self._update(tenant)

    def launched(self, tenant: int, job: int) -> None:
        """Count one more task of a workload."""
        self.tenants.launched(tenant, job)
        self.used[self.groups.path(tenant)[1:]] += self.tenants.gain[job]
        self._update(tenant)

    def may_go_on(self, tenant: int) -> bool:
        """Return whether only missing room can stop the tenant."""
        return self.tenants.may_go_on(tenant)

    def next(self) -> int:
        """Return the tenant that is next."""
        node = self.groups.pool
        while node >= self.groups.problem.t:
            keys, tiers = self._keys[node], self._tiers[node]
            # Only children with a tenant that waits: the others have infinite keys.
            some = np.flatnonzero(keys[1] < np.inf)
            some = some[tiers[some] == tiers[some].min()]
            node = self.groups.children[node][int(some[next_of(keys[:, some])])]
        return node

    def _update(self, tenant: int) -> None:
        """Work out the measures of a tenant and of the groups above it."""
        for node in self.groups.path(tenant)[:-1]:
            keys = (np.inf, np.inf, np.inf)
            if node == tenant:
                keys = self.tenants.keys(tenant)
            elif self.waiting[node]:
                keys = self.tenants.measure(
                    self.used[node], self.alone[node], float(self._weight[node])
                )
            self._keys[self.groups.parent[node]][:, self._place[node]] = keys
