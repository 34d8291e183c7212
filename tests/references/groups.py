"""Trees of groups in exact arithmetic, one event after the other, as docs/policies/groups.md says.

Nodes are named as in the problem: tenants ``("tenant", i)``, groups ``("group", g)``, and ``POOL``.
"""

from fractions import Fraction

import numpy as np

from tests.references.exact_program import maximise
from tests.references.limits import is_below, matches
from tests.references.numbers import exact, exact_weights

POOL = ("pool", 0)


class PlainTree:
    """A problem's tree, its directions and weights, as fractions.

    With ``each``, (n) what one task of each workload adds to its tenant's share, the shares of a group's
    tenants add up, whatever resources they use.
    """

    def __init__(self, problem, stage=0, *, pooled=False, totals=None, each=None):
        self.problem, self.pooled, self.each = problem, pooled, each
        self.children = {POOL: []}
        self.tier, self.weight, self.direction = {POOL: 0}, {POOL: Fraction(1)}, {}
        totals = totals or [
            sum(exact(c) * int(k) for c, k, gone in zip(
                column, problem.server_count, problem.contributed_only, strict=True) if not gone)
            for column in problem.capacity.T.tolist()
        ]  # fmt: skip
        self.totals = totals
        weights = exact_weights(problem)
        for g in range(len(problem.groups)):
            self.children["group", g] = []
        for i in range(problem.t):
            node = "tenant", i
            self._put(node, problem.tenant_group[i], problem.tenant_tier[i], weights[i])
            self.direction[node] = self._direction(i)
        for g, weight in enumerate(self._group_weights(stage)):
            self._put(("group", g), problem.group_parent[g], problem.group_tier[g], weight)

    def _put(self, node, parent, tier, weight):
        self.children[("group", int(parent)) if parent >= 0 else POOL].append(node)
        self.tier[node], self.weight[node] = int(tier), weight

    def _group_weights(self, stage):
        problem = self.problem
        explicit = [exact(w) for w in problem.group_weight]
        if problem.weights_mode == "explicit" or stage == 1:
            return explicit
        brought = [[Fraction(0)] * problem.m for _ in problem.groups]
        alone = [[Fraction(0)] * problem.m for _ in range(problem.t)]
        for row, owner in enumerate(problem.contributed_by.tolist()):
            for r in range(problem.m):
                amount = exact(problem.capacity[row, r]) * int(problem.server_count[row])
                if owner >= 0:
                    alone[owner][r] += amount
                group = int(problem.tenant_group[owner]) if owner >= 0 else -1
                while group >= 0:
                    brought[group][r] += amount
                    group = int(problem.group_parent[group])
        first = [i for i in range(problem.t) if not problem.best_effort[i]]
        if not any(self._share(alone[i]) * exact(problem.weight[i]) > 0 for i in first):
            return explicit
        derived = [self._share(b) * w for b, w in zip(brought, explicit, strict=True)]
        return [d or w for d, w in zip(derived, explicit, strict=True)]

    def _share(self, amounts):
        return max(
            (a / total for a, total in zip(amounts, self.totals, strict=True) if total),
            default=Fraction(0),
        )

    def task(self, j):
        """Shares of the pool that one task of a workload takes."""
        return [
            exact(d) / total if total else Fraction(0)
            for d, total in zip(self.problem.demand[j].tolist(), self.totals, strict=True)
        ]

    def per_task(self, j):
        """What one task of a workload adds to its tenant's share."""
        return max(self.task(j)) if self.each is None else self.each[j]

    def _direction(self, tenant):
        problem = self.problem
        if self.each is not None:
            return [Fraction(1)]
        mine = [j for j in range(problem.n) if problem.workload_tenant[j] == tenant]
        mine = [j for j in mine if self.can_run(j)]
        finite = all(problem.tasks[j] < float("inf") for j in mine)
        total = [Fraction(0)] * problem.m
        for j in mine:
            task = self.task(j)
            by = Fraction(int(problem.tasks[j])) if finite else 1 / (max(task) or 1)
            total = [a + by * b for a, b in zip(total, task, strict=True)]
        most = max(total, default=Fraction(0))
        return [a / most for a in total] if most else total

    def can_run(self, j):
        """Whether a workload has tasks, and only demands what some server that it may use has."""
        problem = self.problem
        if problem.out_of_range[j]:
            return False
        if self.pooled:
            needs = [r for r in range(problem.m) if problem.demand[j, r] > 0]
            return problem.tasks[j] > 0 and all(self.totals[r] > 0 for r in needs)
        return problem.tasks[j] > 0 and any(self.may_use(j, row) for row in range(problem.k))

    def may_use(self, j, row):
        problem = self.problem
        labels = problem.server_labels[row]
        return (
            not problem.contributed_only[row]
            and all(labels.get(k) in v for k, v in problem.selectors[j].items())
            and all(
                c > 0
                for c, d in zip(problem.capacity[row], problem.demand[j], strict=True)
                if d > 0
            )
        )

    def next(self, waiting, of_tenant, of_group):
        """The tenant whose turn it is: from the pool down, to the child with the least key.

        Args:
            waiting: tenants, as indices; of_tenant: the key of one; of_group: of a group and of all
                tenants below it.
        """
        node = POOL
        while node[0] != "tenant":
            able = [
                (self.tier[child], position, child)
                for position, child in enumerate(self.children[node])
                if any(leaf[1] in waiting for leaf in self.below(child))
            ]
            first = min(tier for tier, _, _ in able)
            node = min(
                (
                    of_tenant(child[1])
                    if child[0] == "tenant"
                    else of_group(child, [leaf[1] for leaf in self.below(child)]),
                    position,
                    child,
                )
                for tier, position, child in able
                if tier == first
            )[2]
        return node[1]

    def parts(self, weight, counted):
        """(t) part of the pool of each tenant that is counted, by the weights (t) on its path."""
        parts = [Fraction(0)] * self.problem.t
        waiting = [(POOL, Fraction(1))]
        while waiting:
            node, part = waiting.pop()
            if node[0] == "tenant":
                parts[node[1]] = part
                continue
            able = [
                child
                for child in self.children[node]
                if any(leaf[1] in counted for leaf in self.below(child))
            ]
            by = [weight[c[1]] if c[0] == "tenant" else self.weight[c] for c in able]
            waiting += [(c, part * w / sum(by)) for c, w in zip(able, by, strict=True)]
        return parts

    def below(self, node):
        """Tenants below a node."""
        if node[0] == "tenant":
            return [node]
        return [leaf for child in self.children[node] for leaf in self.below(child)]

    def vector(self, node, share):
        """What the tenants below a node hold of each resource."""
        parts = [(share[leaf], self.direction[leaf]) for leaf in self.below(node)]
        width = self.problem.m if self.each is None else 1
        return [sum((g * d[r] for g, d in parts), Fraction(0)) for r in range(width)]

    def level(self, node, share):
        if node[0] == "tenant":
            return share[node] / self.weight[node]
        return max(self.vector(node, share), default=Fraction(0)) / self.weight[node]

    def rates(self, node, share, moving):
        """How fast the tenants below a node rise, and its level with them; None: nobody can."""
        if node[0] == "tenant":
            return ({node: self.weight[node]}, Fraction(1)) if node in moving else None
        able = [c for c in self.children[node] if moving.intersection(self.below(c))]
        if not able:
            return None
        first = min(self.tier[c] for c in able)
        able = [c for c in able if self.tier[c] == first]
        least = min(self.level(c, share) for c in able)
        able = [c for c in able if self.level(c, share) == least]
        rising = [(c, *self.rates(c, share, moving)) for c in able]
        stays = [found for found in rising if found[2] == 0]
        if stays:
            together = dict(stays[0][1])
        else:
            together = {leaf: rate / by for _, found, by in rising for leaf, rate in found.items()}
        return together, self._level_rate(node, share, together)

    def _level_rate(self, node, share, rates):
        now = self.vector(node, share)
        grows = self.vector(node, {leaf: rates.get(leaf, Fraction(0)) for leaf in share})
        most = max(now, default=Fraction(0))
        top = [g for v, g in zip(now, grows, strict=True) if v == most]
        return max(top, default=Fraction(0)) / self.weight[node]

    def step(self, share, moving, cap):
        """Rates at which tenants rise, and for how long; None: nobody can."""
        found = self.rates(POOL, share, moving)
        if found is None:
            return None
        rates = found[0]
        whole = {leaf: rates.get(leaf, Fraction(0)) for leaf in share}
        lengths = [(cap[i] - share[i]) / rate for i, rate in rates.items() if cap[i] is not None]
        for node, children in self.children.items():
            now, grows = self.vector(node, share), self.vector(node, whole)
            most = max(now, default=Fraction(0))
            top = max((g for v, g in zip(now, grows, strict=True) if v == most), default=0)
            lengths += [(most - v) / (g - top) for v, g in zip(now, grows, strict=True) if g > top]
            levels = {c: self.level(c, share) for c in children}
            speeds = {
                c: self.weight[c] and whole[c] / self.weight[c]
                if c[0] == "tenant"
                else self._level_rate(c, share, whole)
                for c in children
            }
            for c in children:
                for other in children:
                    if speeds[c] > speeds[other] and levels[c] < levels[other]:
                        lengths.append((levels[other] - levels[c]) / (speeds[c] - speeds[other]))
        return rates, min((h for h in lengths if h > 0), default=None)


def walk(tree, share, moving, cap, total):
    """Shares where their sum over the moving tenants, as it was at first, is ``total``."""
    share, moving, first = dict(share), set(moving), set(moving)
    while True:
        moving = {i for i in moving if cap[i] is None or share[i] < cap[i]}
        found = tree.step(share, moving, cap)
        left = total - sum(share[i] for i in first)
        if found is None or left <= 0:
            return share
        rates, length = found
        speed = sum(rates.values())
        length = left / speed if length is None else min(length, left / speed)
        for leaf, rate in rates.items():
            share[leaf] += rate * length


def largest_use(problem, tree, tenants, count):
    """The largest share of any resource that the launched tasks of some tenants use together.

    Or the sum of their shares, where these add up.
    """
    mine = [j for j, owner in enumerate(problem.workload_tenant.tolist()) if owner in tenants]
    if tree.each is not None:
        return sum((count[j] * tree.each[j] for j in mine), Fraction(0))
    used = [Fraction(0)] * problem.m
    for j in mine:
        used = [u + count[j] * d for u, d in zip(used, tree.task(j), strict=True)]
    return max(used, default=Fraction(0))


class PlainServers:
    """What shares are feasible, as an exact program over every workload on every server."""

    def __init__(self, problem, tree, pooled):
        self.problem, self.tree, self.pooled = problem, tree, pooled
        self.jobs = [j for j in range(problem.n) if tree.can_run(j)]
        if pooled:
            self.rooms = [[Fraction(int(total > 0)) for total in tree.totals]]
            self.pairs = [(j, 0) for j in self.jobs]
        else:
            self.rooms = [
                [
                    exact(c) * int(problem.server_count[row]) / total if total else Fraction(0)
                    for c, total in zip(problem.capacity[row].tolist(), tree.totals, strict=True)
                ]
                for row in range(problem.k)
            ]
            self.pairs = [
                (j, row) for j in self.jobs for row in range(problem.k) if tree.may_use(j, row)
            ]

    def furthest(self, share, rates, length):
        """How far shares can rise at these rates, at most ``length``."""
        n = len(self.pairs) + 1  # the last is the length
        rows, right, slack = [], [], []
        for room_of, room in enumerate(self.rooms):
            for r, amount in enumerate(room):
                takes = [
                    self.tree.task(j)[r] / self.tree.per_task(j) if where == room_of else 0
                    for j, where in self.pairs
                ]
                if any(takes):
                    rows.append([*takes, 0])
                    right.append(amount)
                    slack.append(True)
        for j in self.jobs:
            if self.problem.tasks[j] < float("inf"):
                rows.append([*(int(k == j) for k, _ in self.pairs), 0])
                right.append(int(self.problem.tasks[j]) * self.tree.per_task(j))
                slack.append(True)
        for limit in self.problem.limits:
            for r, amount in enumerate(limit.amount.tolist()):
                if amount == float("inf") or not self.tree.totals[r]:
                    continue
                takes = [
                    self.tree.task(j)[r] / self.tree.per_task(j)
                    if is_below(self.problem, limit, j) and self._counts(limit, where)
                    else 0
                    for j, where in self.pairs
                ]
                rows.append([*takes, 0])
                right.append(exact(amount) / self.tree.totals[r])
                slack.append(True)
        for leaf, has in share.items():
            mine = [int(self.problem.workload_tenant[j] == leaf[1]) for j, _ in self.pairs]
            if any(mine):
                rows.append([*mine, -rates.get(leaf, Fraction(0))])
                right.append(has)
                slack.append(False)
        if length is not None:
            rows.append([0] * (n - 1) + [1])
            right.append(length)
            slack.append(True)
        extra = [i for i, has in enumerate(slack) if has]
        rows = [[*row, *(int(i == k) for k in extra)] for i, row in enumerate(rows)]
        return maximise([0] * (n - 1) + [1] + [0] * len(extra), rows, right)

    def _counts(self, limit, row):
        return self.pooled or matches(self.problem, limit, row)


def leximin_in_groups(problem, *, pooled=False, each=None):
    """(t) exact shares: the path of levels, as far as it is feasible, again and again."""
    share = {("tenant", i): Fraction(0) for i in range(problem.t)}
    stages = stages_of(problem)
    for stage in (0, 1):
        tree = PlainTree(problem, stage, pooled=pooled, each=each)
        servers = PlainServers(problem, tree, pooled)
        cap = caps_of(problem, tree)
        moving = {leaf for leaf in share if stages[leaf[1]] == stage}
        while True:
            moving = {i for i in moving if cap[i] is None or share[i] < cap[i]}
            found = tree.step(share, moving, cap)
            if found is None:
                break
            rates, length = found
            reached = servers.furthest(share, rates, length)
            for leaf, rate in rates.items():
                share[leaf] += rate * reached
            if length is None or reached < length:
                moving = {
                    i for i in moving if servers.furthest(share, {i: Fraction(1)}, Fraction(1)) > 0
                }
    return [share["tenant", i] for i in range(problem.t)]


def stages_of(problem):
    """(t) 1 for tenants that are served with what the others leave."""
    derived = [exact(w) for w in problem.weight]
    if problem.weights_mode == "contribution":
        tree = PlainTree(problem)
        brought = [[Fraction(0)] * problem.m for _ in range(problem.t)]
        for row, owner in enumerate(problem.contributed_by.tolist()):
            for r in range(problem.m):
                if owner >= 0:
                    amount = exact(problem.capacity[row, r]) * int(problem.server_count[row])
                    brought[owner][r] += amount
        by_part = [tree._share(b) * w for b, w in zip(brought, derived, strict=True)]
        if any(w > 0 for w, late in zip(by_part, problem.best_effort, strict=True) if not late):
            derived = by_part
    return [int(late or w <= 0) for late, w in zip(problem.best_effort, derived, strict=True)]


def shares_after_rounds(problem, certificate, *, pooled, each=None):
    """(rounds, t) shares where the path of each round of a certificate is at the round's level."""
    table = walk_of_rounds(problem, certificate, pooled=pooled, each=each)
    leaves = [("tenant", i) for i in range(problem.t)]
    return np.array([[float(end[leaf]) for leaf in leaves] for *_, end in table])


def walk_of_rounds(problem, certificate, *, pooled, each=None):
    """(tree, who moves, all tasks, shares at the beginning, at the end) of each round."""
    share = {("tenant", i): Fraction(0) for i in range(problem.t)}
    stages, found = stages_of(problem), []
    for number, item in enumerate(certificate.rounds):
        tree = PlainTree(problem, item.stage, pooled=pooled, each=each)
        cap = caps_of(problem, tree)
        moving = {
            leaf
            for leaf in share
            if certificate.frozen_in[leaf[1]] >= number
            and stages[leaf[1]] == item.stage
            and (cap[leaf] is None or share[leaf] < cap[leaf])
        }
        end = share_at(tree, share, moving, cap, Fraction(item.level))
        found.append((tree, moving, cap, share, end))
        share = end
    return found


def share_at(tree, share, moving, cap, position):
    """Shares where all of them add up to ``position``, or all tasks run."""
    others = sum((has for leaf, has in share.items() if leaf not in moving), Fraction(0))
    return walk(tree, share, moving, cap, position - others)


def caps_of(problem, tree):
    """Share of all tasks of each tenant; None without an end."""
    cap = {}
    for i in range(problem.t):
        mine = [j for j in range(problem.n) if problem.workload_tenant[j] == i and tree.can_run(j)]
        endless = any(problem.tasks[j] == float("inf") for j in mine)
        cap["tenant", i] = None if endless else sum(
            (int(problem.tasks[j]) * tree.per_task(j) for j in mine), Fraction(0)
        )  # fmt: skip
    return cap
