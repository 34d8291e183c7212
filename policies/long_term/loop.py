"""Launches by past use, one whole task at a time.

Source: Tang et al., TPDS 2018, §5.1 (LT-DRF), §5.2 (LT-AF), Algorithm 1 (H-MRF). All three walk
through the same loop; ``measures`` has what orders tenants.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.filling.rules import most_affine
from policies.long_term.measures import keys_of, next_in_history, set_measures
from policies.long_term.pairs import LEAST, first_of_least, set_pair
from policies.model.tolerance import DISCRETE_TOLERANCE


@compiled
def fill_by_history(  # type: ignore[no-untyped-def]
    rule, once, turns, degree, main, stop, current, limit, weight, count, passed, level,
    before, alone, borrow, gain, share_of_total,
    demand, allowed, row_of, row_start, opened, left, share_of_unit, log_job, log_server,
):  # fmt: skip
    """Launch tasks until nobody's fits any more or the log is full; returns its length.

    Args:
        rule: one of the three constants.
        once: does a tenant leave as soon as it has received a task?
        turns: whose turn it is in a pool with groups (``HistoryTurns``).
        degree, main: trees (``pairs``) of sharing degrees with the measure that orders otherwise, and of
            that measure with what breaks its ties; ``inf`` is a tenant that has left.
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
    grouped = len(turns.node) > 0
    nothing = np.zeros(gain.shape[1])
    launched = 0
    while main[1, LEAST] < np.inf and launched < len(log_job):
        tenant = next_in_history(turns) if grouped else _next_by_pairs(degree, main)
        job = current[tenant]
        if _beyond(tenant, job, before, passed, count, gain, borrow):
            level[tenant] = main[leaves + tenant, LEAST]
            _leave(rule, turns, degree, main, tenant, nothing, share_of_total)
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
                level[tenant] = main[leaves + tenant, LEAST]
                _leave(rule, turns, degree, main, tenant, nothing, share_of_total)
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
            _leave(rule, turns, degree, main, tenant, gain[job], share_of_total)
        else:
            _measure(
                rule, tenant, job, turns, gain[job], degree, main, weight, before, alone,
                passed, count, gain, share_of_total,
            )  # fmt: skip
    return launched


@compiled
def enter(  # type: ignore[no-untyped-def]
    rule, waiting, turns, degree, main, stop, current, weight, count, passed, before, alone,
    gain, share_of_total,
):  # fmt: skip
    """Put the tenants that are ``waiting`` (t,) and have workloads left into the trees."""
    nothing = np.zeros(gain.shape[1])
    for tenant in range(len(stop)):
        job = current[tenant]
        if waiting[tenant] and job < stop[tenant]:
            _measure(
                rule, tenant, job, turns, nothing, degree, main, weight, before, alone,
                passed, count, gain, share_of_total,
            )  # fmt: skip


@compiled
def _measure(  # type: ignore[no-untyped-def]
    rule, tenant, job, turns, received, degree, main, weight, before, alone, passed, count,
    gain, share_of_total,
):  # fmt: skip
    """Write a tenant's measures, this step's tasks included, of which it has just ``received`` (m,)."""
    least, aggregate, dominant = np.inf, 0.0, 0.0
    for r in range(gain.shape[1]):
        used = before[tenant, r] + (passed[tenant, r] + count[job] * gain[job, r])
        if alone[tenant, r] > 0.0:
            least = min(least, used / alone[tenant, r])
        share = used * share_of_total[r]
        aggregate += share
        dominant = max(dominant, share)
    its_degree, its_main, its_second = keys_of(rule, least, aggregate, dominant, weight[tenant])
    set_pair(degree, tenant, its_degree, its_main)
    set_pair(main, tenant, its_main, its_second)
    if len(turns.node) > 0:
        set_measures(
            turns, tenant, rule, its_degree, its_main, its_second, received, share_of_total
        )


@compiled
def _next_by_pairs(degree, main):  # type: ignore[no-untyped-def]
    """Return the tenant that is next, of at least one that waits, as ``measures.next_by_history``."""
    if degree[1, LEAST] < 1.0 - DISCRETE_TOLERANCE:
        return first_of_least(degree)
    return first_of_least(main)


@compiled
def _pool_has_room(job, demand, allowed, left):  # type: ignore[no-untyped-def]
    """Does one task fit on the only server?"""
    for r in range(demand.shape[1]):
        if demand[job, r] > left[0, r]:
            return False
    return allowed[job, 0]


@compiled
def _leave(rule, turns, degree, main, tenant, received, share_of_total):  # type: ignore[no-untyped-def]
    """Take a tenant that has just ``received`` (m,) resource × time out of the trees."""
    set_pair(degree, tenant, np.inf, np.inf)
    set_pair(main, tenant, np.inf, np.inf)
    if len(turns.node) > 0:
        set_measures(turns, tenant, rule, np.inf, np.inf, np.inf, received, share_of_total)


@compiled
def _beyond(tenant, job, before, passed, count, gain, borrow):  # type: ignore[no-untyped-def]
    """Has the tenant borrowed all that it may?"""
    for r in range(gain.shape[1]):
        used = before[tenant, r] + (passed[tenant, r] + count[job] * gain[job, r])
        if used > borrow[tenant, r]:
            return True
    return False
