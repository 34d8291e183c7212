"""Guarantees in exact arithmetic: floors, how far they are met, and the rest.

Source: docs/policies/guarantees.md.

Divisible problems have one workload per tenant.
"""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np

from policies import CurrentPlacements, Problem
from policies.model.limits import in_order
from tests.references.exact_program import maximise
from tests.references.filling import fill, stand_alone
from tests.references.groups import (
    PlainServers,
    PlainTree,
    caps_of,
    leximin_in_groups,
    stages_of,
)
from tests.references.kept_tasks import kept_pieces
from tests.references.limits import is_below, matches
from tests.references.numbers import exact, exact_weights


def groups_below(problem, root):
    """Groups strictly below a group."""
    found = set()
    while True:
        more = {
            g
            for g, parent in enumerate(problem.group_parent.tolist())
            if parent == root or parent in found
        } - found
        if not more:
            return sorted(found)
        found |= more


# Whole tasks that a guarantee is divided into, at most.
MOST_DIVIDED = 5_000_000


def dividing(problem, given, mine):
    """Workloads with the fewest tasks, as many as together can have few enough whole tasks."""
    if len(mine) < 2:
        return mine
    named = [r for r, amount in enumerate(given.amount.tolist()) if amount < np.inf]
    sizes = []
    for j in mine:
        gang = problem.gangs.get(j)
        pieces = 1 if gang is None else int(gang.count.sum())
        fitting = math.ceil(
            min(
                # Of the floats, as everywhere: the quotient is that of doubles.
                Fraction(float(given.amount[r] / problem.demand[j, r]))
                for r in named
                if problem.demand[j, r]
            )
        )
        tasks = min([fitting, *([] if problem.tasks[j] == np.inf else [int(problem.tasks[j])])])
        rows = {row for row in range(problem.k) if matches(problem, given, row)}
        below = groups_below(problem, given.node) if given.scope == "group" else ()
        for limit in problem.limits:
            on = {row for row in range(problem.k) if matches(problem, limit, row)}
            inside = {
                "workload": True,
                "tenant": given.scope == "group",
                "group": limit.node in below,
                "lend": False,
            }
            if inside[limit.scope] and is_below(problem, limit, j) and rows <= on:
                for r, amount in enumerate(limit.amount.tolist()):
                    if amount < np.inf and problem.demand[j, r]:
                        tasks = min(tasks, math.ceil(amount / problem.demand[j, r]))
        sizes.append((pieces * tasks, j, pieces * fitting))
    kept = []
    for _, j, _ in sorted(sizes):
        some = [size for size in sizes if size[1] in {*kept, j}]
        together = sum(tasks for tasks, _, _ in some)
        by_amount = len(named) * max(fitting for _, _, fitting in some)
        if min(together, by_amount) <= MOST_DIVIDED:
            kept.append(j)
    return sorted(kept)


def pool_of(problem, given, tree, pooled, *, whole=False):
    """(pool, workloads): one server of the amount, for what is below and may run on the servers."""
    rows = [row for row in range(problem.k) if matches(problem, given, row)]
    mine = [
        j
        for j in range(problem.n)
        if is_below(problem, given, j)
        and any(d for d, a in zip(problem.demand[j], given.amount, strict=True) if a < np.inf)
        and (pooled or can_run_on(problem, j, rows))
        and (not pooled or all(tree.totals[r] for r in np.flatnonzero(problem.demand[j])))
    ]
    if whole:
        mine = dividing(problem, given, mine)
    named = np.flatnonzero(given.amount < np.inf)
    in_group = given.scope == "group"
    groups = groups_below(problem, given.node) if in_group else []
    inside = {given.node, *groups}
    tenants = [
        i
        for i in range(problem.t)
        if (int(problem.tenant_group[i]) in inside if in_group else i == given.node)
    ]
    group_at = {g: at for at, g in enumerate(groups)}
    tenant_at = {i: at for at, i in enumerate(tenants)}
    job_at = {j: at for at, j in enumerate(mine)}
    at = {"group": group_at, "tenant": tenant_at if in_group else {}, "workload": job_at}

    def inside(amounts, counts):
        return [
            each
            for each in amounts
            if each.scope != "lend"
            and each.node in at[each.scope]
            and counts({row for row in range(problem.k) if matches(problem, each, row)})
        ]

    def moved(amounts, some):
        return in_order(
            replace(each, node=at[each.scope][each.node], amount=amount[used], where={})
            for each in amounts
            for amount in [np.where(np.isin(np.arange(problem.m), some), each.amount, np.inf)]
            if (amount[used] < np.inf).any()
        )

    limits = inside(problem.limits, lambda of: of >= set(rows))
    # Resources that only limits name are there for them, and never run out.
    plenty = {r: given.amount[r] for r in named}
    for r in set(range(problem.m)) - set(named.tolist()):
        if any(each.amount[r] < np.inf for each in limits) and any(problem.demand[mine, r]):
            most = [
                min(
                    problem.demand[j, r]
                    / max(problem.demand[j, n] / given.amount[n] for n in named),
                    problem.totals[r],
                )
                for j in mine
                if all(given.amount[n] or not problem.demand[j, n] for n in named)
            ]
            plenty[r] = 2.0 * len(named) * max(most, default=0) or 1.0
    used = np.array(sorted(plenty))

    weights = exact_weights(problem)
    pool = Problem.create(
        resources=[problem.resources[r] for r in used],
        capacity=[[plenty[r] for r in used.tolist()]],
        tenants=[problem.tenants[i] for i in tenants],
        weight=[float(weights[i]) for i in tenants],
        best_effort=[bool(stages_of(problem)[i]) for i in tenants],
        tenant_tier=problem.tenant_tier[tenants],
        tenant_group=[group_at.get(int(problem.tenant_group[i]), -1) for i in tenants],
        groups=[problem.groups[g] for g in groups],
        group_parent=[group_at.get(int(problem.group_parent[g]), -1) for g in groups],
        group_weight=[float(tree.weight["group", g]) for g in groups],
        group_tier=problem.group_tier[groups],
        workload_tenant=[tenant_at[int(problem.workload_tenant[j])] for j in mine],
        workload_names=[problem.workload_names[j] for j in mine],
        demand=problem.demand[mine][:, used].reshape(len(mine), len(used)),
        tasks=problem.tasks[mine],
        priority=problem.priority[mine],
        count_guaranteed=problem.count_guaranteed,
        limits=moved(limits, used),
        guarantees=moved(inside(problem.guarantees, lambda of: of <= set(rows)), named),
    )
    return pool, mine, frozenset(rows)


def may_use(problem, j, row, demand=None):
    """Whether a part of a task, or of a piece with some demand, can run on the servers of a row."""
    labels = problem.server_labels[row]
    demand = problem.demand[j] if demand is None else demand
    return (
        not problem.contributed_only[row]
        and all(labels.get(label) in values for label, values in problem.selectors[j].items())
        and all(c for c, d in zip(problem.capacity[row], demand, strict=True) if d)
    )


def can_run_on(problem, j, rows):
    """Whether each piece of a task can run on one of some rows, all with one value of its label."""
    gang = problem.gangs.get(j)
    if gang is None:
        return any(may_use(problem, j, row) for row in rows)
    value = {row: problem.server_labels[row].get(gang.together) for row in rows}
    groups = [set(rows)]
    if gang.together:
        groups = [{r for r in rows if value[r] == one} for one in set(value.values()) - {None}]
    return any(
        all(any(may_use(problem, j, row, piece) for row in group) for piece in gang.demand)
        for group in groups
    )


def own_pool(problem, tenant):
    """(pool, workloads) of a tenant alone on its servers."""
    rows = [
        row
        for row in range(problem.k)
        if problem.contributed_by[row] == tenant and not problem.contributed_only[row]
    ]
    mine = [j for j in range(problem.n) if problem.workload_tenant[j] == tenant]
    return Problem.create(
        resources=problem.resources,
        capacity=problem.capacity[rows],
        server_count=problem.server_count[rows],
        server_labels=[problem.server_labels[row] for row in rows],
        tenants=[problem.tenants[tenant]],
        workload_tenant=[0] * len(mine),
        workload_names=[problem.workload_names[j] for j in mine],
        demand=problem.demand[mine].reshape(len(mine), problem.m),
        tasks=problem.tasks[mine],
        priority=problem.priority[mine],
        selectors=[problem.selectors[j] for j in mine],
        gangs={at: problem.gangs[j] for at, j in enumerate(mine) if j in problem.gangs},
    ), mine


def parts_of(problem, floors, on_own):
    """(workload, rows, tasks): floors less what is guaranteed already on some of their rows.

    Args:
        floors: (number, workloads, rows, tasks of each); on_own: (n) by rows, tasks there already.
    """
    given, found = [], []
    left = [
        float("inf") if most == float("inf") else Fraction(int(most)) - sum(on_own[j].values())
        for j, most in enumerate(problem.tasks.tolist())
    ]

    def first(floor):
        number, _, rows, _ = floor
        return sum(int(problem.server_count[row]) for row in rows), number

    for number, jobs, rows, tasks in sorted(floors, key=first):
        for j, floor in zip(jobs, tasks, strict=True):
            have = sum(
                part for other, others, part in given if other == j and others <= rows
            ) + sum(count for used, count in on_own[j].items() if used <= rows)
            missing = min(floor - have, left[j])
            if missing > 0:
                left[j] -= missing
                found.append((number, j, rows, missing))
        given += [(j, rows, part) for at, j, rows, part in found if at == number]
    return [part[1:] for part in sorted(found, key=lambda part: part[:2])]


class ServersWithFloors(PlainServers):
    """What is feasible beside floors: at least so much of a workload on some rows."""

    floors = ()

    def program(self, share, rates, length, floors):
        """How far shares (or, by their ``rates``, floors) can rise, at most ``length``."""
        n = len(self.pairs) + 1
        rows, right, signs = [], [], []

        def add(row, amount, sign):
            rows.append(row)
            right.append(amount)
            signs.append(sign)

        unit = {j: max(self.tree.task(j)) for j in self.jobs}
        for at, room in enumerate(self.rooms):
            for r, amount in enumerate(room):
                takes = [
                    self.tree.task(j)[r] / unit[j] if where == at else 0 for j, where in self.pairs
                ]
                if any(takes):
                    add([*takes, 0], amount, 1)
        for j in self.jobs:
            if self.problem.tasks[j] < float("inf"):
                mine = [int(k == j) for k, _ in self.pairs]
                add([*mine, 0], int(self.problem.tasks[j]) * unit[j], 1)
        for limit in self.problem.limits:
            for r, amount in enumerate(limit.amount.tolist()):
                if amount < float("inf") and self.tree.totals[r]:
                    takes = [
                        self.tree.task(j)[r] / unit[j]
                        if is_below(self.problem, limit, j) and self._counts(limit, where)
                        else 0
                        for j, where in self.pairs
                    ]
                    add([*takes, 0], exact(amount) / self.tree.totals[r], 1)
        for j, where, amount, rate in floors:
            here = [int(k == j and (self.pooled or row in where)) for k, row in self.pairs]
            add([*here, -rate], amount, -1)
        for leaf, has in share.items():
            mine = [int(self.problem.workload_tenant[j] == leaf[1]) for j, _ in self.pairs]
            if any(mine):
                add([*mine, -rates.get(leaf, Fraction(0))], has, 0)
        if length is not None:
            add([0] * (n - 1) + [1], length, 1)
        extra = [i for i, sign in enumerate(signs) if sign]
        rows = [[*row, *(signs[k] * int(i == k) for k in extra)] for i, row in enumerate(rows)]
        return maximise([0] * (n - 1) + [1] + [0] * len(extra), rows, right)

    def furthest(self, share, rates, length):
        return self.program(share, rates, length, self.floors)


def met(servers, parts):
    """The fraction of each part that can be had: all rise together, those that cannot are left."""
    unit = [max(servers.tree.task(j)) if j in servers.jobs else Fraction(0) for j, _, _ in parts]
    reached = [Fraction(0)] * len(parts)
    rising = [at for at, size in enumerate(unit) if size]
    while rising:

        def rows(rate):
            """What each floor has on its servers, with the floors on some of them."""
            has = [
                (j, where, reached[at] * tasks * unit[at], tasks * unit[at] * rate[at])
                for at, (j, where, tasks) in enumerate(parts)
                if unit[at]
            ]
            return [
                (
                    j,
                    where,
                    sum(a for i, others, a, _ in has if i == j and others <= where),
                    sum(r for i, others, _, r in has if i == j and others <= where),
                )
                for j, where, _, _ in has
            ]

        everybody = {at: int(at in rising) for at in range(len(parts))}
        more = servers.program({}, {}, 1 - reached[rising[0]], rows(everybody))
        for at in rising:
            reached[at] += more
        if reached[rising[0]] == 1:
            break
        rising = [
            at
            for at in rising
            if servers.program(
                {}, {}, Fraction(1), rows({k: int(k == at) for k in range(len(parts))})
            )
        ]
    return reached


def leximin_with_floors(problem, *, pooled=False):
    """(fractions met of each part, (t) exact shares)."""
    tree = PlainTree(problem, pooled=pooled)
    floors = []
    for number, given in enumerate(problem.guarantees):
        pool, jobs, rows = pool_of(problem, given, tree, pooled)
        tasks = tasks_in(pool, pooled=True)
        floors.append((number, jobs, rows, tasks))
    for tenant in np.flatnonzero(problem.own_servers).tolist():
        pool, jobs = own_pool(problem, tenant)
        everywhere = frozenset(range(problem.k))
        floors.append((len(floors), jobs, everywhere, tasks_in(pool, pooled=pooled)))
    parts = parts_of(problem, floors, [{} for _ in range(problem.n)])
    servers = ServersWithFloors(problem, tree, pooled)
    fractions = met(servers, parts)
    unit = [max(tree.task(j)) for j in range(problem.n)]
    kept = [
        (j, rows, fraction * tasks * unit[j], Fraction(0))
        for (j, rows, tasks), fraction in zip(parts, fractions, strict=True)
    ]
    # A floor on several sets of servers is kept on each, and on all of them together.
    kept = [
        (j, rows, sum(a for i, others, a, _ in kept if i == j and others <= rows), Fraction(0))
        for j, rows, _, _ in kept
    ]
    floor = {("tenant", i): Fraction(0) for i in range(problem.t)}
    for (j, _, tasks), fraction in zip(parts, fractions, strict=True):
        floor["tenant", int(problem.workload_tenant[j])] += fraction * tasks * unit[j]
    counted = problem.count_guaranteed
    share = dict(floor) if counted else dict.fromkeys(floor, Fraction(0))
    beside = dict.fromkeys(floor, Fraction(0)) if counted else floor
    stages = stages_of(problem)
    for stage in (0, 1):
        tree = PlainTree(problem, stage, pooled=pooled)
        servers = ServersWithFloors(problem, tree, pooled)
        servers.floors = kept
        cap = {
            leaf: None if most is None else most - beside[leaf]
            for leaf, most in caps_of(problem, tree).items()
        }
        moving = {leaf for leaf in share if stages[leaf[1]] == stage}
        while True:
            moving = {i for i in moving if cap[i] is None or share[i] < cap[i]}
            found = tree.step(share, moving, cap)
            if found is None:
                break
            rates, length = found
            together = {leaf: share[leaf] + beside[leaf] for leaf in share}
            reached = servers.furthest(together, rates, length)
            for leaf, rate in rates.items():
                share[leaf] += rate * reached
                together[leaf] += rate * reached
            if length is None or reached < length:
                moving = {
                    i
                    for i in moving
                    if servers.furthest(together, {i: Fraction(1)}, Fraction(1)) > 0
                }
    return fractions, [share["tenant", i] + beside["tenant", i] for i in range(problem.t)]


def tasks_in(pool, *, pooled):
    """Exact tasks of a pool's workloads, one per tenant."""
    if not pool.capacity.any():
        return [Fraction(0)] * pool.n
    if pool.guarantees:
        _, share = leximin_with_floors(pool, pooled=pooled)
    else:
        share = leximin_in_groups(pool, pooled=pooled)
    tree = PlainTree(pool, pooled=pooled)
    return [
        share[int(pool.workload_tenant[j])] / max(tree.task(j)) if tree.can_run(j) else Fraction(0)
        for j in range(pool.n)
    ]


def fill_with_floors(problem, rule, seed=0):
    """(tasks that are guaranteed and run (n), tasks (n)), whole, launched one by one."""
    pooled = rule == "pool"
    tree = PlainTree(problem, pooled=pooled)
    floors = []
    for number, given in enumerate(problem.guarantees):
        pool, jobs, rows = pool_of(problem, given, tree, pooled, whole=True)
        if problem.kept_placements is not None:
            pool = replace(pool, kept_placements=kept_inside(problem, jobs, rows))
        floors.append((number, jobs, rows, whole_in(pool)))
    on_own, before = [{} for _ in range(problem.n)], []
    own = np.flatnonzero(problem.own_servers).tolist()
    if own and pooled:
        for tenant in own:
            pool, jobs = own_pool(problem, tenant)
            everywhere = frozenset(range(problem.k))
            floors.append((len(floors), jobs, everywhere, fill(pool, "pool")[1]))
    elif own:
        mine = np.isin(problem.contributed_by, own)
        alone = replace(problem, contributed_only=problem.contributed_only | ~mine)
        _, before = stand_alone(alone, with_servers=True)
        before = [(j, row, at) for j, row, at in before if problem.workload_tenant[j] in own]
        before = within_limits(problem, before)
        for j, row, _ in before:
            used = frozenset([row])
            on_own[j][used] = on_own[j].get(used, 0) + 1
    parts = parts_of(problem, floors, on_own)
    if problem.kept_placements is not None:
        owned = [(j, None, sum(on_own[j].values())) for j in owned_order(problem, on_own)]
        parts, started, before, beside = beside_kept(problem, parts + owned)
        return fill(
            problem, rule, seed, parts=parts, started=started, before=before, beside=beside,
            guaranteed=True,
        )  # fmt: skip
    return fill(problem, rule, seed, parts=parts, before=before, guaranteed=True)


def owned_order(problem, on_own):
    """Return the workloads with tasks on own servers, by tenant."""
    return sorted(
        (j for j in range(problem.n) if on_own[j]), key=lambda j: (problem.workload_tenant[j], j)
    )


def kept_places(problem):
    """(workload, row, server of the row) of each kept task, by workload and server."""
    rows = [
        row for row in range(problem.k)
        if not problem.contributed_only[row] and problem.capacity[row].any()
        for _ in range(int(problem.server_count[row]))
    ]  # fmt: skip
    kept = sorted((j, server) for j, _, server in kept_pieces(problem).elements())
    return [(j, rows[server], server - rows.index(rows[server])) for j, server in kept]


def kept_inside(problem, jobs, rows):
    """Return the kept tasks of a pool's workloads on its rows, which are one server."""
    inside = Counter(
        jobs.index(j) for j, row, _ in kept_places(problem) if j in jobs and row in rows
    )
    columns = np.array([[j, 0, 0, 1, tasks] for j, tasks in sorted(inside.items())], dtype=np.int64)
    workload, row, offset, servers, tasks = columns.reshape(-1, 5).T
    return CurrentPlacements(
        workload=workload, row=row, offset=offset, servers=servers, tasks=tasks.astype(float)
    )


def beside_kept(problem, parts):
    """(parts, tasks of each that run, where they run, where kept tasks of no part run).

    Args:
        parts: (workload, rows or None for own servers, tasks).
    """
    beside = kept_places(problem)
    size = [
        np.inf if where is None else sum(int(problem.server_count[row]) for row in where)
        for _, where, _ in parts
    ]
    order = sorted(range(len(parts)), key=lambda at: size[at])
    mine = [[] for _ in parts]
    for at in order:
        j, where, tasks = parts[at]
        for place in list(beside):
            if place[0] == j and len(mine[at]) < tasks and (where is None or place[1] in where):
                mine[at].append(place)
                beside.remove(place)
    tasks = [count for _, _, count in parts]
    for at in reversed(order):
        j = parts[at][0]
        runs = sum(place[0] == j for place in beside)
        while sum(tasks[k] for k in order if parts[k][0] == j) + runs > problem.tasks[j] and tasks[
            at
        ] > len(mine[at]):
            tasks[at] -= 1
    left = {
        (row, at): [exact(c) for c in problem.capacity[row]]
        for row in range(problem.k)
        for at in range(int(problem.server_count[row]))
    }
    limits = [[exact(a) if a < np.inf else None for a in limit.amount] for limit in problem.limits]

    def amounts(j, row):
        return [
            amounts
            for limit, amounts in zip(problem.limits, limits, strict=True)
            if is_below(problem, limit, j) and matches(problem, limit, row)
        ]

    def take(j, row, at):
        demand = [exact(d) for d in problem.demand[j]]
        left[row, at] = [c - d for c, d in zip(left[row, at], demand, strict=True)]
        for of in amounts(j, row):
            of[:] = [a if a is None else a - d for a, d in zip(of, demand, strict=True)]

    def fits(j, row, at):
        demand = [exact(d) for d in problem.demand[j]]
        return all(d <= c for d, c in zip(demand, left[row, at], strict=True)) and all(
            a is None or d <= a
            for of in amounts(j, row)
            for a, d in zip(of, demand, strict=True)
            if d
        )

    for place in [*beside, *(place for some in mine for place in some)]:
        take(*place)
    own = [at for at, (_, where, _) in enumerate(parts) if where is None]
    for at in sorted(own, key=lambda at: own_order(problem, parts[at][0])):
        j = parts[at][0]
        for row, server in left:
            is_own = problem.contributed_by[row] == problem.workload_tenant[j]
            while (
                is_own
                and may_use(problem, j, row)
                and len(mine[at]) < tasks[at]
                and fits(j, row, server)
            ):
                take(j, row, server)
                mine[at].append((j, row, server))
        tasks[at] = len(mine[at])
    everywhere = frozenset(range(problem.k))
    found = [
        (j, everywhere if where is None else where, count)
        for (j, where, _), count in zip(parts, tasks, strict=True)
    ]
    stays = [at for at, (_, _, count) in enumerate(found) if count]
    before = [place for some in mine for place in some]
    return [found[at] for at in stays], [len(mine[at]) for at in stays], before, beside


def own_order(problem, j):
    """Return the order in which workloads are placed on own servers."""
    return int(problem.workload_tenant[j]), -int(problem.priority[j]), j


def within_limits(problem, launched):
    """Tasks (workload, row, server) without those that would exceed a limit, one after the other."""
    left = [[exact(a) if a < np.inf else None for a in limit.amount] for limit in problem.limits]
    kept = []
    for j, row, at in launched:
        demand = [exact(d) for d in problem.demand[j]]
        mine = [
            amounts
            for limit, amounts in zip(problem.limits, left, strict=True)
            if is_below(problem, limit, j) and matches(problem, limit, row)
        ]
        if all(a is None or d <= a for of in mine for a, d in zip(of, demand, strict=True)):
            kept.append((j, row, at))
            for of in mine:
                of[:] = [a and a - d for a, d in zip(of, demand, strict=True)]
    return kept


def whole_in(pool):
    """Whole tasks of a pool of one server."""
    if not pool.capacity.any():
        return [0] * pool.n
    if pool.guarantees:
        return fill_with_floors(pool, "first-fit")[1]
    kept = [] if pool.kept_placements is None else kept_places(pool)
    return fill(pool, "first-fit", beside=kept)[1]
