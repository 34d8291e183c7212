"""Kept tasks, task by task: slow, and plainly right."""

from collections import Counter
from functools import cache

from tests.references.gangs import Pool, can_start, zone_of
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
    parts = []
    for here in _by_value(pool, gang, room):
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


def tasks_on(pool, j, pieces, rows, most):
    """Return the most tasks with all pieces on some rows while the others stay whole, and their pieces.

    Args:
        pieces: {(kind, server): pieces} of whole tasks; most: number of tasks at most.
    """
    gang, tasks, found = pool.problem.gangs.get(j), 0, Counter()
    if gang is None:
        for place in sorted(pieces):
            if pool.row_of[place[1]] in rows:
                found[place] = min(pieces[place], most - tasks)
                tasks += found[place]
        return tasks, +found
    for here in _by_value(pool, gang, pieces):
        number = sum(n for (kind, _), n in here.items() if kind == 0) // int(gang.count[0])
        inside = {place: n for place, n in here.items() if pool.row_of[place[1]] in rows}
        for mine in range(int(min(number, most - tasks)), 0, -1):
            chosen = _first_choice(inside, gang, mine, here, number - mine)
            if chosen is not None:
                tasks += mine
                found += chosen
                break
    return tasks, found


def _by_value(pool, gang, pieces):
    """Return pieces by the value of the label, in the order of their servers."""
    found = {}
    for place in sorted(pieces, key=lambda place: place[1]):
        labels = pool.problem.server_labels[pool.row_of[place[1]]]
        value = zone_of(labels, gang.together) if gang.together else ""
        if value is not None:
            found.setdefault(value, {})[place] = pieces[place]
    return list(found.values())


def _first_choice(room, gang, tasks, of=None, others=0):
    """Return the pieces of so many tasks, None if there are none.

    Of all, these have the most of the first kind on the first server, then on the second, and so on.

    Args:
        of: pieces of which those that are not chosen must be others tasks.
    """
    if tasks == 0:
        return Counter()
    count = tuple(gang.count.tolist())
    for chosen in _choices(room, sorted(room), [each * tasks for each in count]):
        rest = frozenset((Counter(of) - chosen).items()) if of is not None else frozenset()
        if _are_tasks(frozenset((+chosen).items()), count, gang.per_server, tasks) and _are_tasks(
            rest, count, gang.per_server, others
        ):
            return +chosen
    return None


def _choices(room, places, sums):
    """Yield the choices of pieces with a sum of each kind, those with more on the first places first."""
    left = [sum(room[place] for place in places if place[0] == kind) for kind in range(len(sums))]
    if any(total < needed for total, needed in zip(left, sums, strict=True)) or min(sums) < 0:
        return
    if not places:
        yield Counter()
        return
    place, *others = places
    for number in range(min(room[place], sums[place[0]]), -1, -1):
        rest = [total - number * (kind == place[0]) for kind, total in enumerate(sums)]
        for chosen in _choices(room, others, rest):
            yield chosen + Counter({place: number})


@cache
def _are_tasks(pieces, count, per_server, tasks):
    """Return True if pieces are those of so many tasks, each with few enough on each server."""
    pieces = dict(pieces)
    if tasks == 0:
        return not any(pieces.values())
    most = per_server or sum(count)
    room = {place: min(n, most) for place, n in pieces.items() if n}
    for task in _choices(room, sorted(room), count):
        by_server = Counter()
        for (_, s), n in task.items():
            by_server[s] += n
        if max(by_server.values()) > most:
            continue
        rest = frozenset((place, n - task.get(place, 0)) for place, n in pieces.items())
        if _are_tasks(rest, count, per_server, tasks - 1):
            return True
    return False
