"""Compiled loop of MRFS, which places one request at a time.

A request goes to the server whose dominant resources it keeps most even.

Source: Hamzeh et al., "MRFS", 2020, Algorithm 1, whose four cases policies §6 puts in one order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.filling.winner_tree import next_tenant, set_share
from policies.model.tolerance import DISCRETE_TOLERANCE


class Requests(NamedTuple):
    """Requests that wait, by tenant.

    Attributes:
        tree: requests placed of each tenant, over its weight (``winner_tree``).
        stop ... passed: as in ``Queues``, of which ``done`` is ``count``.
        level: (t,) receives a tenant's value of the tree when it leaves.
        demand: (q, m) whole; allowed: (q, rows).
    """

    tree: FloatArray
    stop: IntArray
    current: IntArray
    limit: FloatArray
    weight: FloatArray
    done: FloatArray
    passed: FloatArray
    level: FloatArray
    demand: FloatArray
    allowed: BoolArray


class Evenness(NamedTuple):
    """Use of the servers' resources in proportion to each other.

    Attributes:
        capacity: (rows, m) of one empty server of each row, whole.
        dominated: (S, m) hosted requests by the resource that dominates them on that server.
        spread: (S, m) max Ψ − min Ψ once a request dominated by each resource is placed too.
        aggregate: (S,) dominant demand of what is hosted in all, as shares of that server.
        room: (S,) the least share of the server that is left of any resource that it has.
    """

    capacity: FloatArray
    dominated: FloatArray
    spread: FloatArray
    aggregate: FloatArray
    room: FloatArray


@compiled
def fill_evenly(requests, servers, even, log_job, log_server):
    """Place requests until none fits or the log is full, and return the length of the log.

    Args:
        requests, even: ``Requests`` and ``Evenness``; servers: as in ``filling.state``.
        log_job, log_server: (L,) one entry per request placed.
    """
    tree, stop, current, limit, weight, count, passed, level, demand, allowed = requests
    capacity, dominated, spread, aggregate, room = even
    row_of, opened, left = servers.row_of, servers.opened, servers.left
    leaves = len(tree) // 2
    placed = 0
    while tree[1] < np.inf and placed < len(log_job):
        tenant = next_tenant(tree)
        job = current[tenant]
        server = NOWHERE
        if count[job] < limit[job]:
            server = evenest(demand[job], allowed[job], servers, even)
        if server == NOWHERE:
            passed[tenant] += count[job]
            current[tenant] += 1
            if current[tenant] == stop[tenant]:
                level[tenant] = tree[leaves + tenant]
                set_share(tree, tenant, np.inf)
            continue
        row = row_of[server]
        dominant = dominant_on(demand[job], capacity[row])
        dominated[server, dominant] += 1
        aggregate[server] += demand[job, dominant] / capacity[row, dominant]
        for r in range(demand.shape[1]):
            left[server, r] -= demand[job, r]
        # Kept for a next request of each dominant resource: a choice reads one number per server.
        for r in range(demand.shape[1]):
            spread[server, r] = spread_with(dominated[server], capacity[row], r)
        room[server] = room_left(left[server], capacity[row])
        # Untouched servers of a row are alike, so that only the first of them is offered.
        if server == opened[row]:
            opened[row] += 1
        count[job] += 1.0
        set_share(tree, tenant, (passed[tenant] + count[job]) / weight[tenant])
        log_job[placed] = job
        log_server[placed] = server
        placed += 1
    return placed


@compiled
def dominant_on(demand, capacity):
    """Return the first resource of which a request takes the largest share of a server.

    Parameters
    ----------
    demand : (m,) float array
        Amounts of the request.
    capacity : (m,) float array
        Amounts of one server, in the same units.

    Returns
    -------
    int
        Index of the resource.

    References
    ----------
    The MRFS paper; see ``policy_named("mrfs").source``.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import dominant_on
    >>> dominant_on(np.array([1.0, 4.0]), np.array([9.0, 18.0]))
    1
    """
    # Two passes, because the tolerance is relative to the largest ratio.
    largest = 0.0
    for r in range(len(demand)):
        if capacity[r] > 0.0:
            largest = max(largest, demand[r] / capacity[r])
    for r in range(len(demand)):
        if (
            capacity[r] > 0.0
            and demand[r] / capacity[r] >= largest * (1.0 - DISCRETE_TOLERANCE)
            and demand[r] > 0.0
        ):
            return r
    return 0


@compiled
def evenest(demand, allowed, servers, even):
    """Return the server for a request, or -1 if none has room.

    The criteria, in order, are the least spread of the numbers of requests per dominant resource
    once it is placed, the least aggregate, the largest minimum remaining share, and the position.
    Each criterion has a pass of its own, which compares the criterion before it checks that the
    request fits.
    """
    row_start, opened, left = servers.row_start, servers.opened, servers.left
    capacity, spread, aggregate, room = even.capacity, even.spread, even.aggregate, even.room
    # Most servers fail a criterion, and one comparison is cheaper than that of all resources.
    dominant = np.empty(len(opened), dtype=np.int64)
    narrowest = np.inf
    for row in range(len(opened)):
        dominant[row] = dominant_on(demand, capacity[row])
        if not allowed[row]:
            continue
        for server in range(row_start[row], min(opened[row] + 1, row_start[row + 1])):
            if spread[server, dominant[row]] < narrowest and _fits(demand, left[server]):
                narrowest = spread[server, dominant[row]]
    if narrowest == np.inf:
        return NOWHERE
    least = np.inf
    for row in range(len(opened)):
        if not allowed[row]:
            continue
        for server in range(row_start[row], min(opened[row] + 1, row_start[row + 1])):
            if (
                aggregate[server] < least
                # Differences of counts are whole numbers, so that equality is exact.
                and spread[server, dominant[row]] == narrowest
                and _fits(demand, left[server])
            ):
                least = aggregate[server]
    # Sums of shares depend in their last digits on the order in which requests came.
    threshold = least * (1.0 + DISCRETE_TOLERANCE)
    most = -1.0
    for row in range(len(opened)):
        if not allowed[row]:
            continue
        for server in range(row_start[row], min(opened[row] + 1, row_start[row + 1])):
            if (
                aggregate[server] <= threshold
                and room[server] > most
                and spread[server, dominant[row]] == narrowest
                and _fits(demand, left[server])
            ):
                most = room[server]
    for row in range(len(opened)):
        if not allowed[row]:
            continue
        for server in range(row_start[row], min(opened[row] + 1, row_start[row + 1])):
            if (
                aggregate[server] <= threshold
                and room[server] >= most * (1.0 - DISCRETE_TOLERANCE)
                and spread[server, dominant[row]] == narrowest
                and _fits(demand, left[server])
            ):
                return server
    return NOWHERE


@compiled
def _fits(demand, left):
    fits = True
    for r in range(len(demand)):
        fits = fits and demand[r] <= left[r]
    return fits


@compiled
def spread_with(dominated, capacity, dominant):
    """Return max Ψ − min Ψ over the resources that the server has, with one more request."""
    most, least = 0.0, np.inf
    for r in range(len(capacity)):
        if capacity[r] > 0.0:
            hosted = dominated[r] + (1.0 if r == dominant else 0.0)
            most = max(most, hosted)
            least = min(least, hosted)
    return most - least


@compiled
def room_left(left, capacity):
    """Return the least share left of any resource that the server has."""
    least = 1.0
    for r in range(len(capacity)):
        if capacity[r] > 0.0:
            least = min(least, left[r] / capacity[r])
    return least
