"""Measures of one simulation, those of the papers (policies §8), as plain numbers.

A number that does not exist (no job completed, no work) is None.
"""

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.simulation import (
    Jobs,
    Simulation,
    envy,
    fairness_of,
    jobs_of,
    longest_starvation,
    utilisation_between,
)

# Of curves over time, and of distributions.
POINTS = 80
QUANTILES = 40
# Tenants whose shares are drawn over time: those with the most work.
DRAWN_TENANTS = 12


def measured(simulation: Simulation) -> dict[str, Any]:
    """Return the measures of a simulation as `pool`, `tenants` (by position) and `curves`."""
    jobs, problem, trace = jobs_of(simulation), simulation.problem, simulation.trace
    owner = problem.workload_tenant[trace.workload]
    starvation, jealous = longest_starvation(simulation), envy(simulation)
    submitted = np.bincount(owner, minlength=problem.t)
    ended = np.bincount(owner[~np.isnan(simulation.end)], minlength=problem.t)
    work = _dominant(simulation.used, problem.totals)
    alone = _dominant(simulation.alone, problem.totals)
    waited = _by_tenant(simulation.waiting, owner, problem.t)
    took = _by_tenant(jobs.completion, jobs.tenant, problem.t)
    degree = simulation.sharing_degree
    envied = jealous[np.isfinite(jealous)]
    pool = {
        "utilisation": {
            name: float(part)
            for name, part in zip(problem.resources, simulation.mean_utilisation, strict=True)
        },
        "seconds_simulated": simulation.ended - float(trace.submit.min(initial=simulation.ended)),
        "tasks": trace.tasks,
        "tasks_completed": int(ended.sum()),
        "tasks_never_begun": int(np.isnan(simulation.start).sum()),
        "completion_ratio": float(ended.sum() / max(trace.tasks, 1)),
        "mean_waiting": _number(_mean(simulation.waiting)),
        "median_waiting": _quantile(simulation.waiting, 0.5),
        "p95_waiting": _quantile(simulation.waiting, 0.95),
        "mean_completion": _number(_mean(jobs.completion)),
        "median_completion": _quantile(jobs.completion, 0.5),
        "p95_completion": _quantile(jobs.completion, 0.95),
        "jain_index": fairness_of(simulation),
        # The tolerance covers the rounding of sums over a whole trace.
        "tenants_envying": int((envied > 1 + 1e-9).sum() + np.isinf(jealous).sum()),
        "longest_starvation": float(starvation.max(initial=0.0)),
        "min_sharing_degree": _number(np.nanmin(degree)) if (~np.isnan(degree)).any() else None,
    }
    tenants = {
        "submitted": submitted.tolist(),
        "completed": ended.tolist(),
        "completion_ratio": _numbers(simulation.completed),
        "mean_waiting": _numbers(waited),
        "mean_completion": _numbers(took),
        "dominant_use": _numbers(work),
        "dominant_alone": _numbers(alone),
        "sharing_degree": _numbers(degree),
        "longest_starvation": _numbers(starvation),
        "envy": _numbers(np.where(np.isinf(jealous), np.nan, jealous)),
    }
    return {"pool": pool, "tenants": tenants, "curves": _curves(simulation, jobs, work)}


def _curves(simulation: Simulation, jobs: Jobs, work: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return utilisation, shares and sharing degrees over time, and quantiles of completion times."""
    begin = float(simulation.trace.submit.min(initial=simulation.ended))
    if not simulation.ended > begin:
        return {"edges": [], "utilisation": {}, "tenants": [], "shares": [], "degrees": []}
    edges = np.linspace(begin, simulation.ended, POINTS + 1)
    # Stable: tenants with equal work are drawn in the order of the scenario.
    drawn = np.sort(np.argsort(-work, kind="stable")[:DRAWN_TENANTS])
    middle = (edges[1:] + edges[:-1]) / 2
    used = utilisation_between(simulation, edges)
    shares = simulation.dominant_shares_at(middle)[:, drawn]
    degrees = simulation.sharing_degrees_at(edges[1:])[:, drawn]
    levels = np.linspace(0, 1, QUANTILES + 1)
    done = jobs.completion[~np.isnan(jobs.completion)]
    return {
        "edges": edges.tolist(),
        "utilisation": {
            name: used[:, r].tolist() for r, name in enumerate(simulation.problem.resources)
        },
        "tenants": drawn.tolist(),
        "shares": [_numbers(column) for column in shares.T],
        "degrees": [_numbers(column) for column in degrees.T],
        "completion": {
            "part": (levels * len(done) / max(len(jobs.job), 1)).tolist(),
            "seconds": np.quantile(done, levels).tolist() if len(done) else [],
        },
    }


def jobs_to_bytes(jobs: Jobs) -> bytes:
    """Return jobs as bytes, with which another cell compares its own."""
    file = io.BytesIO()
    np.savez_compressed(
        file,
        job=jobs.job,
        tenant=jobs.tenant,
        tasks=jobs.tasks,
        submit=jobs.submit,
        completion=jobs.completion,
    )
    return file.getvalue()


def jobs_from_bytes(content: bytes) -> Jobs:
    """Return the jobs of `jobs_to_bytes`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        columns: Mapping[str, Any] = {name: file[name] for name in file.files}
    return Jobs(**columns)


def _dominant(
    amount: npt.NDArray[np.float64], totals: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return (t,) seconds of the whole pool's resource of which each tenant used most."""
    share = np.zeros_like(amount)
    np.divide(amount, totals, out=share, where=totals > 0)
    most: npt.NDArray[np.float64] = share.max(axis=1, initial=0.0)
    return most


def _by_tenant(
    values: npt.NDArray[np.float64], owner: npt.NDArray[np.int64], tenants: int
) -> npt.NDArray[np.float64]:
    """Return the (tenants,) mean of the known values, NaN for a tenant without any."""
    known = ~np.isnan(values)
    count = np.bincount(owner[known], minlength=tenants)
    total = np.bincount(owner[known], weights=values[known], minlength=tenants)
    mean = np.full(tenants, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


def _mean(values: npt.NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _quantile(values: npt.NDArray[np.float64], part: float) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.quantile(known, part)) if len(known) else None


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _numbers(values: npt.NDArray[Any]) -> list[float | None]:
    return [_number(value) for value in values.tolist()]
