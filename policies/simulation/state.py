"""Arrays of the event loop, as tuples of the plan, the constants and the state.

N tasks, q workloads that can run, t tenants, m resources; S servers in R rows; p columns of what a
task takes of a server (resources that the pool has, or slots). Whole numbers are float64 below
2^53.
"""

from __future__ import annotations

from typing import NamedTuple

from policies.arrays import BoolArray, FloatArray, IntArray


class Plan(NamedTuple):
    """Parameters of a simulation.

    Attributes:
        order: of tenants: ``BY_SHARE``, or a constant of ``long_term.measures``.
        rule: placement rule, a constant of ``placing``.
        kind: of ``memory``; length: seconds of a sliding window, or a decaying one's half-life.
        step: seconds for which what runs at a hand-out counts ahead.
        timeout: seconds with waiting tasks and none running after which a tenant goes first.
        boundaries: (B,) ascending seconds at which a tumbling window begins anew.
    """

    order: int
    rule: int
    kind: int
    length: float
    step: float
    timeout: float
    boundaries: FloatArray


class Arrivals(NamedTuple):
    """The tasks in the order of submission, and what becomes of them.

    Attributes:
        submit, duration: (N,) seconds; job: (N,) workload, -1 for a task that cannot run at all.
        order: (N,) tasks by workload, then submission; first: (q,) where a workload's begin.
        start, end: (N,) seconds and server: (N,), written when a task begins.
    """

    submit: FloatArray
    duration: FloatArray
    job: IntArray
    order: IntArray
    first: IntArray
    start: FloatArray
    end: FloatArray
    server: IntArray


class Tenants(NamedTuple):
    """Owners of workloads, and the quantities that order tenants.

    Attributes:
        first, stop: (t,) workloads of a tenant, in the order in which its tasks are taken.
        owner: (q,) tenant of each workload; limit: (q,) tasks at once.
        share: (q,) what one running task adds; weight, second_stage: (t,).
        amount: (q, m) of one task, whole; natural: (2, m) a whole amount times the first over the
            second is in the resource's unit.
        gain: (q, m) and partition: (t, m) in the resources' units; share_of_total: (m,) of a unit.
    """

    first: IntArray
    stop: IntArray
    owner: IntArray
    limit: FloatArray
    share: FloatArray
    weight: FloatArray
    second_stage: IntArray
    amount: FloatArray
    natural: FloatArray
    gain: FloatArray
    partition: FloatArray
    share_of_total: FloatArray


class Tally(NamedTuple):
    """Progress of all tenants and workloads.

    Attributes:
        arrived, launched: (q,) tasks so far; running: (q,) tasks now.
        blocked: (q,) True if tasks wait and fitted on no server after the last hand-out.
        listed: (q,) True if any task waits or runs; active: (q,) such workloads, ascending from
            ``first`` of each tenant on; actives: (t,) their number.
        waiting, running_tasks: (t,) tasks.
        idle_since: (t,) seconds since when tasks wait and none runs; inf.
        in_use: (t, m) whole.
        least: (p, t) lower bound on the demand of tasks that wait; fresh: (t,) True if a workload that
            is not blocked waits.
    """

    arrived: IntArray
    launched: IntArray
    running: FloatArray
    blocked: BoolArray
    listed: BoolArray
    active: IntArray
    actives: IntArray
    waiting: IntArray
    running_tasks: IntArray
    idle_since: FloatArray
    in_use: FloatArray
    least: FloatArray
    fresh: BoolArray


class Heap(NamedTuple):
    """Running tasks by their end (``ending``), as seconds (N,) and task (N,)."""

    ends: FloatArray
    tasks: IntArray


class Remembered(NamedTuple):
    """Resource × seconds of each tenant, used and then alone (``memory``).

    Attributes:
        total, rate: (t, 2 m), since: (t,) of everything in the window but what a sliding one forgot:
        gone, gone_rate, gone_since. noted: (t, 2 m) the rates that the log has last.
    """

    total: FloatArray
    rate: FloatArray
    since: FloatArray
    gone: FloatArray
    gone_rate: FloatArray
    gone_since: FloatArray
    noted: FloatArray


class Log(NamedTuple):
    """Changes of what a tenant uses, and would use alone, of shapes (L,), (L,) and (L, 2 m)."""

    time: FloatArray
    tenant: IntArray
    rate: FloatArray


class Freed(NamedTuple):
    """Servers with more room than at the last hand-out, as a list (S,) and a mask (S,)."""

    servers: IntArray
    marked: BoolArray


class Progress(NamedTuple):
    """Progress of workloads with gangs, as ``filling.gang_loop`` reads it.

    Attributes:
        done: (q,) running tasks; limit: (q,) tasks at once.
        least: (p,) zeros, because the index has all servers; tree, stop, current: empty.
    """

    done: FloatArray
    limit: FloatArray
    least: FloatArray
    tree: FloatArray
    stop: IntArray
    current: IntArray


class Placed(NamedTuple):
    """Places of the pieces of gangs.

    Attributes:
        progress: see :class:`Progress`.
        first: (N,) first piece of each task in ``kind`` and ``server``.
        kind: (P,) row in ``Tasks`` and server: (P,) of each piece, written when its task begins.
        log_kind, log_server: scratch, as long as the most pieces that start at once.
        free: (p,) unused by all servers that are there, whole.
    """

    progress: Progress
    first: IntArray
    kind: IntArray
    server: IntArray
    log_kind: IntArray
    log_server: IntArray
    free: FloatArray


class Evenness(NamedTuple):
    """State of MRFS (``filling.mrfs_loop``), empty for other policies.

    Attributes:
        capacity: (R, p) of one empty server. dominated, spread: (S, p), aggregate, room: (S,) as
            there; hosted: (S, p) whole dominant demand, of which ``aggregate`` is made.
    """

    capacity: FloatArray
    dominated: FloatArray
    hosted: FloatArray
    spread: FloatArray
    aggregate: FloatArray
    room: FloatArray


# Positions in the (8,) counters that outlive a call: tasks submitted, tasks running, rows of the log,
# rows that a sliding window has forgotten, boundaries passed, servers freed, whether the servers have
# changed, and the servers that starts of gangs which fail may still look at before the call returns.
SUBMITTED, RUNNING, ROWS, FORGOTTEN, PASSED, FREED, CHANGED, LOOKS_LEFT = range(8)
COUNTERS = 8
