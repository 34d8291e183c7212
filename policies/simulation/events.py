"""One event after another, and a hand-out after all that happens at one time: the compiled loop.

Source: Tang et al., TPDS 2018, §5 (who is next); policies §4 for a step's measures, §8 for the events.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.long_term.loop import H_MRF, LT_DRF
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.simulation.ending import begin_running, finish_first
from policies.simulation.memory import ROUNDING, SLIDING, forget, progress, settle

DRF = 3


@compiled
def run_events(  # type: ignore[no-untyped-def]
    rule, kind, length, boundaries, step, until, submit, duration, job_of, order, first_task,
    first, stop, limit, demand, left, gain, partition, dominant, weight, second_stage,
    share_of_total, start, end, log_time, log_tenant, log_rate,
):  # fmt: skip
    """Run all tasks; returns how many rows of the log are in use.

    Args:
        rule: ``DRF`` or a constant of ``longterm_filling``; kind: of ``memory``.
        length: seconds of a sliding window, or a decaying one's half-life; boundaries: (B,)
            ascending seconds at which a tumbling one begins anew.
        step: seconds for which what runs at a hand-out counts ahead; until: seconds to stop at.
        submit, duration, job_of: (N,) tasks in the order of submission; job_of is -1 for a task
            that cannot run at all.
        order: (N,) tasks by job, then submission; first_task: (q,) where a job's begin.
        first, stop: (t,) jobs of a tenant, in the order in which its tasks are taken.
        limit: (q,) tasks at once; demand: (q, m) and left: (m,) in whole units of the pool.
        gain: (q, m) demand and partition: (t, m) in the resources' own units.
        dominant: (q,) share per task; weight, second_stage: (t,); share_of_total: (m,).
        start, end: (N,) given the seconds at which each task begins and ends.
        log_time, log_tenant, log_rate: (3 N,), (3 N,), (3 N, 2 m) given every change of what a
            tenant uses and would use alone.
    """
    tenants, m = len(first), gain.shape[1]
    tenant_of = np.empty(len(limit), dtype=np.int64)
    for i in range(tenants):
        tenant_of[first[i] : stop[i]] = i
    arrived, launched = np.zeros(len(limit), dtype=np.int64), np.zeros(len(limit), dtype=np.int64)
    running = np.zeros(len(limit))
    ends, ending = np.empty(len(submit)), np.empty(len(submit), dtype=np.int64)
    active = 0
    origin = submit[0] if len(submit) else 0.0
    total, rate = np.zeros((tenants, 2 * m)), np.zeros((tenants, 2 * m))
    gone, gone_rate = np.zeros((tenants, 2 * m)), np.zeros((tenants, 2 * m))
    since, gone_since = np.full(tenants, origin), np.full(tenants, origin)
    least, may_fit = np.full((m, tenants), np.inf), np.empty(tenants, dtype=np.bool_)
    who, what = np.empty(tenants, dtype=np.int64), np.empty(tenants, dtype=np.int64)
    degree, main, second = np.empty(tenants), np.empty(tenants), np.empty(tenants)
    stages = 1 + second_stage.max() if tenants else 0
    new_rate = np.zeros(2 * m)
    room = np.empty(m)
    rows = cursor = task = passed = 0
    boundary = -np.inf
    while True:
        now = submit[task] if task < len(submit) else np.inf
        if active:
            now = min(now, ends[0])
        if not now <= until or now == np.inf:
            return rows
        while passed < len(boundaries) and boundaries[passed] <= now:
            boundary = boundaries[passed]
            passed += 1
        while True:
            if active and ends[0] == now:
                job = job_of[finish_first(ends, ending, active)]
                active -= 1
                running[job] -= 1.0
                for r in range(m):
                    left[r] += demand[job, r]
            elif task < len(submit) and submit[task] == now:
                job = job_of[task]
                task += 1
                if job == NOWHERE:
                    continue
                arrived[job] += 1
            else:
                break
            i = tenant_of[job]
            _least_demand(i, first, stop, arrived, launched, running, limit, demand, least)
            _use(i, first, stop, running, gain, new_rate)
            _use_alone(
                i, first, stop, arrived, launched, running, limit, gain, partition, room, new_rate
            )
            if _differs(i, rate, new_rate):
                settle(i, now, kind, length, boundary, total, rate, since)
                rows = _change(i, now, rate, new_rate, rows, log_time, log_tenant, log_rate)
        begin = min(now, now + step - length) if kind == SLIDING else -np.inf
        if kind == SLIDING and rule != DRF:
            cursor = forget(
                begin, cursor, rows, log_time, log_tenant, log_rate, gone, gone_rate, gone_since
            )
        for stage in range(stages):
            count = _gather(
                stage, second_stage, first, stop, arrived, launched, running, limit, demand, left,
                least, may_fit, who, what,
            )  # fmt: skip
            _measure(
                rule, kind, length, boundary, begin, now, step, 0, count, who, first, stop, running,
                dominant, weight, share_of_total, total, rate, since, gone, gone_rate, gone_since,
                degree, main, second,
            )  # fmt: skip
            while count:
                chosen = _next(rule, who, count, degree, main, second)
                i, job = who[chosen], what[chosen]
                begun = order[first_task[job] + launched[job]]
                start[begun], end[begun] = now, now + duration[begun]
                begin_running(ends, ending, active, end[begun], begun)
                active += 1
                launched[job] += 1
                running[job] += 1.0
                for r in range(m):
                    left[r] -= demand[job, r]
                    new_rate[m + r] = rate[i, m + r]
                _least_demand(i, first, stop, arrived, launched, running, limit, demand, least)
                _use(i, first, stop, running, gain, new_rate)
                settle(i, now, kind, length, boundary, total, rate, since)
                rows = _change(i, now, rate, new_rate, rows, log_time, log_tenant, log_rate)
                what[chosen] = NOWHERE
                count = _keep(
                    count, first, stop, arrived, launched, running, limit, demand, left, who, what
                )
                chosen = min(chosen, count - 1)
                while chosen >= 0 and who[chosen] > i:
                    chosen -= 1
                if chosen >= 0 and who[chosen] == i:
                    _measure(
                        rule, kind, length, boundary, begin, now, step, chosen, chosen + 1, who,
                        first, stop, running, dominant, weight, share_of_total, total, rate, since,
                        gone, gone_rate, gone_since, degree, main, second,
                    )  # fmt: skip


@compiled
def _differs(i, rate, new_rate):  # type: ignore[no-untyped-def]
    differs = False
    for c in range(len(new_rate)):
        differs |= rate[i, c] != new_rate[c]
    return differs


@compiled
def _change(  # type: ignore[no-untyped-def]
    i, now, rate, new_rate, rows, log_time, log_tenant, log_rate
):
    """Change a tenant's rates and write them down; returns the rows of the log."""
    log_time[rows], log_tenant[rows] = now, i
    for c in range(len(new_rate)):
        rate[i, c] = new_rate[c]
        log_rate[rows, c] = new_rate[c]
    return rows + 1


@compiled
def _least_demand(  # type: ignore[no-untyped-def]
    i, first, stop, arrived, launched, running, limit, demand, least
):
    """Of each resource, the least that any of a tenant's waiting tasks needs: less room, no task."""
    for r in range(demand.shape[1]):
        least[r, i] = np.inf
    for job in range(first[i], stop[i]):
        if launched[job] < arrived[job] and running[job] < limit[job]:
            for r in range(demand.shape[1]):
                least[r, i] = min(least[r, i], demand[job, r])


@compiled
def _use(i, first, stop, running, gain, new_rate):  # type: ignore[no-untyped-def]
    """What a tenant's running tasks use, added up anew so that nothing drifts."""
    for r in range(gain.shape[1]):
        amount = 0.0
        for job in range(first[i], stop[i]):
            amount += running[job] * gain[job, r]
        new_rate[r] = amount


@compiled
def _use_alone(  # type: ignore[no-untyped-def]
    i, first, stop, arrived, launched, running, limit, gain, partition, room, new_rate
):
    """What a tenant would use in its own partition, as ``policies.model.entitlement`` has it."""
    m = gain.shape[1]
    for r in range(m):
        room[r] = partition[i, r]
        new_rate[m + r] = 0.0
    for job in range(first[i], stop[i]):
        tasks = min(arrived[job] - launched[job] + running[job], limit[job])
        for r in range(m):
            if gain[job, r] > 0.0:
                most = room[r] / gain[job, r]
                nearest = np.floor(most + 0.5)
                close = abs(most - nearest) <= DISCRETE_TOLERANCE * max(1.0, nearest)
                tasks = min(tasks, nearest if close else np.floor(most))
        for r in range(m):
            room[r] = max(room[r] - tasks * gain[job, r], 0.0)
            new_rate[m + r] += tasks * gain[job, r]


@compiled
def _gather(  # type: ignore[no-untyped-def]
    stage, second_stage, first, stop, arrived, launched, running, limit, demand, left, least,
    may_fit, who, what,
):  # fmt: skip
    """Put the stage's tenants with a task that waits and fits into ``who``; returns their number."""
    for i in range(len(first)):
        may_fit[i] = second_stage[i] == stage
    for r in range(len(left)):
        for i in range(len(first)):
            may_fit[i] &= least[r, i] <= left[r]
    count = 0
    for i in range(len(first)):
        if may_fit[i]:
            who[count], what[count] = i, NOWHERE
            count += 1
    return _keep(count, first, stop, arrived, launched, running, limit, demand, left, who, what)


@compiled
def _keep(  # type: ignore[no-untyped-def]
    count, first, stop, arrived, launched, running, limit, demand, left, who, what
):
    """Of ``count`` tenants keep those with a task that waits and fits, in their order.

    ``what`` is given the first such job of each. One that is there already has tasks that wait.
    """
    kept = 0
    for c in range(count):
        i, job = who[c], what[c]
        if job != NOWHERE:
            for r in range(len(left)):
                if demand[job, r] > left[r]:
                    job = NOWHERE
                    break
        if job == NOWHERE:
            for candidate in range(first[i], stop[i]):
                fits = launched[candidate] < arrived[candidate]
                fits &= running[candidate] < limit[candidate]
                for r in range(len(left)):
                    fits &= demand[candidate, r] <= left[r]
                if fits:
                    job = candidate
                    break
        if job != NOWHERE:
            who[kept], what[kept] = i, job
            kept += 1
    return kept


@compiled
def _measure(  # type: ignore[no-untyped-def]
    rule, kind, length, boundary, begin, now, step, from_place, to_place, who, first, stop, running,
    dominant, weight, share_of_total, total, rate, since, gone, gone_rate, gone_since, degree, main,
    second,
):  # fmt: skip
    """Write what orders the tenants in ``who``: what the window holds, and ``step`` ahead in full."""
    m = len(share_of_total)
    for c in range(from_place, to_place):
        i = who[c]
        if rule == DRF:
            share = 0.0
            for job in range(first[i], stop[i]):
                share += running[job] * dominant[job]
            main[i] = share / weight[i]
            continue
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
            if alone > 0.0:
                least = min(least, used / alone)
            aggregate += used * share_of_total[r]
            largest = max(largest, used * share_of_total[r])
        degree[i] = min(least, 1.0)
        aggregate /= weight[i]
        largest /= weight[i]
        main[i] = largest if rule == LT_DRF else aggregate
        second[i] = largest if rule == H_MRF else aggregate


@compiled
def _next(rule, who, count, degree, main, second):  # type: ignore[no-untyped-def]
    """Position among the ``count`` candidates of the one that goes next."""
    if rule == H_MRF:
        least = np.inf
        for c in range(count):
            least = min(least, degree[who[c]])
        if least < 1.0 - DISCRETE_TOLERANCE:
            return _least(who, count, degree, main)
    if rule == DRF:
        return _least(who, count, main, main)
    return _least(who, count, main, second)


@compiled
def _least(who, count, measure, tie):  # type: ignore[no-untyped-def]
    """The first by position with the least ``tie`` among those with the least ``measure``."""
    least = np.inf
    for c in range(count):
        least = min(least, measure[who[c]])
    threshold = least * (1.0 + DISCRETE_TOLERANCE)
    least = np.inf
    for c in range(count):
        if measure[who[c]] <= threshold:
            least = min(least, tie[who[c]])
    least *= 1.0 + DISCRETE_TOLERANCE
    for c in range(count):
        if measure[who[c]] <= threshold and tie[who[c]] <= least:
            return c
    return 0
