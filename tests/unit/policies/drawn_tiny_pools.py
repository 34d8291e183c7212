"""Pools of few tenants with limits and guarantees from a billionth of the pool, drawn by a seed."""

import numpy as np

from policies import Guarantee, Limit, Problem
from policies.model.limits import in_order

# How an amount is drawn: powers of ten, one amount for all, nothing, a part of the pool, whole numbers.
POWERS, SAME, NOTHING, PARTS, WHOLE = range(5)


class TinyDraw:
    """A pool and the policy that decides it.

    Attributes:
        problem: the pool; policy: ``drf`` if nothing is on some servers only, otherwise ``drfh``.
    """

    def __init__(self, seed):
        self.random = random = np.random.default_rng([20261130, seed])
        self.tenants, self.rows = int(random.integers(2, 7)), int(random.integers(1, 4))
        self.resources = int(random.integers(1, 4))
        several = self.chance(0.3)
        self.workloads = self.tenants + (int(random.integers(0, 3)) if several else 0)
        fields = {**self.quantities(), **self.tree()}
        zones = random.integers(0, 2, self.workloads)
        selects, some = self.chance(0.5), random.random(self.workloads) < 0.3
        self.pooled = self.chance(0.25)
        self.policy = "drf" if self.pooled else "drfh"
        fields |= {
            "server_labels": [{"zone": str(zone)} for zone in random.integers(0, 2, self.rows)],
            "contributed_by": random.integers(-1, self.tenants, self.rows),
            "weight": self.weights(self.tenants),
            "best_effort": (random.random(self.tenants) < 0.2) & self.chance(0.3),
            "workload_tenant": np.r_[
                np.arange(self.tenants),
                random.integers(0, self.tenants, self.workloads - self.tenants),
            ],
            "tasks": random.choice([1, 2, 8, np.inf, np.inf], self.workloads),
            "selectors": [
                {"zone": str(zone)} if selects and chosen and not self.pooled else {}
                for zone, chosen in zip(zones, some, strict=True)
            ],
        }
        self.totals = Problem.create(**fields).totals
        self.problem = Problem.create(**fields, **self.amounts())

    def chance(self, part):
        return bool(self.random.random() < part)

    def weights(self, count):
        """Equal, whole or six powers of ten apart."""
        kind = self.random.integers(0, 3)
        if kind == 0:
            return np.ones(count)
        if kind == 1:
            return self.random.integers(1, 4, count).astype(float)
        return 10.0 ** self.random.uniform(-3, 3, count)

    def quantities(self):
        random, shape = self.random, (self.workloads, self.resources)
        if self.chance(0.5):
            capacity = random.integers(0, 12, (self.rows, self.resources)).astype(float)
            capacity[0] = np.maximum(capacity[0], 1)
            demand = random.integers(0, 4, shape).astype(float)
        else:
            capacity = random.uniform(1, 16, (self.rows, self.resources)).round(3)
            demand = random.uniform(0.01, 2, shape).round(3)
            demand[random.random(shape) < 0.15] = 0
        demand[np.arange(shape[0]), random.integers(0, shape[1], shape[0])] += 1
        return {
            "resources": ["cpu", "memory", "gpu"][: self.resources],
            "tenants": [f"t{number}" for number in range(self.tenants)],
            "capacity": capacity,
            "demand": demand,
        }

    def tree(self):
        """Groups of up to three levels, in a quarter of the pools none."""
        random, deepest, self.groups = self.random, int(self.random.integers(0, 4)), 0
        if not deepest:
            return {}
        self.groups = int(random.integers(1, 6))
        parents, depth = [], []
        for number in range(self.groups):
            parent = int(random.integers(-1, number)) if number else -1
            if parent >= 0 and depth[parent] >= deepest:
                parent = -1
            parents.append(parent)
            depth.append(1 if parent < 0 else depth[parent] + 1)
        fields = {
            "groups": [f"g{number}" for number in range(self.groups)],
            "group_parent": parents,
            "group_weight": self.weights(self.groups),
            "tenant_group": random.integers(-1, self.groups, self.tenants),
        }
        if self.chance(0.2):
            fields["tenant_tier"] = random.integers(0, 2, self.tenants)
            fields["group_tier"] = random.integers(0, 2, self.groups)
        return fields

    def amounts(self):
        """Limits, and in half of the pools guarantees, some of which equal a limit."""
        random, self.same = self.random, None
        nodes = {"group": self.groups, "tenant": self.tenants, "workload": self.workloads}
        scopes = [scope for scope, count in nodes.items() if count]
        kinds = [
            int(kind) for kind in random.choice([POWERS, POWERS, SAME, PARTS, WHOLE, NOTHING], 2)
        ]
        limits, guarantees, fields = [], [], {}
        for _ in range(int(random.integers(1, 7))):
            scope = str(random.choice(scopes))
            node = int(random.integers(nodes[scope]))
            amount = self.amount(int(random.choice(kinds)))
            limits.append(Limit(scope, node, amount, self.where()))
        if self.chance(0.5):
            above = [scope for scope in ("group", "tenant") if nodes[scope]]
            for _ in range(int(random.integers(1, 4))):
                scope = str(random.choice(above))
                if self.chance(0.4):
                    amount = limits[int(random.integers(len(limits)))].amount
                else:
                    amount = self.amount(int(random.choice([POWERS, SAME, PARTS, WHOLE])))
                node = int(random.integers(nodes[scope]))
                guarantees.append(Guarantee(scope, node, amount, self.where()))
            if self.chance(0.2):
                fields["own_servers"] = random.random(self.tenants) < 0.5
            fields["count_guaranteed"] = self.chance(0.6)
        return {**fields, "limits": in_order(limits), "guarantees": in_order(guarantees)}

    def where(self):
        if not self.pooled and self.chance(0.4):
            return {"zone": str(self.random.integers(0, 2))}
        return {}

    def amount(self, kind):
        random, totals = self.random, self.totals
        amount, named = np.full(self.resources, np.inf), random.random(self.resources) < 0.4
        named[int(random.integers(self.resources))] = True
        count = int(named.sum())
        if kind == POWERS:
            amount[named] = totals[named] * 10.0 ** random.uniform(-9, 0, count)
        elif kind == SAME:
            if self.same is None:
                self.same = totals * 10.0 ** random.uniform(-6, 0)
            amount[named] = self.same[named]
        elif kind == NOTHING:
            amount[named] = 0.0
        elif kind == PARTS:
            amount[named] = totals[named] * random.uniform(0.01, 1, count)
        else:
            amount[named] = random.integers(0, 12, count)
        return amount.round(4) if self.chance(0.3) else amount
