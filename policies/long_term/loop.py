"""Launches by past use, one whole task at a time.

Source: Tang et al., TPDS 2018, §5.1 (LT-DRF), §5.2 (LT-AF), Algorithm 1 (H-MRF). All three walk
through the same loop; ``measures`` has what orders tenants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import FloatArray
from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.filling.gang_loop import launch_gang
from policies.filling.rules import AFFINITY, most_affine
from policies.long_term.measures import keys_of, next_in_history, set_measures
from policies.long_term.pairs import LEAST, first_of_least, set_pair
from policies.model.tolerance import DISCRETE_TOLERANCE


class Past(NamedTuple):
    """Resource × time, beside which a step counts at once.

    Attributes:
        before, alone: (t, m) used before this step; used alone, this step included.
        borrow: (t, m) beyond which a tenant is handed nothing more.
        passed: (t, m) in this step, from kept tasks and from the workloads before the current ones.
        gain: (q, m) of one task; share_of_total: (m,) one unit as a share of the pool.
    """

    before: FloatArray
    alone: FloatArray
    borrow: FloatArray
    passed: FloatArray
    gain: FloatArray
    share_of_total: FloatArray


@compiled
def fill_by_history(
    rule, once, turns, degree, main, past, waiting, tasks, gangs, limits, servers, draws,
    log_job, log_server, work,
):  # fmt: skip
    """Launch tasks until no task fits, the log is full, or ``work`` is used up.

    Args:
        rule: one of the three constants.
        once: does a tenant leave as soon as it has received a task?
        turns: whose turn it is in a pool with groups (``HistoryTurns``).
        degree, main: trees (``pairs``) of sharing degrees with the measure that orders otherwise, and of
            that measure with what breaks its ties; ``inf`` is a tenant that has left.
        past: what counts beside the step's own tasks.
        waiting ... draws: as of :func:`policies.filling.servers_loop.fill`. Tenants are ordered by
            ``degree`` and ``main``, and ``level`` is given the ``main`` measure of tenants that leave.
        log_job, log_server, work: as of ``fill``.

    Returns:
        Number of launched pieces.
    """
    stop, current, limit, count, level = (
        waiting.stop, waiting.current, waiting.limit, waiting.done, waiting.level,
    )  # fmt: skip
    demand, allowed = tasks.demand, tasks.allowed
    left, row_of, row_start, opened = (
        servers.left, servers.row_of, servers.row_start, servers.opened,
    )  # fmt: skip
    gain, passed = past.gain, past.passed
    leaves = len(main) // 2
    grouped = len(turns.node) > 0
    nothing = np.zeros(gain.shape[1])
    launched = 0
    while main[1, LEAST] < np.inf and launched + gangs.most[0] <= len(log_job) and work > 0:
        tenant = next_in_history(turns) if grouped else _next_by_pairs(degree, main)
        job = current[tenant]
        work -= 1
        # Asked before a launch: the task that passes the cap still runs.
        if _beyond(tenant, job, count, past):
            level[tenant] = main[leaves + tenant, LEAST]
            _leave(rule, turns, degree, main, tenant, nothing, past)
            continue
        started, pieces = 0, 1
        if gangs.per_task[job] > 0:
            started, pieces, looked = launch_gang(
                AFFINITY, job, launched, waiting, tasks, gangs, limits, servers, draws, log_job,
                log_server,
            )  # fmt: skip
            work -= looked
        elif count[job] < limit[job]:
            if len(left) == 1:
                server = 0 if _pool_has_room(job, demand, allowed, left) else NOWHERE
            else:
                work -= len(left)
                server = most_affine(
                    demand[job], allowed[job], row_start, opened, left, servers.share_of_unit
                )
            if server != NOWHERE:
                started = 1
                for r in range(len(servers.share_of_unit)):
                    left[server, r] -= demand[job, r]
                if server == opened[row_of[server]]:
                    opened[row_of[server]] += 1
                log_job[launched] = job
                log_server[launched] = server
        if started == 0:
            # The next workload counts from 0, so that the tenant keeps what this one has used.
            for r in range(gain.shape[1]):
                passed[tenant, r] += count[job] * gain[job, r]
            current[tenant] += 1
            if current[tenant] == stop[tenant]:
                level[tenant] = main[leaves + tenant, LEAST]
                _leave(rule, turns, degree, main, tenant, nothing, past)
            continue
        launched += pieces
        count[job] += started
        if once:
            _leave(rule, turns, degree, main, tenant, started * gain[job], past)
        else:
            _measure(
                rule, tenant, job, turns, started * gain[job], degree, main, waiting.weight, count,
                past,
            )  # fmt: skip
    return launched


@compiled
def enter(rule, tenants, turns, degree, main, waiting, past):
    """Put ``tenants`` (t,) that have workloads left into the trees."""
    nothing = np.zeros(past.gain.shape[1])
    for tenant in range(len(waiting.stop)):
        job = waiting.current[tenant]
        if tenants[tenant] and job < waiting.stop[tenant]:
            _measure(
                rule, tenant, job, turns, nothing, degree, main, waiting.weight, waiting.done, past
            )


@compiled
def _measure(rule, tenant, job, turns, received, degree, main, weight, count, past):
    """Write a tenant's measures, this step's tasks included, of which it has just ``received`` (m,)."""
    least, aggregate, dominant = np.inf, 0.0, 0.0
    for r in range(past.gain.shape[1]):
        # Multiplied, not added up: the same number of tasks is the same float in every order.
        used = past.before[tenant, r] + (past.passed[tenant, r] + count[job] * past.gain[job, r])
        if past.alone[tenant, r] > 0.0:
            least = min(least, used / past.alone[tenant, r])
        share = used * past.share_of_total[r]
        aggregate += share
        dominant = max(dominant, share)
    its_degree, its_main, its_second = keys_of(rule, least, aggregate, dominant, weight[tenant])
    set_pair(degree, tenant, its_degree, its_main)
    set_pair(main, tenant, its_main, its_second)
    if len(turns.node) > 0:
        set_measures(
            turns, tenant, rule, its_degree, its_main, its_second, received, past.share_of_total
        )


@compiled
def _next_by_pairs(degree, main):
    """Return the tenant that is next, of at least one that waits, as ``measures.next_by_history``."""
    if degree[1, LEAST] < 1.0 - DISCRETE_TOLERANCE:
        return first_of_least(degree)
    return first_of_least(main)


@compiled
def _pool_has_room(job, demand, allowed, left):
    """Return whether one task fits on the only server."""
    for r in range(demand.shape[1]):
        if demand[job, r] > left[0, r]:
            return False
    return allowed[job, 0]


@compiled
def _leave(rule, turns, degree, main, tenant, received, past):
    """Take a tenant that has just ``received`` (m,) resource × time out of the trees."""
    set_pair(degree, tenant, np.inf, np.inf)
    set_pair(main, tenant, np.inf, np.inf)
    if len(turns.node) > 0:
        set_measures(turns, tenant, rule, np.inf, np.inf, np.inf, received, past.share_of_total)


@compiled
def _beyond(tenant, job, count, past):
    """Return whether the tenant has borrowed all that it may."""
    for r in range(past.gain.shape[1]):
        used = past.before[tenant, r] + (past.passed[tenant, r] + count[job] * past.gain[job, r])
        if used > past.borrow[tenant, r]:
            return True
    return False
