"""Progressive filling one task at a time, in rational arithmetic: slow, and plainly right."""

from fractions import Fraction

from tests.references.groups import PlainTree, largest_use
from tests.references.limits import is_below, matches
from tests.references.numbers import exact, exact_weights

MASK = 2**64 - 1
POOL_RULES = ("pool", "asset", "single-resource", "slots")


def in_slots(demand, servers, totals):
    """Slots that a task takes, and slots of the pool, where the largest server has 14."""
    largest = max(servers, key=lambda s: sum(c / t for c, t in zip(s, totals, strict=True) if t))
    slot = [c / 14 for c in largest]
    cut = [r for r, size in enumerate(slot) if size]
    slots = sum(min(server[r] // slot[r] for r in cut) for server in servers)
    never = Fraction(slots + 1)
    taken = [
        [
            never
            if any(d and r not in cut for r, d in enumerate(row))
            else Fraction(max(-(-row[r] // slot[r]) for r in cut))
        ]
        for row in demand
    ]
    return taken, [[Fraction(slots)]]


def stand_alone(problem, *, with_servers=False):
    """(n,) tasks of static partitioning, server by server.

    Args:
        with_servers: whether to return (workload, row, server of the row) of each task, too.
    """
    placed = []
    weight = [
        w if not problem.second_stage[i] else Fraction(0)
        for i, w in enumerate(exact_weights(problem))
    ]
    if not any(weight):
        weight = exact_weights(problem)
    count = [0] * problem.n
    for tenant in range(problem.t):
        servers = []
        for row in range(problem.k):
            size, owner = [exact(c) for c in problem.capacity[row]], problem.contributed_by[row]
            number = int(problem.server_count[row])
            if problem.contributed_only[row] or owner not in (tenant, -1):
                continue
            if owner == tenant:
                servers += [(row, size[:], at) for at in range(number)]
                continue
            part = [number * w / sum(weight) for w in weight]
            whole = [p // 1 for p in part]
            servers += [(row, size[:], None) for _ in range(whole[tenant])]
            owed = [p - n for p, n in zip(part, whole, strict=True)]
            if owed[tenant]:
                piece = [c * owed[tenant] / sum(owed) for c in size]
                servers += [(row, piece[:], None) for _ in range(number - sum(whole))]
        mine = [j for j in range(problem.n) if problem.workload_tenant[j] == tenant]
        for j in sorted(mine, key=lambda j: (-problem.priority[j], j)):
            demand = [exact(d) for d in problem.demand[j]]
            selector = problem.selectors[j]
            for row, room, at in servers:
                labels = problem.server_labels[row]
                if not all(labels.get(label) in values for label, values in selector.items()):
                    continue
                while count[j] < problem.tasks[j] and all(
                    d <= c for d, c in zip(demand, room, strict=True)
                ):
                    count[j] += 1
                    placed.append((j, row, at))
                    room[:] = [c - d for c, d in zip(room, demand, strict=True)]
    return (count, placed) if with_servers else count


def fill(
    problem,
    rule,
    seed=0,
    *,
    parts=(),
    started=None,
    before=(),
    beside=(),
    guaranteed=False,
    each=None,
):
    """(workload, server) of every task in the order in which they are launched.

    Args:
        parts: (workload, rows, tasks) that are guaranteed; started: tasks of each that run before;
            before: (workload, row, server of the row) of guaranteed tasks that run before everything
            else; beside: those of no guarantee.
        guaranteed: whether to return the guaranteed tasks (n) that run instead of the log.

    Servers are numbered row by row. Rules that see one big server are ``pool`` (DRF), ``asset``,
    ``single-resource`` (the first) and ``slots``. ``each`` (n) is what one task adds to its tenant's
    share; the dominant share by default.
    """
    capacity, row_of = [], []
    for row in range(problem.k):
        if problem.contributed_only[row] or not problem.capacity[row].any():
            continue
        for _ in range(int(problem.server_count[row])):
            capacity.append([exact(c) for c in problem.capacity[row]])
            row_of.append(row)
    totals = [sum(server[r] for server in capacity) for r in range(problem.m)]
    if rule in POOL_RULES:
        servers = capacity
        capacity, row_of = [totals[:]] if capacity else [], [0]
    demand = [[exact(d) for d in row] for row in problem.demand]
    share = [
        max((d / c if c else Fraction(0)) for d, c in zip(row, totals, strict=True))
        for row in demand
    ]
    if rule == "asset":
        share = [sum(d / c for d, c in zip(row, totals, strict=True) if c) for row in demand]
    elif rule == "single-resource":
        share = [row[0] / totals[0] if totals[0] else Fraction(0) for row in demand]
    elif rule == "slots" and capacity:
        demand, capacity = in_slots(demand, servers, totals)
        share = [row[0] / max(capacity[0][0], Fraction(1)) for row in demand]
    if each is not None:
        share = each
    left = [server[:] for server in capacity]
    weights = exact_weights(problem)
    random = SplitMix64(seed)
    launched, count, given = [], [0] * problem.n, [0] * problem.n

    def may(j, server):
        selector = problem.selectors[j] if rule not in POOL_RULES else {}
        labels = problem.server_labels[row_of[server]] if selector else {}
        return all(labels.get(label) in values for label, values in selector.items())

    limits = [
        (limit, {r: exact(a) for r, a in enumerate(limit.amount.tolist()) if a < float("inf")})
        for limit in problem.limits
    ]

    def counts(limit, j, server):
        here = rule in POOL_RULES or matches(problem, limit, row_of[server])
        return here and is_below(problem, limit, j)

    def within_limits(j, server):
        return all(
            demand[j][r] <= amount
            for limit, amounts in limits
            if counts(limit, j, server)
            for r, amount in amounts.items()
        )

    def has_room(j, server):
        return may(j, server) and all(d <= c for d, c in zip(demand[j], left[server], strict=True))

    def fits(j, server):
        return has_room(j, server) and within_limits(j, server)

    def launch(j, server):
        launched.append((j, server))
        left[server] = [c - d for c, d in zip(left[server], demand[j], strict=True)]
        for limit, amounts in limits:
            if counts(limit, j, server):
                for r in amounts:
                    amounts[r] -= demand[j][r]

    def probes_of(random):
        if rule != "two-choices":
            return []
        return [int(random.draw() * len(left)) for _ in range(2)]

    runnable = {j for j in range(problem.n) if any(has_room(j, s) for s in range(len(left)))}

    def servers_of(rows):
        return [s for s in range(len(left)) if rule in POOL_RULES or row_of[s] in rows]

    run = [0] * len(parts) if started is None else list(started)
    rising = [
        at
        for at, (j, rows, _) in enumerate(parts)
        if any(has_room(j, server) for server in servers_of(rows)) and not problem.out_of_range[j]
    ]
    for j, row, at in before:
        launch(j, row_of.index(row) + at)
        given[j] += 1
    for j, row, at in beside:
        launch(j, row_of.index(row) + at)
        count[j] += 1
    draws = SplitMix64(seed)
    while rising:
        at = min(rising, key=lambda at: (Fraction(run[at]) / Fraction(parts[at][2]), at))
        j, rows, tasks = parts[at]
        if run[at] >= tasks:
            rising.remove(at)
            continue
        probes = probes_of(draws)
        candidates = [server for server in servers_of(rows) if fits(j, server)]
        if not candidates:
            rising.remove(at)
            continue
        launch(j, choose(rule, demand[j], candidates, left, totals, probes))
        run[at] += 1
        given[j] += 1
    if problem.count_guaranteed:
        count = [c + g for c, g in zip(count, given, strict=True)]
    tasks = [most - (0 if problem.count_guaranteed else g) for most, g in zip(
        problem.tasks, given, strict=True)]  # fmt: skip
    for stage in (False, True):
        waiting = {
            i: sorted(
                (
                    j
                    for j in range(problem.n)
                    if problem.workload_tenant[j] == i
                    and j in runnable
                    and not problem.out_of_range[j]
                ),
                key=lambda j: (-problem.priority[j], j),
            )
            for i in range(problem.t)
            if bool(problem.second_stage[i]) == stage
        }
        total = {
            i: sum(
                (
                    count[j] * share[j]
                    for j in range(problem.n)
                    if problem.workload_tenant[j] == i and j in runnable
                ),
                Fraction(0),
            )
            for i in waiting
        }
        tree = PlainTree(problem, int(stage), each=each)
        while waiting:
            tenant = tree.next(
                waiting,
                lambda i, total=total: (total[i] / weights[i],),
                lambda group, below, tree=tree: (
                    largest_use(problem, tree, below, count) / tree.weight[group],
                ),
            )
            if not waiting[tenant]:
                del waiting[tenant]
                continue
            j = waiting[tenant][0]
            probes = probes_of(random) if count[j] < tasks[j] else []
            candidates = [server for server in range(len(left)) if fits(j, server)]
            if count[j] >= tasks[j] or not candidates:
                waiting[tenant].pop(0)
                continue
            server = choose(rule, demand[j], candidates, left, totals, probes)
            launch(j, server)
            count[j] += 1
            total[tenant] += share[j]
    if not problem.count_guaranteed:
        count = [c + g for c, g in zip(count, given, strict=True)]
    return (given if guaranteed else launched), count


def choose(rule, demand, candidates, left, totals, probes):
    """Return the server of the rule for a demand."""
    if rule in (*POOL_RULES, "first-fit"):
        return candidates[0]
    present = [r for r, total in enumerate(totals) if total]
    if rule == "affinity":
        return max(
            candidates,
            key=lambda s: (sum(demand[r] * left[s][r] / totals[r] ** 2 for r in present), -s),
        )
    reference = next(r for r in present if demand[r])

    def misfit(server):
        return sum(
            abs(
                (demand[r] / totals[r]) / (demand[reference] / totals[reference])
                - (left[server][r] / totals[r]) / (left[server][reference] / totals[reference])
            )
            for r in present
        )

    if rule == "two-choices":
        probes = [server for server in probes if server in candidates]
        candidates = probes or candidates[:1]
    return min(candidates, key=lambda server: (misfit(server), server))


class SplitMix64:
    """Steele, Lea, Flood, OOPSLA 2014."""

    def __init__(self, seed):
        self.state = seed

    def draw(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        bits = self.state
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
        return ((bits ^ (bits >> 31)) >> 11) * 2.0**-53
