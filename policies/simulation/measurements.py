"""Measurements of a simulated policy, and comparisons of two.

Sources: Wang et al., TPDS 2015, §6 (utilisation, completion times of jobs and their reduction by
size, tasks completed); Tang et al., TPDS 2018, §7 (sharing degrees); Ghodsi et al., NSDI 2011, §6;
policies §8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.arrays import FloatArray, IntArray, grouped_sum, read_only
from policies.errors import ProblemError
from policies.model.jain import jain_index
from policies.model.tolerance import SHARE_TOLERANCE
from policies.simulation.outcome import Simulation

# Tasks of a job, from and to: the classes of DRFH, Fig. 7b.
JOB_SIZES = ((1, 50), (51, 100), (101, 500), (501, 1000), (1001, None))


@dataclass(frozen=True, eq=False)
class Jobs:
    """The jobs of a trace, ascending by number.

    Attributes:
        job: (J,) number; tenant: (J,) whose; tasks: (J,) how many it has.
        submit: (J,) seconds, of its first task; completion: (J,) seconds from there to the end of its
            last task, NaN where a task did not end.
    """

    job: IntArray
    tenant: IntArray
    tasks: IntArray
    submit: FloatArray
    completion: FloatArray


def jobs_of(simulation: Simulation) -> Jobs:
    """Return the jobs of a simulation with their completion times."""
    trace = simulation.trace
    job, first, inverse = np.unique(trace.job, return_index=True, return_inverse=True)
    submit, end = np.full(len(job), np.inf), np.full(len(job), -np.inf)
    np.minimum.at(submit, inverse, trace.submit)
    np.maximum.at(end, inverse, np.where(np.isnan(simulation.end), np.inf, simulation.end))
    end = np.where(np.isinf(end), np.nan, end)
    return Jobs(
        job=read_only(job),
        tenant=read_only(simulation.problem.workload_tenant[trace.workload[first]]),
        tasks=read_only(np.bincount(inverse, minlength=len(job))),
        submit=read_only(submit),
        completion=read_only(end - submit),
    )


def distribution(values: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the cumulative distribution of values.

    It consists of the distinct values, ascending, and the part at or below each. NaN counts as
    larger than everything: the last part is below 1 where there are any.
    """
    given = np.asarray(values, dtype=np.float64).ravel()
    distinct, count = np.unique(given[~np.isnan(given)], return_counts=True)
    return distinct, np.cumsum(count) / max(len(given), 1)


@dataclass(frozen=True)
class SizeClass:
    """Jobs of some size that were completed under two policies.

    Attributes:
        least, most: tasks of a job; most is None where there is no bound.
        jobs: how many were completed under both.
        mean, other_mean: seconds to completion, NaN without jobs.
        reduction: by how much of the other's mean ours is less: 1 − mean / other mean.
        mean_reduction: of each job's completion time, on average over the jobs.
    """

    least: int
    most: int | None
    jobs: int
    mean: float
    other_mean: float
    reduction: float
    mean_reduction: float


def reduction_by_job_size(mine: Jobs, theirs: Jobs) -> tuple[SizeClass, ...]:
    """Completion times against another policy on the same trace, by the number of a job's tasks.

    Jobs of which a task did not end under one of them are left out, as in the paper.

    Raises:
        ProblemError: they are jobs of different traces.
    """
    same = np.array_equal(mine.job, theirs.job) and np.array_equal(mine.tasks, theirs.tasks)
    if not same:
        raise ProblemError("simulation.trace", "these are jobs of different traces")
    both = ~(np.isnan(mine.completion) | np.isnan(theirs.completion))
    found = []
    for least, most in JOB_SIZES:
        of_size = both & (mine.tasks >= least) & (mine.tasks <= (most or math.inf))
        ours_took, other_took = mine.completion[of_size], theirs.completion[of_size]
        mean, other_mean = _mean(ours_took), _mean(other_took)
        found.append(
            SizeClass(
                least, most, int(of_size.sum()), mean, other_mean, 1 - mean / other_mean,
                _mean(1 - ours_took / other_took),
            )
        )  # fmt: skip
    return tuple(found)


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else math.nan


def utilisation_between(simulation: Simulation, edges: npt.ArrayLike) -> FloatArray:
    """Return the part (B, m) of each resource in use, on average from each edge to the next.

    It is a part of all the problem's servers, whether or not they are there. If tenants have
    dedicated clouds, which share servers, it can exceed 1.

    Args:
        edges: (B + 1,) seconds, ascending.
    """
    at = np.asarray(edges, dtype=np.float64)
    times, in_use = simulation.utilisation
    if not len(times):
        return np.zeros((len(at) - 1, simulation.problem.m))
    lengths = np.diff(times)[:, None]
    # Edges are looked up in the integral, so that each costs the same, however long it lasts.
    area = np.concatenate([np.zeros((1, in_use.shape[1])), (in_use[:-1] * lengths).cumsum(axis=0)])
    columns = [np.interp(at, times, area[:, r]) for r in range(in_use.shape[1])]
    mean: FloatArray = np.diff(np.stack(columns, axis=1), axis=0) / np.diff(at)[:, None]
    return mean


@dataclass(frozen=True, eq=False)
class Completion:
    """Tasks completed over tasks submitted, per tenant, beside another policy's.

    Attributes:
        ratio, other_ratio: (t,); NaN for tenants that submitted nothing.
        more, fewer: part of the tenants that completed more tasks, or fewer.
        only_here: part of the tenants that completed all of their tasks here and not there.
    """

    ratio: FloatArray
    other_ratio: FloatArray
    more: float
    fewer: float
    only_here: float


def completion_against(ratio: FloatArray, other_ratio: FloatArray) -> Completion:
    """Compare completion with that of another policy on the same trace.

    Args:
        ratio, other_ratio: (t,) ``Simulation.completed`` under each.
    """
    submitted = ~np.isnan(ratio)
    mine, theirs = ratio[submitted], other_ratio[submitted]
    count = max(len(mine), 1)
    return Completion(
        ratio,
        other_ratio,
        more=float((mine > theirs).sum() / count),
        fewer=float((mine < theirs).sum() / count),
        only_here=float(((mine == 1) & (theirs < 1)).sum() / count),
    )


def longest_starvation(simulation: Simulation) -> FloatArray:
    """Return the longest time (t,), in seconds, that a tenant had tasks waiting and none running.

    A task that is larger than every server waits until the end of the simulation.
    """
    trace, tenants, ended = simulation.trace, simulation.problem.t, simulation.ended
    owner = simulation.problem.workload_tenant[trace.workload]
    begun, done = ~np.isnan(simulation.start), ~np.isnan(simulation.end)
    time = np.concatenate([trace.submit, simulation.start[begun], simulation.end[done]])
    who = np.concatenate([owner, owner[begun], owner[done]])
    arrived, started, over = np.ones(len(owner)), np.ones(begun.sum()), np.ones(done.sum())
    waiting = np.concatenate([arrived, -started, 0 * over])
    running = np.concatenate([0 * arrived, started, -over])
    order = np.lexsort((time, who))
    time, who = time[order], who[order]
    moment = np.ones(len(time), dtype=np.bool_)  # the last row of what one tenant does at one time
    moment[:-1] = (time[1:] != time[:-1]) | (who[1:] != who[:-1])
    counts = []
    for change in (waiting, running):
        total = np.concatenate([[0.0], np.cumsum(change[order])])
        of_others = total[np.searchsorted(who, who)]
        counts.append((total[1:] - of_others)[moment])
    time, who = time[moment], who[moment]
    idle = (counts[0] > 0) & (counts[1] == 0)
    following = np.zeros(len(time), dtype=np.bool_)
    following[1:] = who[1:] == who[:-1]
    until = np.full(len(time), ended)
    until[:-1] = np.where(following[1:], time[1:], ended)
    begins = idle.copy()
    begins[1:] &= ~(idle[:-1] & following[1:])
    wait = np.cumsum(begins)[idle] - 1
    lengths = np.bincount(wait, weights=np.maximum(until - time, 0.0)[idle])
    longest = np.zeros(tenants)
    np.maximum.at(longest, who[begins], lengths)
    return read_only(longest)


def fairness_of(simulation: Simulation) -> float | None:
    """Jain's index of what tenants used of their dominant resource over time, for their weight.

    Tenants that submitted nothing, and those served second, do not count; None without any use.
    """
    problem = simulation.problem
    share = np.zeros_like(simulation.used)
    np.divide(simulation.used, problem.totals, out=share, where=problem.totals > 0)
    weighted = share.max(axis=1) / problem.effective_weight
    submitted = ~np.isnan(simulation.completed) & ~problem.second_stage
    return jain_index(weighted[submitted])


def envy(simulation: Simulation) -> FloatArray:
    """Return how much more of its work a tenant (t,) would have done with another's bundle.

    A bundle is what a tenant used. A tenant's work is what it submitted, resource × seconds. With a
    bundle it does the part that the scarcest resource of the bundle allows, all of it at most. The
    answer is the largest such part with another tenant's bundle, times the ratio of their weights,
    over that with its own. It is 1 or less without envy, inf if the tenant did nothing, and NaN
    without work.
    """
    problem, trace = simulation.problem, simulation.trace
    work = np.zeros((problem.t, problem.m))
    owner = problem.workload_tenant[trace.workload]
    for r in range(problem.m):
        amount = problem.demand[trace.workload, r] * trace.duration
        work[:, r] = grouped_sum(amount, owner, problem.t)
    weighted = simulation.used / problem.effective_weight[:, None]
    found = np.full(problem.t, np.nan)
    for i in np.flatnonzero(work.any(axis=1)):
        needed = work[i] > 0
        part = (weighted[:, needed] * problem.effective_weight[i] / work[i, needed]).min(axis=1)
        own = min(float(part[i]), 1.0)
        best = min(float(np.delete(part, i).max(initial=0.0)), 1.0)
        if own > 0:
            found[i] = best / own
        else:
            found[i] = math.inf if best > SHARE_TOLERANCE else 0.0
    return read_only(found)


@dataclass(frozen=True, eq=False)
class Spread:
    """Statistics of a repeated measurement, each with the shape of one result.

    Attributes:
        mean, deviation (of the sample), least, most: over the repetitions; count: how many.
    """

    mean: FloatArray
    deviation: FloatArray
    least: FloatArray
    most: FloatArray
    count: int


def over_seeds(measure: Callable[[int], npt.ArrayLike], seeds: Iterable[int]) -> Spread:
    """Measure once with each seed.

    Raises:
        ProblemError: no seed.
    """
    found = np.array([np.asarray(measure(seed), dtype=np.float64) for seed in seeds])
    if not len(found):
        raise ProblemError("simulation.seeds", "a repeated measurement needs at least one seed")
    deviation = found.std(axis=0, ddof=1) if len(found) > 1 else np.zeros(found.shape[1:])
    return Spread(found.mean(axis=0), deviation, found.min(axis=0), found.max(axis=0), len(found))
