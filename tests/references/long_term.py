"""One step of a long-term policy in rational arithmetic, sentence by sentence: slow, plainly right."""

import math
from fractions import Fraction

from tests.references.groups import PlainTree
from tests.references.numbers import exact


class Past:
    """used[i][r], alone[i][r], waiting[i], elapsed: what a step starts from and leaves behind."""

    def __init__(self, t, m, step):
        self.step = exact(step)
        self.used = [[Fraction(0)] * m for _ in range(t)]
        self.alone = [[Fraction(0)] * m for _ in range(t)]
        self.waiting = [Fraction(0)] * t
        self.elapsed = Fraction(0)


class Step:
    """Everything about one step; ``run`` hands out its tasks and leaves ``past`` as it is after."""

    def __init__(self, problem, policy, past, placement, timeout=None, cap=None):
        self.problem, self.policy, self.past = problem, policy, past
        self.placement, self.timeout, self.cap = placement, timeout, cap
        self.capacity, self.row_of = [], []
        for row in range(problem.k):
            if not problem.contributed_only[row] and problem.capacity[row].any():
                for _ in range(int(problem.server_count[row])):
                    self.capacity.append([exact(c) for c in problem.capacity[row]])
                    self.row_of.append(row)
        self.total = [sum(s[r] for s in self.capacity) for r in range(problem.m)]
        if placement == "pool":
            self.capacity = [self.total[:]] if self.capacity else []
        self.left = [server[:] for server in self.capacity]
        self.demand = [[exact(d) for d in row] for row in problem.demand]
        self.runnable = [
            not problem.out_of_range[j] and any(self.fits(j, s) for s in range(len(self.left)))
            for j in range(problem.n)
        ]
        self.weight, self.second = weights_of(problem, self.total)
        self.tree = PlainTree(problem, 0)
        self.count = [0] * problem.n
        self.launched = []

    def fits(self, j, server):
        labels = {}
        if self.placement != "pool":
            labels = self.problem.server_labels[self.row_of[server]]
        selector = self.problem.selectors[j]
        allowed = all(labels.get(label) in values for label, values in selector.items())
        room = zip(self.demand[j], self.left[server], strict=True)
        return allowed and all(d <= c for d, c in room)

    def queue(self, i):
        """The tenant's workloads in the order in which its tasks are taken."""
        mine = [j for j in range(self.problem.n) if self.problem.workload_tenant[j] == i]
        return sorted(
            (j for j in mine if self.runnable[j]), key=lambda j: (-self.problem.priority[j], j)
        )

    def partition(self, i):
        first = [k for k in range(self.problem.t) if not self.second[k]]
        part = self.tree.parts(self.weight, first or range(self.problem.t))[i]
        return [c * part for c in self.total]

    def alone_in_step(self, i):
        room = self.partition(i)
        used = [Fraction(0)] * self.problem.m
        for j in self.queue(i):
            needed = [r for r, d in enumerate(self.demand[j]) if d]
            tasks = min(
                self.problem.tasks[j], min(math.floor(room[r] / self.demand[j][r]) for r in needed)
            )
            for r in needed:
                room[r] -= int(tasks) * self.demand[j][r]
                used[r] += int(tasks) * self.demand[j][r]
        return used

    def is_beyond(self, i):
        """Has the tenant borrowed all that it may?"""
        if self.cap is None or self.second[i]:
            return False
        used, entitled = self.past.used[i], self.partition(i)
        pairs = zip(used, entitled, strict=True)
        ratio = max((u / (s * self.past.elapsed) for u, s in pairs if s), default=0)
        return ratio > 1 + exact(self.cap)

    def next_task(self, i):
        """(workload, server) of the tenant's next task that fits, or None."""
        if self.is_beyond(i):
            return None
        for j in self.queue(i):
            servers = [s for s in range(len(self.left)) if self.fits(j, s)]
            if self.count[j] < self.problem.tasks[j] and servers:
                return j, max(servers, key=lambda s: (self.affinity(j, s), -s))
        return None

    def affinity(self, j, server):
        pairs = zip(self.demand[j], self.left[server], self.total, strict=True)
        return sum(d * c / total**2 for d, c, total in pairs if total)

    def keys(self, tenants, weight):
        """Sharing degree, measure and what breaks ties, of tenants together."""
        used, alone = (
            [sum((table[i][r] for i in tenants), Fraction(0)) for r in range(self.problem.m)]
            for table in (self.past.used, self.past.alone)
        )
        share = [u / c for u, c in zip(used, self.total, strict=True) if c]
        aggregate = sum(share) / weight
        dominant = max(share, default=0) / weight
        degree = min(
            (u / a for u, a in zip(used, alone, strict=True) if a > 0), default=Fraction(1)
        )
        if self.policy == "h-mrf":
            # Degrees from 1 on do not order: then the measure decides among all siblings.
            return (degree, aggregate, 0) if degree < 1 else (Fraction(1), aggregate, dominant)
        return Fraction(1), *((dominant, aggregate) if self.policy == "lt-drf" else (aggregate, 0))

    def run(self):
        problem, past = self.problem, self.past
        past.elapsed += past.step
        for i in range(problem.t):
            for r, amount in enumerate(self.alone_in_step(i)):
                past.alone[i][r] += amount * past.step
        received = self.hand_out()
        for i in range(problem.t):
            pending = any(problem.tasks[j] > 0 for j in self.queue(i))
            waits = pending and i not in received
            past.waiting[i] = past.waiting[i] + past.step if waits else Fraction(0)
        return self.count

    def hand_out(self):
        """Launch tasks until none fits. Return the tenants that have received one."""
        problem, past = self.problem, self.past
        received = set()
        for second in (False, True):
            tenants = [i for i in range(problem.t) if self.second[i] == second]
            starved = [
                i
                for i in tenants
                if self.timeout is not None and past.waiting[i] >= exact(self.timeout)
            ]
            while True:
                first = [i for i in starved if i not in received and self.next_task(i)]
                active = first or [i for i in tenants if self.next_task(i)]
                if not active:
                    break
                tree = PlainTree(problem, int(second))
                i = tree.next(
                    active,
                    lambda i: self.keys([i], self.weight[i]),
                    lambda group, below, tree=tree: self.keys(below, tree.weight[group]),
                )
                j, server = self.next_task(i)
                self.launched.append((j, server))
                self.count[j] += 1
                received.add(i)
                for r, d in enumerate(self.demand[j]):
                    self.left[server][r] -= d
                    past.used[i][r] += d * past.step
        return received


def weights_of(problem, total):
    """Effective weights and who is served second (policies §1.3)."""
    factor = [exact(w) for w in problem.weight]
    derived = factor
    if problem.weights_mode == "contribution":
        derived = []
        for i in range(problem.t):
            contributed = [Fraction(0)] * problem.m
            for row in range(problem.k):
                if problem.contributed_by[row] == i:
                    for r in range(problem.m):
                        amount = exact(problem.capacity[row, r]) * int(problem.server_count[row])
                        contributed[r] += amount
            share = max((c / s for c, s in zip(contributed, total, strict=True) if s), default=0)
            derived.append(share * factor[i])
        if not any(w > 0 for w, b in zip(derived, problem.best_effort, strict=True) if not b):
            derived = factor
    second = [bool(b) or w <= 0 for w, b in zip(derived, problem.best_effort, strict=True)]
    weight = [f if s else d for f, d, s in zip(factor, derived, second, strict=True)]
    return weight, second
