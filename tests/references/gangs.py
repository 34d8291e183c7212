"""Whole tasks of several pieces, placed one piece at a time in rational arithmetic."""

from fractions import Fraction

from tests.references.filling import SplitMix64, choose
from tests.references.groups import PlainTree, largest_use
from tests.references.limits import is_below, matches
from tests.references.long_term import Step
from tests.references.numbers import exact, exact_weights


class Pool:
    """Servers, and limits, with what they have left.

    Servers are numbered row by row, without rows that offer nothing.
    """

    def __init__(self, problem, rule, seed):
        self.problem, self.rule = problem, rule
        self.row_of, self.left = [], []
        for row in range(problem.k):
            if problem.contributed_only[row] or not problem.capacity[row].any():
                continue
            for _ in range(int(problem.server_count[row])):
                self.row_of.append(row)
                self.left.append([exact(c) for c in problem.capacity[row]])
        self.totals = [sum(server[r] for server in self.left) for r in range(problem.m)]
        self.limits = [
            (limit, {r: exact(a) for r, a in enumerate(limit.amount.tolist()) if a < float("inf")})
            for limit in problem.limits
        ]
        self.random = SplitMix64(seed)
        self.most_placed = 0  # pieces of tasks that did not fit

    def room(self, j, demand, server):
        labels, selector = (
            self.problem.server_labels[self.row_of[server]],
            self.problem.selectors[j],
        )
        if not all(labels.get(label) in values for label, values in selector.items()):
            return False
        return all(d <= c for d, c in zip(demand, self.left[server], strict=True))

    def fits(self, j, demand, server):
        return self.room(j, demand, server) and all(
            demand[r] <= amount
            for limit, amounts in self.limits
            if self._counts(limit, j, server)
            for r, amount in amounts.items()
        )

    def _counts(self, limit, j, server):
        return matches(self.problem, limit, self.row_of[server]) and is_below(
            self.problem, limit, j
        )

    def best(self, j, demand, servers):
        """Return the server for one piece, None if it fits on none of some servers."""
        probes = []
        if self.rule == "two-choices":
            probes = [int(self.random.draw() * len(self.left)) for _ in range(2)]
        candidates = [server for server in servers if self.fits(j, demand, server)]
        if not candidates:
            return None
        return choose(self.rule, demand, candidates, self.left, self.totals, probes)

    def take(self, j, demand, server, sign=1):
        self.left[server] = [c - sign * d for c, d in zip(self.left[server], demand, strict=True)]
        for limit, amounts in self.limits:
            if self._counts(limit, j, server):
                for r in amounts:
                    amounts[r] -= sign * demand[r]


def kinds_of(problem, j, totals):
    """Return number, demand and the index of each kind of pieces, the larger kind first."""
    gang = problem.gangs.get(j)
    if gang is None:
        return [(1, [exact(d) for d in problem.demand[j]], 0)]
    kinds = [
        (int(count), [exact(d) for d in demand], position)
        for position, (count, demand) in enumerate(zip(gang.count, gang.demand, strict=True))
    ]
    return sorted(
        kinds,
        key=lambda kind: (
            -max((d / c for d, c in zip(kind[1], totals, strict=True) if c), default=Fraction(0))
        ),
    )


def zone_of(labels, label):
    """Return the value of a label in its cluster, None for servers without the label."""
    if not label:
        return ""
    return (labels.get("cluster"), labels[label]) if label in labels else None


def can_start(pool, j, servers=None):
    """Return True if all pieces of each kind by itself have room on empty servers, or some of them."""
    problem, gang = pool.problem, pool.problem.gangs.get(j)
    for count, demand, _ in kinds_of(problem, j, pool.totals):
        places = {}
        for server, row in enumerate(pool.row_of):
            if servers is not None and server not in servers:
                continue
            value = zone_of(problem.server_labels[row], gang.together) if gang else ""
            if value is not None and pool.room(j, demand, server):
                fit = min(c // d for c, d in zip(pool.left[server], demand, strict=True) if d)
                if gang and gang.per_server:
                    fit = min(fit, gang.per_server)
                places[value] = places.get(value, 0) + fit
        if max(places.values(), default=0) < count:
            return False
    return True


def launch(pool, j, at_once, servers=None, totals=None):
    """Return kind and server of each piece of tasks that start at once, or None.

    Args:
        servers: on which they may run; None for all.
        totals: by which the larger kind of pieces is the first; None for those of the pool.
    """
    kinds = kinds_of(pool.problem, j, pool.totals if totals is None else totals)
    servers = list(range(len(pool.left))) if servers is None else servers
    gang = pool.problem.gangs.get(j)
    cluster = [pool.problem.server_labels[row].get("cluster", "") for row in pool.row_of]
    if at_once == 1 or not gang.together or len(set(cluster)) == 1:
        return launch_tasks(pool, j, kinds, at_once, servers)
    untried = [
        s
        for s in servers
        if zone_of(pool.problem.server_labels[pool.row_of[s]], gang.together) is not None
    ]
    while True:
        first = pool.best(j, kinds[0][1], untried)
        if first is None:
            return None
        same = [s for s in servers if cluster[s] == cluster[first]]
        launched = launch_tasks(pool, j, kinds, at_once, same)
        if launched is not None:
            return launched
        untried = [s for s in untried if s not in same]


def launch_tasks(pool, j, kinds, at_once, servers):
    """Return kind and server of each piece of tasks on some servers, or None."""
    launched = []
    for _ in range(at_once):
        placed = launch_task(pool, j, kinds, servers, len(launched))
        if placed is None:
            pool.most_placed = max(pool.most_placed, len(launched))
            undo(pool, j, launched)
            return None
        launched += placed
    return launched


def launch_task(pool, j, kinds, servers, before):
    """Return kind, server and demand of each piece of one task beside pieces before it, or None."""
    gang = pool.problem.gangs.get(j)
    if gang is None or not gang.together:
        return place(pool, j, kinds, gang, servers, before)
    value = [zone_of(pool.problem.server_labels[row], gang.together) for row in pool.row_of]
    untried = {value[server] for server in servers} - {None}
    while True:
        first = pool.best(j, kinds[0][1], [s for s in servers if value[s] in untried])
        if first is None:
            return None
        untried.discard(value[first])
        same = [server for server in servers if value[server] == value[first]]
        placed = place(pool, j, kinds, gang, same, before)
        if placed is not None:
            return placed


def place(pool, j, kinds, gang, servers, before):
    placed, most = [], gang.per_server if gang else 0
    for count, demand, kind in kinds:
        for _ in range(count):
            here = [server for _, server, _ in placed]
            open_ = [s for s in servers if not most or here.count(s) < most]
            server = pool.best(j, demand, open_)
            if server is None:
                pool.most_placed = max(pool.most_placed, before + len(placed))
                undo(pool, j, placed)
                return None
            pool.take(j, demand, server)
            placed.append((kind, server, demand))
    return placed


def undo(pool, j, placed):
    for _, server, used in placed:
        pool.take(j, used, server, -1)


def fill_gangs(problem, rule, seed=0, kept=(), *, parts=(), before=(), started=None):
    """Return (workload, kind, server) of every piece in order, and the tasks of workloads.

    Args:
        kept: (workload, kind, server) of pieces that run before everything else.
        parts: (workload, rows, tasks) that are guaranteed; before: pieces of guaranteed tasks that run
            before these; started: how many of these tasks are of each part.
    """
    pool = Pool(problem, rule, seed)
    weights, totals = exact_weights(problem), pool.totals
    share = [
        max(exact(d) / c if c else Fraction(0) for d, c in zip(row, totals, strict=True))
        for row in problem.demand
    ]
    runnable = {j for j in range(problem.n) if not problem.out_of_range[j] and can_start(pool, j)}
    log, count, given = [*before, *kept], [0] * problem.n, [0] * problem.n
    servers = [[s for s, row in enumerate(pool.row_of) if row in rows] for _, rows, _ in parts]
    rising = [
        at
        for at, (j, _, _) in enumerate(parts)
        if not problem.out_of_range[j] and can_start(pool, j, servers[at])
    ]
    for tasks, (j, kind, server) in [
        *((given, each) for each in before),
        *((count, each) for each in kept),
    ]:
        gang = problem.gangs.get(j)
        demand = problem.demand[j] if gang is None else gang.demand[kind]
        pool.take(j, [exact(d) for d in demand], server)
        if kind == 0:
            tasks[j] += Fraction(1, 1 if gang is None else int(gang.count[0]))
    run = [0] * len(parts) if started is None else list(started)
    while rising:
        at = min(rising, key=lambda at: (Fraction(run[at]) / Fraction(parts[at][2]), at))
        j, _, tasks = parts[at]
        placed = launch(pool, j, 1, servers[at]) if run[at] < tasks else None
        if placed is None:
            rising.remove(at)
            continue
        log += [(j, kind, server) for kind, server, _ in placed]
        run[at] += 1
        given[j] += 1
    pool.random = SplitMix64(seed)
    beside = [0] * problem.n
    if problem.count_guaranteed:
        count = [c + g for c, g in zip(count, given, strict=True)]
    else:
        beside = given
    most = [tasks - b for tasks, b in zip(problem.tasks, beside, strict=True)]
    for stage in (False, True):
        waiting = {
            i: sorted(
                (j for j in runnable if problem.workload_tenant[j] == i),
                key=lambda j: (-problem.priority[j], j),
            )
            for i in range(problem.t)
            if bool(problem.second_stage[i]) == stage
        }
        tree = PlainTree(problem, int(stage))
        while waiting:
            tenant = tree.next(
                waiting,
                lambda i: (
                    sum(
                        (count[j] * share[j] for j in runnable if problem.workload_tenant[j] == i),
                        Fraction(0),
                    )
                    / weights[i],
                ),
                lambda group, below, tree=tree: (
                    largest_use(problem, tree, below, count) / tree.weight[group],
                ),
            )
            if not waiting[tenant]:
                del waiting[tenant]
                continue
            j = waiting[tenant][0]
            gang = problem.gangs.get(j)
            at_once = gang.at_least if gang and not count[j] else 1
            placed = None
            if count[j] + at_once <= most[j]:
                placed = launch(pool, j, at_once)
            if placed is None:
                waiting[tenant].pop(0)
                continue
            log += [(j, kind, server) for kind, server, _ in placed]
            count[j] += at_once
    count = [c + b for c, b in zip(count, beside, strict=True)]
    return (log, count, given) if parts or before else (log, count)


class GangStep(Step):
    """One step of a long-term policy that places tasks of several pieces by affinity.

    A workload whose task does not fit at its tenant's turn runs no more in the step. ``launched`` has
    the workload, kind and server of each piece, those of ``kept`` first, which run before all others.
    """

    def __init__(self, problem, policy, past, timeout=None, cap=None, kept=()):
        super().__init__(problem, policy, past, "affinity", timeout, cap)
        self.pool = Pool(problem, "affinity", 0)
        self.runnable = [
            not problem.out_of_range[j] and can_start(self.pool, j) for j in range(problem.n)
        ]
        self.kept = kept

    def keep(self):
        """Take what kept pieces use."""
        for j, kind, server in self.kept:
            gang = self.problem.gangs.get(j)
            demand = self.problem.demand[j] if gang is None else gang.demand[kind]
            self.pool.take(j, [exact(d) for d in demand], server)
            self.launched.append((j, kind, server))
            if kind == 0:
                self.count[j] += Fraction(1, 1 if gang is None else int(gang.count[0]))
        for j, tasks in enumerate(self.count):
            for r, d in enumerate(self.demand[j]):
                self.past.used[self.problem.workload_tenant[j]][r] += tasks * d * self.past.step

    def hand_out(self):
        self.keep()
        problem, past = self.problem, self.past
        received = {int(problem.workload_tenant[j]) for j, tasks in enumerate(self.count) if tasks}
        waiting = {i: self.queue(i) for i in range(problem.t)}
        for second in (False, True):
            tenants = {i for i in waiting if self.second[i] == second}
            starved = set()
            if self.timeout is not None:
                starved = {i for i in tenants if past.waiting[i] >= exact(self.timeout)}
            self.take_turns(starved, second, waiting, received, once=True)
            self.take_turns(tenants, second, waiting, received, once=False)
        return received

    def take_turns(self, tenants, second, waiting, received, *, once):
        problem, past = self.problem, self.past
        going = {i for i in tenants if waiting[i]}
        tree = PlainTree(problem, int(second))
        while going:
            i = tree.next(
                going,
                lambda i: self.keys([i], self.weight[i]),
                lambda group, below: self.keys(below, tree.weight[group]),
            )
            if self.is_beyond(i):
                going.discard(i)
                continue
            j = waiting[i][0]
            gang = problem.gangs.get(j)
            at_once = gang.at_least if gang and not self.count[j] else 1
            placed = None
            if self.count[j] + at_once <= problem.tasks[j]:
                placed = launch(self.pool, j, at_once)
            if placed is None:
                waiting[i].pop(0)
            else:
                self.launched += [(j, kind, server) for kind, server, _ in placed]
                self.count[j] += at_once
                received.add(i)
                for r, d in enumerate(self.demand[j]):
                    past.used[i][r] += at_once * d * past.step
            if not waiting[i] or (placed and once):
                going.discard(i)
