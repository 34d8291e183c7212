"""The front door of the simulation: a pool, a trace and a policy in, what happened out."""

from __future__ import annotations

import math

import numpy as np

from policies.arrays import FloatArray, IntArray, read_only
from policies.errors import PolicyNotApplicableError, PolicyUnknownError, ProblemError
from policies.filling.best_fit import NOWHERE
from policies.long_term.loop import H_MRF, LT_AF, LT_DRF
from policies.long_term.windows import Window
from policies.model.entitlement import entitled_partition
from policies.model.problem import Problem
from policies.model.queues import Queues, queues_of
from policies.proofs.pool_of_tasks import whole_pool
from policies.simulation.events import DRF, run_events
from policies.simulation.memory import DECAY, SLIDING, TUMBLING, UNBOUNDED
from policies.simulation.outcome import Simulation
from policies.simulation.trace import Trace

POLICIES = {"h-mrf": H_MRF, "lt-drf": LT_DRF, "lt-af": LT_AF, "drf": DRF}


def simulate(
    problem: Problem,
    trace: Trace,
    policy: str,
    *,
    window: Window | None = None,
    step: float = 1.0,
    until: float = math.inf,
) -> Simulation:
    """Run a trace through a pool: tasks arrive, run whole and end, and hold what they need meanwhile.

    After all that happens at one time, the policy hands out what fits, task by task, each to the
    tenant that is next by the rule of Tang et al., TPDS 2018, §5 (``drf``: Ghodsi et al., NSDI
    2011, Algorithm 1, on what runs now). What counts is what was used, and would have been alone,
    inside the window, and ``step`` seconds ahead of what runs: the policies' ``used`` of a step.
    Within a workload tasks begin in the order of their submission.

    Args:
        problem: its servers are one pool; ``tasks`` of a workload run at once at most, selectors
            are refused.
        trace: the tasks.
        policy: ``h-mrf``, ``lt-drf``, ``lt-af`` or ``drf``.
        window: how far back the policy looks; everything unless given.
        step: seconds, above 0, for which what runs counts ahead; the pool's decision interval.
        until: seconds at which to stop looking; by default when nothing happens any more.

    Returns:
        When each task began and ended and what everybody used all the while. The same input gives
        the same answer, to the last bit; work is linear in tasks times tenants that wait.

    Raises:
        PolicyUnknownError: no such policy here. PolicyNotApplicableError: a selector.
        ProblemError: a task of no workload, a step that is not above 0.
    """
    if policy not in POLICIES:
        raise PolicyUnknownError(
            "policy.unknown",
            f"policy {policy!r} cannot be simulated; these can: {', '.join(POLICIES)}",
        )
    if problem.has_selectors:
        raise PolicyNotApplicableError(
            "policy.no_placement", "a simulation sees the pool as one server: no server selectors"
        )
    if not (math.isfinite(step) and step > 0):
        raise ProblemError("history.step", f"step is {step}; it must be a number above 0")
    trace.check_workloads(problem.n)
    chosen = Window.unbounded() if window is None else window
    kind, length, boundaries = _window(chosen)
    pool = whole_pool(problem)
    queues = queues_of(problem, pool.reasons, problem.dominant_share_per_task)
    by_time = np.argsort(trace.submit, kind="stable")
    job_of = _jobs(problem, queues)[trace.workload[by_time]]
    order = np.argsort(job_of, kind="stable")
    first_task = np.searchsorted(job_of[order], np.arange(len(queues.workloads)))
    count, m = len(by_time), problem.m
    start, end = np.full(count, np.nan), np.full(count, np.nan)
    log_time, log_tenant = np.empty(3 * count), np.empty(3 * count, dtype=np.int64)
    log_rate = np.empty((3 * count, 2 * m))
    share = np.divide(1.0, problem.totals, out=np.zeros(m), where=problem.totals > 0)
    rows = run_events(
        POLICIES[policy], kind, length, boundaries, float(step), float(until),
        trace.submit[by_time], trace.duration[by_time], job_of, order, first_task,
        queues.first, queues.stop, queues.limit, pool.demand[queues.workloads], pool.room.copy(),
        problem.demand[queues.workloads], entitled_partition(problem), queues.share, queues.weight,
        queues.second_stage, share, start, end, log_time, log_tenant, log_rate,
    )  # fmt: skip
    ended = float(until)
    if not math.isfinite(ended):
        ended = float(max(np.max(trace.submit, initial=-np.inf), np.nanmax(end, initial=-np.inf)))
    begun, finished = np.empty(count), np.empty(count)
    begun[by_time], finished[by_time] = start, np.where(end <= ended, end, np.nan)
    return Simulation(
        problem=problem,
        trace=trace,
        policy=policy,
        window=chosen,
        start=read_only(begun),
        end=read_only(finished),
        ended=ended if count else 0.0,
        changed_at=read_only(log_time[:rows]),
        changed_tenant=read_only(log_tenant[:rows]),
        changed_rate=read_only(log_rate[:rows]),
    )


def _window(window: Window) -> tuple[int, float, FloatArray]:
    """Kind, length or half-life, and boundaries, as the compiled loop knows them."""
    boundaries = np.array(window.boundaries, dtype=np.float64)
    if window.kind == "tumbling":
        return TUMBLING, 0.0, boundaries
    if window.kind == "sliding" and math.isfinite(window.length):
        return SLIDING, window.length, boundaries
    if window.kind == "decay" and math.isfinite(window.half_life):
        return DECAY, window.half_life, boundaries
    return UNBOUNDED, 0.0, boundaries


def _jobs(problem: Problem, queues: Queues) -> IntArray:
    """(n,) where each workload stands in the queues; ``NOWHERE`` if it cannot run at all."""
    jobs = np.full(problem.n, NOWHERE, dtype=np.int64)
    jobs[queues.workloads] = np.arange(len(queues.workloads))
    return jobs
