"""Kept tasks, task by task: slow, and plainly right."""

from collections import Counter
from functools import cache
from itertools import product

from tests.references.gangs import Pool, can_start
from tests.references.numbers import exact


def stated_pieces(problem):
    """{(workload, kind, server): pieces} on servers that offer something, numbered row by row."""
    first, number = {}, 0
    for row in range(problem.k):
        if not problem.contributed_only[row] and problem.capacity[row].any():
            first[row] = number
            number += int(problem.server_count[row])
    stated = Counter()
    kept = problem.kept_placements
    if kept is None:
        return stated
    pieces = problem.pieces
    columns = (kept.workload, kept.row, kept.offset, kept.servers, kept.tasks)
    for kind, row, offset, servers, tasks in zip(*(c.tolist() for c in columns), strict=True):
        j = int(pieces.workload[kind])
        for at in range(offset, offset + servers):
            if row in first and at < problem.server_count[row]:
                stated[j, int(kind != j), first[row] + at] += int(tasks)
    return stated


def kept_pieces(problem):
    """{(workload, kind, server): pieces} that stay, workload by workload."""
    pool = Pool(problem, "first-fit", 0)
    runnable = {j for j in range(problem.n) if not problem.out_of_range[j] and can_start(pool, j)}
    stated, kept = stated_pieces(problem), Counter()
    for j in sorted({j for j, _, _ in stated}):
        mine = {(kind, s): n for (i, kind, s), n in sorted(stated.items()) if i == j}
        if j not in runnable:
            continue
        chosen = _gangs(pool, j, mine) if j in problem.gangs else _single(pool, j, mine)
        kept |= Counter({(j, kind, s): n for (kind, s), n in chosen.items() if n})
    return kept


def _single(pool, j, mine):
    demand, chosen = [exact(d) for d in pool.problem.demand[j]], Counter()
    for place, number in mine.items():
        for _ in range(number):
            if sum(chosen.values()) < pool.problem.tasks[j] and pool.fits(j, demand, place[1]):
                pool.take(j, demand, place[1])
                chosen[place] += 1
    return chosen


def _gangs(pool, j, mine):
    problem, gang = pool.problem, pool.problem.gangs[j]
    demand = [[exact(d) for d in row] for row in gang.demand]
    room = Counter()
    for (kind, s), number in mine.items():
        while room[kind, s] < number and pool.room(j, demand[kind], s):
            pool.left[s] = [c - d for c, d in zip(pool.left[s], demand[kind], strict=True)]
            room[kind, s] += 1
    for (kind, s), number in room.items():
        pool.left[s] = [c + number * d for c, d in zip(pool.left[s], demand[kind], strict=True)]
    values = []
    for s in sorted({s for _, s in mine}):
        value = problem.server_labels[pool.row_of[s]].get(gang.together) if gang.together else ""
        if value is not None and value not in values:
            values.append(value)
    parts = []
    for value in values:
        here = {
            (kind, s): n
            for (kind, s), n in room.items()
            if not gang.together
            or problem.server_labels[pool.row_of[s]].get(gang.together) == value
        }
        most = 0
        while _first_choice(here, gang, most + 1) is not None:
            most += 1
        parts.append((here, most))
    tasks = int(min(sum(most for _, most in parts), problem.tasks[j]))
    for number in range(tasks, gang.at_least - 1, -1):
        chosen, left = Counter(), number
        for here, most in parts:
            chosen += _first_choice(here, gang, min(most, left)) or Counter()
            left -= min(most, left)
        for (kind, s), n in chosen.items():
            pool.take(j, [n * d for d in demand[kind]], s)
        if all(amount >= 0 for _, amounts in pool.limits for amount in amounts.values()):
            return chosen
        for (kind, s), n in chosen.items():
            pool.take(j, [n * d for d in demand[kind]], s, -1)
    return {}


def _first_choice(room, gang, tasks):
    """Return the pieces of so many tasks, None if there are none.

    Of all, these have the most of the first kind on the first server, then on the second, and so on.
    """
    if tasks == 0:
        return Counter()
    places = sorted(room)
    count = gang.count.tolist()
    for numbers in product(*(range(room[place], -1, -1) for place in places)):
        chosen = Counter(dict(zip(places, numbers, strict=True)))
        sums = [sum(n for (kind, _), n in chosen.items() if kind == c) for c in range(len(count))]
        if sums == [each * tasks for each in count] and _are_tasks(
            frozenset((+chosen).items()), tuple(count), gang.per_server, tasks
        ):
            return +chosen
    return None


@cache
def _are_tasks(pieces, count, per_server, tasks):
    """Return True if pieces are those of so many tasks, each with few enough on each server."""
    pieces = dict(pieces)
    if tasks == 0:
        return not any(pieces.values())
    places = sorted(place for place, n in pieces.items() if n)
    most = per_server or sum(count)
    for numbers in product(*(range(min(pieces[place], most) + 1) for place in places)):
        task = dict(zip(places, numbers, strict=True))
        sums = [sum(n for (kind, _), n in task.items() if kind == c) for c in range(len(count))]
        by_server = Counter()
        for (_, s), n in task.items():
            by_server[s] += n
        if sums != list(count) or max(by_server.values()) > most:
            continue
        rest = frozenset((place, n - task.get(place, 0)) for place, n in pieces.items())
        if _are_tasks(rest, count, per_server, tasks - 1):
            return True
    return False
