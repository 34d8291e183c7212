"""Whole tasks by what tenants have used over time: who is next, one task at a time.

Source: Tang et al., TPDS 2018, §5.1 (LT-DRF), §5.2 (LT-AF), Algorithm 1 (H-MRF). All three walk
through the same loop; they differ in the measures that order tenants:

* ``lt-drf``: weighted accumulated dominant share, then weighted aggregate;
* ``lt-af``: weighted aggregate;
* ``h-mrf``: while the least sharing degree is below 1, that, then the aggregate; otherwise the
  aggregate, then the weighted accumulated dominant share.

Measures that differ by no more than the one stated tolerance are equal, and the tie goes on to the
next measure and at last to the position.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.filling.servers_loop import most_affine
from policies.filling.winner_tree import set_share
from policies.model.tolerance import DISCRETE_TOLERANCE

LT_DRF, LT_AF, H_MRF = 0, 1, 2


@compiled
def fill_by_history(  # type: ignore[no-untyped-def]
    rule, once, degree, main, second, stop, current, limit, weight, count, passed, level,
    before, alone, borrow, gain, share_of_total,
    demand, allowed, row_of, row_start, opened, left, share_of_unit, log_job, log_server,
):  # fmt: skip
    """Launch tasks until nobody's fits any more or the log is full; returns its length.

    Args:
        rule: one of the three constants.
        once: does a tenant leave as soon as it has received a task?
        degree, main: trees (``winner_tree``) of sharing degrees and of the measure that orders
            otherwise; ``inf`` is a tenant that has left. second: (t,) breaks ties of ``main``.
        stop ... count: the tenants' ``Queues``.
        passed: (t, m) resource × time in this step from the workloads before ``current``.
        level: (t,) is given the ``main`` measure at which a tenant leaves.
        before, alone: (t, m) resource × time: used before this step; alone, this step included.
        borrow: (t, m) resource × time beyond which a tenant is handed nothing more.
        gain: (q, m) resource × time of one task; share_of_total: (m,) one unit as a share.
        demand ... share_of_unit: as :func:`policies.filling.servers_loop.fill`.
        log_job, log_server: (L,) one entry per task launched.
    """
    leaves = len(main) // 2
    launched = 0
    while main[1] < np.inf and launched < len(log_job):
        tenant = next_by_history(degree, main, second)
        job = current[tenant]
        if _beyond(tenant, job, before, passed, count, gain, borrow):
            level[tenant] = main[leaves + tenant]
            _leave(degree, main, tenant)
            continue
        server = NOWHERE
        if count[job] < limit[job]:
            if len(left) == 1:
                server = 0 if _pool_has_room(job, demand, allowed, left) else NOWHERE
            else:
                server = most_affine(
                    demand[job], allowed[job], row_start, opened, left, share_of_unit
                )
        if server == NOWHERE:
            for r in range(gain.shape[1]):
                passed[tenant, r] += count[job] * gain[job, r]
            current[tenant] += 1
            if current[tenant] == stop[tenant]:
                level[tenant] = main[leaves + tenant]
                _leave(degree, main, tenant)
            continue
        for r in range(len(share_of_unit)):
            left[server, r] -= demand[job, r]
        if server == opened[row_of[server]]:
            opened[row_of[server]] += 1
        count[job] += 1.0
        log_job[launched] = job
        log_server[launched] = server
        launched += 1
        if once:
            _leave(degree, main, tenant)
        else:
            _measure(
                rule, tenant, job, degree, main, second, weight, before, alone, passed, count, gain,
                share_of_total,
            )  # fmt: skip
    return launched


@compiled
def enter(  # type: ignore[no-untyped-def]
    rule, waiting, degree, main, second, stop, current, weight, count, passed, before, alone,
    gain, share_of_total,
):  # fmt: skip
    """Put the tenants that are ``waiting`` (t,) and have workloads left into the trees."""
    for tenant in range(len(stop)):
        job = current[tenant]
        if waiting[tenant] and job < stop[tenant]:
            _measure(
                rule, tenant, job, degree, main, second, weight, before, alone, passed, count, gain,
                share_of_total,
            )  # fmt: skip


@compiled
def _measure(  # type: ignore[no-untyped-def]
    rule, tenant, job, degree, main, second, weight, before, alone, passed, count, gain,
    share_of_total,
):  # fmt: skip
    """Write a tenant's measures, this step's tasks included."""
    least, aggregate, dominant = np.inf, 0.0, 0.0
    for r in range(gain.shape[1]):
        used = before[tenant, r] + (passed[tenant, r] + count[job] * gain[job, r])
        if alone[tenant, r] > 0.0:
            least = min(least, used / alone[tenant, r])
        share = used * share_of_total[r]
        aggregate += share
        dominant = max(dominant, share)
    its_degree, its_main, its_second = keys_of(rule, least, aggregate, dominant, weight[tenant])
    set_share(degree, tenant, its_degree)
    set_share(main, tenant, its_main)
    second[tenant] = its_second


@compiled
def keys_of(rule, degree, aggregate, dominant, weight):  # type: ignore[no-untyped-def]
    """What orders a tenant: its sharing degree while that is below 1, a measure, and its tie-breaker.

    Args:
        rule: one of the three constants.
        degree: sharing degree, inf without anything that the tenant would have used alone.
        aggregate, dominant: sum and largest of its accumulated shares; weight: what divides them.
    """
    aggregate /= weight
    dominant /= weight
    # Without anything that it would have used alone nobody is at a loss; and degrees from 1 on do
    # not order: alike, they leave the tree as it is.
    least = min(degree, 1.0) if rule == H_MRF else 1.0
    return (
        least,
        dominant if rule == LT_DRF else aggregate,
        (dominant if rule == H_MRF else aggregate),
    )


@compiled
def next_by_history(degree, main, second):  # type: ignore[no-untyped-def]
    """The tenant that goes next; somebody must be waiting.

    Args:
        degree, main: trees (``winner_tree``) of the first two of ``keys_of``; second: (t,) the third.
    """
    leaves = len(main) // 2
    if degree[1] < 1.0 - DISCRETE_TOLERANCE:
        return _first_of_least(degree, main, leaves)
    return _first_of_least(main, second, 0)


@compiled
def _first_of_least(tree, second, first_leaf):  # type: ignore[no-untyped-def]
    """Among those with the least of ``tree``, the first by position with the least ``second``.

    ``second`` is read from ``first_leaf`` on.
    """
    threshold = tree[1] * (1.0 + DISCRETE_TOLERANCE)
    leaves = len(tree) // 2
    node, tied = 1, False
    while node < leaves:
        node *= 2
        right = tree[node] > threshold
        tied |= (not right) & (tree[node + 1] <= threshold)
        node += right
    first = node - leaves
    if not tied:
        return first
    least, chosen, close = second[first_leaf + first], first, False
    other = _within(tree, first + 1, threshold)
    while other != NOWHERE:
        value = second[first_leaf + other]
        if value < least:
            close = close or least <= value * (1.0 + DISCRETE_TOLERANCE)
            least, chosen = value, other
        other = _within(tree, other + 1, threshold)
    if not close:
        return chosen
    while second[first_leaf + first] > least * (1.0 + DISCRETE_TOLERANCE):
        first = _within(tree, first + 1, threshold)
    return first


@compiled
def _within(tree, first, threshold):  # type: ignore[no-untyped-def]
    """The first leaf from ``first`` on that is at most the threshold; NOWHERE if none is."""
    leaves = len(tree) // 2
    if first >= leaves:
        return NOWHERE
    node = leaves + first
    while tree[node] > threshold:
        while node & 1:
            node >>= 1
        if node == 0:
            return NOWHERE
        node += 1
    while node < leaves:
        node *= 2
        if tree[node] > threshold:
            node += 1
    return node - leaves


@compiled
def _pool_has_room(job, demand, allowed, left):  # type: ignore[no-untyped-def]
    """Does one task fit on the only server?"""
    for r in range(demand.shape[1]):
        if demand[job, r] > left[0, r]:
            return False
    return allowed[job, 0]


@compiled
def _leave(degree, main, tenant):  # type: ignore[no-untyped-def]
    set_share(degree, tenant, np.inf)
    set_share(main, tenant, np.inf)


@compiled
def _beyond(tenant, job, before, passed, count, gain, borrow):  # type: ignore[no-untyped-def]
    """Has the tenant borrowed all that it may?"""
    for r in range(gain.shape[1]):
        used = before[tenant, r] + (passed[tenant, r] + count[job] * gain[job, r])
        if used > borrow[tenant, r]:
            return True
    return False
