"""A simulation in rational arithmetic, sentence by sentence: slow, plainly right.

Nothing is carried from event to event but who ran when: at every hand-out the window's amounts are
added up anew from all stretches of time.
"""

import math
from fractions import Fraction

from tests.references.filling import exact
from tests.references.long_term import Past, Step


class Simulated:
    """start[k], end[k] of every task; used[i][r], alone[i][r] over all of it."""

    def __init__(self, problem, trace, policy, window, step, until=math.inf):
        self.problem, self.policy, self.window = problem, policy, window
        self.step = exact(step)
        # What weights, partitions and queues are is said once, in the reference of a step.
        self.pool = Step(problem, policy, Past(problem.t, problem.m, step), "pool")
        self.submit = [exact(s) for s in trace.submit]
        self.duration = [exact(d) for d in trace.duration]
        self.job = trace.workload.tolist()
        self.start, self.end = [None] * len(self.job), [None] * len(self.job)
        self.stretches = []  # (from, to, used, alone): rates of all tenants
        self.run(until)

    def run(self, until):
        now = None
        while True:
            times = [s for s in self.submit if now is None or s > now]
            times += [e for e in self.end if e is not None and e > now]
            if not times or min(times) > until:
                if until < math.inf and now is not None:
                    self.stretch(now, exact(until))
                return
            if now is not None:
                self.stretch(now, min(times))
            now = min(times)
            self.hand_out(now)

    def stretch(self, begin, end):
        used, alone = self.rates(begin)
        self.stretches.append((begin, end, used, alone))

    def of(self, j, now, running):
        """Tasks of workload ``j`` that run, or wait, in the order of submission."""
        tasks = sorted(range(len(self.job)), key=lambda k: (self.submit[k], k))
        return [
            k
            for k in tasks
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
        alone = [step.alone_in_step(i) for i in range(problem.t)]
        return used, alone

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

    def next_task(self, i, now):
        for j in self.pool.queue(i):
            waiting = self.of(j, now, False)
            if waiting and len(self.of(j, now, True)) < self.problem.tasks[j]:
                left = self.left(now)
                if all(d <= free for d, free in zip(self.pool.demand[j], left, strict=True)):
                    return waiting[0]
        return None

    def left(self, now):
        left = self.pool.total[:]
        for j in range(self.problem.n):
            for r in range(self.problem.m):
                left[r] -= len(self.of(j, now, True)) * self.pool.demand[j][r]
        return left

    def hand_out(self, now):
        shape = range(self.problem.t), range(self.problem.m)
        past = [
            [[self.remembered(which, now, i, r) for r in shape[1]] for i in shape[0]]
            for which in (0, 1)
        ]
        for second in (False, True):
            while True:
                active = [
                    i
                    for i in range(self.problem.t)
                    if self.pool.second[i] == second and self.next_task(i, now) is not None
                ]
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
                task = self.next_task(min(active, key=lambda i: self.key(i, active, now)), now)
                self.start[task] = now
                self.end[task] = now + self.duration[task]

    def key(self, i, active, now):
        if self.policy != "drf":
            return self.pool.key(i, active)
        share = Fraction(0)
        for j in self.pool.queue(i):
            pairs = zip(self.pool.demand[j], self.pool.total, strict=True)
            dominant = max(d / c for d, c in pairs if c)
            share += len(self.of(j, now, True)) * dominant
        return share / self.pool.weight[i], i

    def total(self, which, i, r):
        return sum((s[1] - s[0]) * s[2 + which][i][r] for s in self.stretches)


class Pending:
    """The problem, but for what is pending now."""

    def __init__(self, problem, tasks):
        self.whole, self.tasks = problem, tasks

    def __getattr__(self, name):
        return getattr(self.whole, name)


def decayed(seconds, half_life):
    return Fraction(2 ** float(-seconds / half_life))
