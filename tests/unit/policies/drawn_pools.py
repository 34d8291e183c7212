"""Pools of tens of tenants in groups, with limits, guarantees and own servers, drawn by a seed."""

import numpy as np

from policies import Guarantee, Limit, Problem
from policies.model.limits import in_order

DEEPEST = 8
PLACEMENTS = ["best-fit", "first-fit", "affinity", "two-choices"]


class Draw:
    """A pool, the policy that decides it, and its mode and options.

    Attributes:
        tenants, workloads, rows, resources, groups: how many there are.
        takes_amounts: whether the policy decides by groups, limits and guarantees.
    """

    def __init__(self, seed):
        self.random = random = np.random.default_rng(seed)
        self.tenants = int(random.choice([3, 8, 20, 60]))
        self.workloads = int(self.tenants * random.choice([1, 1, 1.5, 2.5]))
        self.rows, self.resources = int(random.integers(1, 8)), int(random.integers(1, 5))
        self.policy = str(random.choice(["drfh", "drfh", "drfh", "drf", "asset", "ceei"]))
        # The others do not decide by groups, limits or guarantees.
        self.takes_amounts = self.policy in ("drf", "drfh")
        self.groups = int(random.choice([0, 0, 2, 5, 15])) * self.takes_amounts
        self.mode = str(random.choice(["divisible", "divisible", "indivisible"]))
        if self.policy == "ceei":
            self.mode = "divisible"
        self.options = {}
        if self.policy == "drfh" and self.chance(0.2):
            self.options["share"] = "alone"
        if self.policy == "drfh" and self.mode == "indivisible":
            self.options["placement"] = str(random.choice(PLACEMENTS))
        fields = {**self.servers(), **self.demands(), **self.tree()}
        if self.takes_amounts:
            fields |= self.amounts(Problem.create(**fields).totals)
        self.problem = Problem.create(**fields)

    def chance(self, part):
        return bool(self.random.random() < part)

    def servers(self):
        random, rows = self.random, self.rows
        capacity = random.uniform(2, 20, (rows, self.resources)).round(2)
        if self.chance(0.3):
            capacity[random.random(capacity.shape) < 0.25] = 0
            capacity[~capacity.any(axis=1), 0] = 5
        owners = np.full(rows, -1)
        if self.chance(0.5):
            owners = random.integers(-1, self.tenants, rows)
        return {
            "resources": [f"r{number}" for number in range(self.resources)],
            "capacity": capacity,
            "server_count": random.integers(1, 25, rows),
            "server_labels": [{"kind": f"{row}", "zone": "ab"[row % 2]} for row in range(rows)],
            "contributed_by": owners,
        }

    def demands(self):
        random, count, tenants = self.random, self.workloads, self.tenants
        demand = random.uniform(0.05, 3, (count, self.resources))
        if self.chance(0.3):
            demand = random.lognormal(0, 1, demand.shape)
        demand = demand.round(int(random.integers(1, 6)))
        if self.chance(0.3):
            demand[random.random(demand.shape) < 0.3] = 0
        demand[~demand.any(axis=1), 0] = 1
        tasks = random.choice([np.inf, 1, 3, 20, 200], count, p=[0.4, 0.1, 0.2, 0.2, 0.1])
        if self.mode == "indivisible":
            tasks = np.minimum(tasks, 50)
        fields = {
            "tenants": [f"t{number}" for number in range(tenants)],
            "weight": random.uniform(0.5, 2, tenants).round(4),
            "workload_tenant": np.r_[
                np.arange(tenants), random.integers(0, tenants, count - tenants)
            ],
            "demand": demand,
            "tasks": tasks,
            "priority": random.integers(0, 3, count) * self.chance(0.3),
            "best_effort": random.random(tenants) < 0.2 * self.chance(0.2),
        }
        if self.policy == "drfh" and self.chance(0.5):
            fields["selectors"] = [self.selector() for _ in range(count)]
        return fields

    def selector(self):
        if self.chance(0.6):
            return {}
        if self.chance(0.4):
            return {"zone": "a"}
        return {"kind": tuple(sorted({f"{row}" for row in self.random.integers(0, self.rows, 2)}))}

    def tree(self):
        random, groups = self.random, self.groups
        if not groups:
            return {}
        parents = [-1, *(int(random.integers(-1, at)) for at in range(1, groups))]
        depth = []
        for group, parent in enumerate(parents):
            depth.append(1 if parent < 0 else depth[parent] + 1)
            if depth[group] > DEEPEST:
                parents[group], depth[group] = -1, 1
        fields = {
            "groups": [f"g{number}" for number in range(groups)],
            "group_parent": parents,
            "group_weight": random.uniform(0.5, 2, groups).round(2),
            "tenant_group": random.integers(-1, groups, self.tenants),
        }
        if self.chance(0.3):
            fields["group_tier"] = random.integers(0, 2, groups)
            fields["tenant_tier"] = random.integers(0, 2, self.tenants)
        return fields

    def amounts(self, totals):
        """Limits, guarantees and own servers."""
        random = self.random
        nodes = {"tenant": self.tenants, "workload": self.workloads, "group": self.groups}
        scopes = [scope for scope, count in nodes.items() if count]
        wheres = [{}]
        if self.policy != "drf":
            wheres += [{"zone": ("a",)}, *({"kind": (f"{row}",)} for row in range(self.rows)[:4])]

        def entry(kind, scopes, least, most, parts):
            scope = str(random.choice(scopes))
            amount = np.full(self.resources, np.inf)
            resource = random.integers(self.resources)
            amount[resource] = totals[resource] * random.uniform(least, most)
            amount /= parts or nodes[scope]
            where = wheres[int(random.integers(len(wheres)))]
            return kind(scope, int(random.integers(nodes[scope])), amount.round(4), where)

        limits, guarantees = (int(random.choice(counts)) for counts in ([0, 2, 20], [0, 2, 15]))
        above = [scope for scope in scopes if scope != "workload"]
        found = {
            "limits": [entry(Limit, scopes, 0.1, 1.5, 0) for _ in range(limits)],
            "guarantees": [
                entry(Guarantee, above, 0.2, 1.2, guarantees) for _ in range(guarantees)
            ],
        }
        fields = {name: in_order(entries) for name, entries in found.items()}
        if self.chance(0.3):
            fields["own_servers"] = random.random(self.tenants) < 0.5
        fields["count_guaranteed"] = not self.chance(0.3)
        return fields
