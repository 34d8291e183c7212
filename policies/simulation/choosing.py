"""Order of tenants with a task that may fit, at one instant.

The orders are those of live decisions. Shares count what runs now. Long-term measures count what
the window holds, and ``step`` seconds ahead of what runs, as ``used`` and ``alone`` of a step do.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling.winner_tree import next_tenant, plant, set_share
from policies.long_term.measures import keys_of, next_by_history
from policies.simulation.memory import ROUNDING, SLIDING, progress

BY_SHARE = 3


@compiled
def write_shares(from_place, to_place, who, first, active, actives, running, share, weight, main):
    """Write what running tasks are in shares, over the weight, of some tenants in ``who``."""
    for c in range(from_place, to_place):
        i, total = who[c], 0.0
        for at in range(first[i], first[i] + actives[i]):
            total += running[active[at]] * share[active[at]]
        main[i] = total / weight[i]


@compiled
def write_accumulated(
    from_place, to_place, who, order, kind, length, boundary, begin, now, step, weight,
    share_of_total, total, rate, since, gone, gone_rate, gone_since, degree, main, second, used_by,
    alone_by,
):  # fmt: skip
    """Write the keys by which a long-term policy orders some tenants in ``who`` (``keys_of``).

    Args:
        begin: where a sliding window starts; boundary: where a tumbling one began anew last.
        used_by, alone_by: (t, m) are given the resource × time of the tenants in the window.
    """
    m = len(share_of_total)
    for c in range(from_place, to_place):
        i = who[c]
        kept, seconds = progress(kind, length, boundary, since[i], now)
        past = begin - gone_since[i]
        least, aggregate, largest = np.inf, 0.0, 0.0
        for r in range(m):
            used = total[i, r] * kept + rate[i, r] * seconds
            alone = total[i, m + r] * kept + rate[i, m + r] * seconds
            if kind == SLIDING:
                rest = used - (gone[i, r] + gone_rate[i, r] * past)
                used = rest if rest > ROUNDING * used else 0.0
                rest = alone - (gone[i, m + r] + gone_rate[i, m + r] * past)
                alone = rest if rest > ROUNDING * alone else 0.0
            used += rate[i, r] * step
            alone += rate[i, m + r] * step
            used_by[i, r], alone_by[i, r] = used, alone
            if alone > 0.0:
                least = min(least, used / alone)
            aggregate += used * share_of_total[r]
            largest = max(largest, used * share_of_total[r])
        degree[i], main[i], second[i] = keys_of(order, least, aggregate, largest, weight[i])


@compiled
def plant_keys(order, who, count, degree, main, second, degree_tree, main_tree, line):
    """Plant the trees of ``count`` tenants and return their size.

    Args:
        who: (t,) the tenants, ascending; degree, main, second: (t,) keys by tenant.
        degree_tree, main_tree: room for trees over t; line: (t,) is given the third keys in place.
    """
    size = 1
    while size < count:
        size *= 2
    for c in range(count):
        line[c] = main[who[c]]
    plant(main_tree[: 2 * size], line[:count])
    if order != BY_SHARE:
        for c in range(count):
            line[c] = degree[who[c]]
        plant(degree_tree[: 2 * size], line[:count])
        for c in range(count):
            line[c] = second[who[c]]
    return size


@compiled
def next_in_line(order, size, degree_tree, main_tree, line):
    """Position of the one that goes next."""
    if order == BY_SHARE:
        return next_tenant(main_tree[: 2 * size])
    return next_by_history(degree_tree[: 2 * size], main_tree[: 2 * size], line)


@compiled
def set_keys(order, size, c, degree, main, second, degree_tree, main_tree, line):
    """Update the keys of one tenant in line.

    An infinite key takes it out.
    """
    set_share(main_tree[: 2 * size], c, main)
    if order != BY_SHARE:
        set_share(degree_tree[: 2 * size], c, degree)
        line[c] = second
