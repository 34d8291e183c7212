"""A simulation in rational arithmetic, sentence by sentence: slow, plainly right.

Nothing is carried from event to event but who ran when and where: at every hand-out the window's
amounts are added up anew from all stretches of time, and every server from the tasks that run on it.
"""

import math
from fractions import Fraction

import numpy as np

from tests.references.filling import SplitMix64, choose
from tests.references.groups import PlainTree, largest_use
from tests.references.limits import is_below, matches
from tests.references.long_term import Past, Step, weights_of
from tests.references.numbers import exact, exact_weights
from tests.references.simulation_floors import FloorsNow

ONE_POOL = ("drf", "asset", "single-resource")
LONG_TERM = ("h-mrf", "lt-drf", "lt-af")


class Simulated:
    """start[k], end[k], server[k] of every task; used[i][r], alone[i][r] over all of it."""

    def __init__(
        self,
        problem,
        trace,
        policy,
        window,
        step,
        until=math.inf,
        options=None,
        changes=(),
        terms=(),
    ):
        self.problem, self.policy, self.window = problem, policy, window
        self.options, self.step = options or {}, exact(step)
        self.submit = [exact(s) for s in trace.submit]
        self.duration = [exact(d) for d in trace.duration]
        self.job = trace.workload.tolist()
        self.by_time = sorted(range(len(self.job)), key=lambda k: (self.submit[k], k))
        self.start, self.end = [None] * len(self.job), [None] * len(self.job)
        self.server = [None] * len(self.job)
        self.stretches = []  # (from, to, used, alone): rates of all tenants
        self.random = SplitMix64(self.options.get("seed", 0))
        self.idle = {}
        self.terms = [(exact(time), later) for time, later in terms]
        self.changes = [(exact(time), server, joins) for time, server, joins in changes]
        self.one_pool = policy in ONE_POOL or self.options.get("placement") == "pool"
        # What weights, partitions and queues are is said once, in the reference of a step.
        past = Past(problem.t, problem.m, step)
        self.pool = Step(problem, policy, past, "pool" if self.one_pool else "servers")
        self.all_servers()
        self.own_servers()
        self.run(until)

    def all_servers(self):
        problem = self.problem
        self.capacity, self.row, self.number = [], [], []
        number = 0
        for row in range(problem.k):
            for _ in range(int(problem.server_count[row])):
                if not problem.contributed_only[row] and problem.capacity[row].any():
                    self.capacity.append([exact(c) for c in problem.capacity[row]])
                    self.row.append(row)
                    self.number.append(number)
                number += 1
        self.demand = [[exact(d) for d in row] for row in problem.demand]
        self.own = None
        self.size = self.capacity  # of each server in what tasks take of it
        if self.policy == "slots":
            self.in_slots()

    def in_slots(self):
        """Servers and tasks in slots of the largest server."""
        total = [sum(c[r] for c in self.capacity) for r in range(self.problem.m)]
        parts = self.options.get("slots_per_largest_server", 14)
        self.size = []
        if not self.capacity:
            return
        largest = max(
            self.capacity, key=lambda s: sum(c / t for c, t in zip(s, total, strict=True) if t)
        )
        slot = [c / parts for c in largest]
        cut = [r for r, size in enumerate(slot) if size]
        self.size = [[Fraction(min(c[r] // slot[r] for r in cut))] for c in self.capacity]
        self.demand = [
            [Fraction(max(-(-row[r] // slot[r]) for r in cut))]
            if not any(d and r not in cut for r, d in enumerate(row))
            else [Fraction(10**9)]
            for row in self.demand
        ]

    def own_servers(self):
        """The servers of each tenant, where it is alone."""
        problem = self.problem
        if self.policy == "static":
            weight = [
                Fraction(0) if problem.second_stage[i] else w
                for i, w in enumerate(exact_weights(problem))
            ]
            weight = weight if any(weight) else exact_weights(problem)
            self.own, self.row, size = [[] for _ in weight], [], []

            def add(i, row, amount, count):
                for _ in range(int(count)):
                    self.own[i].append(len(size))
                    self.row.append(row)
                    size.append(amount)

            for row in range(problem.k):
                amount, owner = (
                    [exact(c) for c in problem.capacity[row]],
                    problem.contributed_by[row],
                )
                number = int(problem.server_count[row])
                if problem.contributed_only[row] or not any(amount):
                    continue
                if owner >= 0:
                    add(owner, row, amount, number)
                    continue
                part = [number * w / sum(weight) for w in weight]
                owed = [p - p // 1 for p in part]
                for i, p in enumerate(part):
                    add(i, row, amount, p // 1)
                    if owed[i]:
                        cut = [c * owed[i] / sum(owed) for c in amount]
                        add(i, row, cut, number - sum(p // 1 for p in part))
            self.capacity = self.size = size
            self.number = [-1] * len(size)
        if self.policy == "dedicated":
            random = np.random.default_rng(self.options.get("seed", 0))
            count = len(self.capacity)
            each = min(-(-count // problem.t), count)
            self.own = [sorted(random.choice(count, each, replace=False)) for _ in range(problem.t)]

    def run(self, until):
        now = None
        while True:
            times = [s for s in self.submit if now is None or s > now]
            times += [e for e in self.end if e is not None and e > now]
            times += [c[0] for c in (*self.changes, *self.terms) if now is None or c[0] > now]
            if not times or min(times) > until:
                if until < math.inf and now is not None:
                    self.stretch(now, exact(until))
                return
            if now is not None:
                self.stretch(now, min(times))
            now = min(times)
            self.look(now)
            self.hand_out(now)

    def look(self, now):
        """Which servers are there, which terms count, and all that refers to them."""
        for time, later in self.terms:
            if time <= now:
                self.problem = self.pool.problem = later
        there = {}
        for time, server, joins in sorted(self.changes):
            there.setdefault(server, not joins)
            if time <= now:
                there[server] = joins
        self.there = [there.get(number, True) for number in self.number]
        total = [
            sum(c[r] for c, here in zip(self.capacity, self.there, strict=True) if here)
            for r in range(self.problem.m)
        ]
        if self.own is None:
            self.pool.total = [Fraction(t) for t in total]
        self.pool.weight, self.pool.second = weights_of(self.problem, self.pool.total)
        each = None
        if self.options.get("share") == "alone":
            each = [self.share(j) for j in range(self.problem.n)]
        self.trees = [
            PlainTree(self.problem, stage, totals=self.pool.total[:], each=each) for stage in (0, 1)
        ]
        self.pool.tree = self.trees[0]

    def stretch(self, begin, end):
        used, alone = self.rates(begin)
        self.stretches.append((begin, end, used, alone))

    def of(self, j, now, running):
        """Tasks of workload ``j`` that run, or wait, in the order of submission."""
        return [
            k
            for k in self.by_time
            if self.job[k] == j
            and self.submit[k] <= now
            and (self.start[k] is not None) == running
            and (not running or self.end[k] > now)
        ]

    def rates(self, now):
        problem, step = self.problem, self.pool
        used = [[Fraction(0)] * problem.m for _ in range(problem.t)]
        pending = []
        for j in range(problem.n):
            running = len(self.of(j, now, True))
            waits = len(self.of(j, now, False))
            pending.append(min(running + waits, problem.tasks[j]))
            for r in range(problem.m):
                used[problem.workload_tenant[j]][r] += running * step.demand[j][r]
        step.problem = Pending(problem, pending)
        alone = [
            [Fraction(0)] * problem.m if not self.queue(i) else self.alone(i)
            for i in range(problem.t)
        ]
        return used, alone

    def alone(self, i):
        before, self.pool.runnable = self.pool.runnable, self.runnable()
        amount = self.pool.alone_in_step(i)
        self.pool.runnable = before
        return amount

    def runnable(self):
        """A workload that fits on no server, even if all are there and empty, is left out."""
        return [
            runs and (self.policy != "slots" or any(self.may(j, s) for s in range(len(self.size))))
            for j, runs in enumerate(self.pool.runnable)
        ]

    def queue(self, i):
        runnable = self.runnable()
        return [j for j in self.pool.queue(i) if runnable[j]]

    def remembered(self, which, now, i, r):
        total = Fraction(0)
        for stretch in self.stretches:
            begin, end, rate = stretch[0], stretch[1], stretch[2 + which][i][r]
            if self.window.kind == "decay":
                half = exact(self.window.half_life)
                weight = decayed(now - end, half) - decayed(now - begin, half)
                total += rate * weight * half / Fraction(math.log(2))
            else:
                inside = end - max(begin, self.window_start(now))
                total += rate * max(inside, 0)
        return total

    def window_start(self, now):
        if self.window.kind == "sliding":
            return min(now, now + self.step - exact(self.window.length))
        if self.window.kind == "tumbling":
            return max((b for b in self.window.boundaries if b <= now), default=-(10**9))
        return -(10**9)

    def may(self, j, server):
        """Is the server one that the workload selects, and large enough when it is empty?"""
        labels = self.problem.server_labels[self.row[server]]
        selector = self.problem.selectors[j]
        return all(labels.get(label) in values for label, values in selector.items()) and all(
            d <= c for d, c in zip(self.demand[j], self.size[server], strict=True)
        )

    def left(self, now, tenant):
        """What is left of every server, or of the pool: negative where servers left it.

        Dedicated clouds are looked at one by one: a server may be in several.
        """
        left = [size[:] for size in self.size]
        if self.one_pool:
            left = [self.pool.total[:]]
        for j in range(self.problem.n):
            if self.policy == "dedicated" and self.problem.workload_tenant[j] != tenant:
                continue
            for k in self.of(j, now, True):
                for demand, server in self.pieces_of(k):
                    amount = left[0 if self.one_pool else server]
                    amount[:] = [c - d for c, d in zip(amount, demand, strict=True)]
        return left

    def pieces_of(self, task):
        """Return demand and server of each piece of a running task."""
        return [(self.demand[self.job[task]], self.server[task])]

    def next_task(self, i, now):
        """The task, its workload, the servers on which it fits, what is left; None if none fits."""
        left = self.left(now, i)
        for j in self.queue(i):
            waiting = self.of(j, now, False)
            if not waiting or len(self.of(j, now, True)) >= self.problem.tasks[j]:
                continue
            servers = [
                s
                for s in (range(len(left)) if self.own is None else self.own[i])
                if self.one_pool or (self.there[s] and self.may(j, s))
            ]
            servers = [
                s
                for s in servers
                if all(d <= c for d, c in zip(self.demand[j], left[s], strict=True))
                and not self.exceeds_limit(j, s, now)
            ]
            if servers:
                return waiting[0], j, servers, left
        return None

    def fitting(self, j, now, servers):
        """The servers of some on which the next task of a workload fits."""
        left = self.left(now, self.problem.workload_tenant[j])
        running = len(self.of(j, now, True))
        if not self.of(j, now, False) or running >= self.problem.tasks[j]:
            return []
        return [
            s
            for s in servers
            if (self.one_pool or (self.there[s] and self.may(j, s)))
            and all(d <= c for d, c in zip(self.demand[j], left[s], strict=True))
            and not self.exceeds_limit(j, s, now)
        ]

    def launch(self, j, server, now):
        task = self.of(j, now, False)[0]
        self.server[task], self.start[task] = server, now
        self.end[task] = now + self.duration[task]
        self.idle.pop(self.problem.workload_tenant[j], None)

    def counted(self, j, now):
        """Running tasks that levels count."""
        running = len(self.of(j, now, True))
        return running - (0 if self.problem.count_guaranteed else self.floors.held(j))

    def exceeds_limit(self, j, server, now):
        """Would one more task on a server exceed a limit that counts it there?"""
        problem = self.problem
        for limit in problem.limits:
            if not (is_below(problem, limit, j) and self.counts_on(limit, server)):
                continue
            running = self.counted_by(limit, now)
            for r, amount in enumerate(limit.amount):
                used = sum(demand[r] for demand in running)
                need = exact(problem.demand[j][r])
                if need and math.isfinite(amount) and used + need > exact(amount):
                    return True
        return False

    def counted_by(self, limit, now):
        """Return the demand of each running piece that a limit counts."""
        return [
            demand
            for j in range(self.problem.n)
            if is_below(self.problem, limit, j)
            for k in self.of(j, now, True)
            for demand, server in self.pieces_of(k)
            if self.counts_on(limit, server)
        ]

    def counts_on(self, limit, server):
        return self.one_pool or matches(self.problem, limit, self.row[server])

    def place(self, i, j, servers, left, now):
        rule = self.options.get("placement", "best-fit")
        if self.one_pool or self.policy in ("slots", "static", "ffmra"):
            return servers[0]
        if self.policy == "mrfs":
            return min(servers, key=lambda s: (*self.evenness(j, s, left, now), s))
        total = self.pool.total
        if self.policy == "dedicated":
            total = [sum(self.capacity[s][r] for s in self.own[i]) for r in range(self.problem.m)]
        if self.policy in LONG_TERM:
            rule = "affinity"
        probes = []
        if rule == "two-choices":
            probes = [int(self.random.draw() * len(left)) for _ in range(2)]
        return choose(rule, self.demand[j], servers, left, total, probes)

    def evenness(self, j, server, left, now):
        size = self.size[server]
        present = [r for r, c in enumerate(size) if c]

        def dominant(j):
            share = [d / c if c else Fraction(0) for d, c in zip(self.demand[j], size, strict=True)]
            return share.index(max(share)), max(share)

        hosted, aggregate = [0] * len(size), Fraction(0)
        for other in range(self.problem.n):
            for k in self.of(other, now, True):
                if self.server[k] == server:
                    hosted[dominant(other)[0]] += 1
                    aggregate += dominant(other)[1]
        after = [hosted[r] + (r == dominant(j)[0]) for r in present]
        room = min(left[server][r] / size[r] for r in present)
        return max(after) - min(after), aggregate, -room

    def hand_out(self, now):
        shape = range(self.problem.t), range(self.problem.m)
        past = [
            [[self.remembered(which, now, i, r) for r in shape[1]] for i in shape[0]]
            for which in (0, 1)
        ]
        running = [
            sum(
                len(self.of(j, now, True))
                for j in range(self.problem.n)
                if self.problem.workload_tenant[j] == i
            )
            for i in shape[0]
        ]
        for i in shape[0]:
            if any(self.of(j, now, False) for j in self.queue(i)) and not running[i]:
                self.idle.setdefault(i, now)
            else:
                self.idle.pop(i, None)
        timeout = self.options.get("starvation_timeout")
        self.floors = FloorsNow(self, now)
        self.floors.hand_out()
        for second in (False, True):
            starved = [
                i
                for i in shape[0]
                if timeout is not None and i in self.idle and now - self.idle[i] >= exact(timeout)
            ]
            while True:
                found = {i: self.next_task(i, now) for i in shape[0]}
                active = [
                    i for i in shape[0] if self.pool.second[i] == second and found[i] is not None
                ]
                first = [i for i in starved if i in active]
                active = first or active
                if not active:
                    break
                ahead = self.rates(now)
                self.pool.past.used, self.pool.past.alone = (
                    [
                        [past[w][i][r] + ahead[w][i][r] * self.step for r in shape[1]]
                        for i in shape[0]
                    ]
                    for w in (0, 1)
                )
                i = self.trees[int(second)].next(
                    active,
                    lambda i: self.key(i, now)[:-1],
                    lambda group, below, second=second: self.key_of(
                        below, self.trees[int(second)], group, now
                    ),
                )
                self.begin(i, *found[i], now)
                self.idle.pop(i, None)
                starved = [s for s in starved if s != i]

    def begin(self, i, task, j, servers, left, now):
        self.server[task] = self.place(i, j, servers, left, now)
        self.start[task] = now
        self.end[task] = now + self.duration[task]

    def key(self, i, now):
        if self.policy in LONG_TERM:
            return *self.pool.keys([i], self.pool.weight[i]), i
        share = sum(self.counted(j, now) * self.share(j) for j in self.queue(i))
        return share / self.pool.weight[i], i

    def key_of(self, below, tree, group, now):
        if self.policy in LONG_TERM:
            return tuple(self.pool.keys(below, tree.weight[group]))
        count = [self.counted(j, now) for j in range(self.problem.n)]
        return (largest_use(self.problem, tree, below, count) / tree.weight[group],)

    def share(self, j):
        if self.policy in ("mrfs", "ffmra"):
            return Fraction(1)
        if self.policy == "slots":
            slots = sum(s[0] for s, here in zip(self.size, self.there, strict=True) if here)
            return self.demand[j][0] / max(slots, 1)
        if self.options.get("share") == "alone":
            alone = sum(
                min(c // d for c, d in zip(server, self.demand[j], strict=True) if d)
                for server, here in zip(self.capacity, self.there, strict=True)
                if here
            )
            return Fraction(1, alone) if alone else Fraction(0)
        pairs = zip(self.demand[j], self.pool.total, strict=True)
        shares = [d / c if c else Fraction(0) for d, c in pairs]
        if self.policy == "asset":
            return sum(shares)
        return shares[0] if self.policy == "single-resource" else max(shares)

    def total(self, which, i, r):
        return sum((s[1] - s[0]) * s[2 + which][i][r] for s in self.stretches)

    def numbers(self):
        """Where each task ran, as the problem counts servers; -1 if nowhere in particular."""
        return [-1 if s is None or self.one_pool else self.number[s] for s in self.server]


class Pending:
    """The problem, but for what is pending now."""

    def __init__(self, problem, tasks):
        self.whole, self.tasks = problem, tasks

    def __getattr__(self, name):
        return getattr(self.whole, name)


def decayed(seconds, half_life):
    return Fraction(2 ** float(-seconds / half_life))
