"""The result of a backtest, with a column of means over the seeds for each policy.

Columns are compared with that of the first policy.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from math import isnan
from typing import Any

from allocator_service.backtests.measuring import jobs_from_bytes
from allocator_service.backtests.models import Backtest, Cell, CellStatus
from allocator_service.backtests.scenarios import Scenario
from allocator_service.billing.rating.lines import minor_digits
from policies.simulation import Jobs, reduction_by_job_size

DEFINITIONS = {
    "utilisation": "Resource × time in use over resource × time of all servers, from the first"
    " submission to the last end.",
    "waiting": "Seconds from a task's submission to its beginning; tasks that never began do not count.",
    "completion": "Seconds from a job's first submission to the end of its last task; jobs of which a"
    " task did not end do not count.",
    "reduction": "1 − mean completion time / that under the first policy, over the jobs of a size that"
    " both completed; mean_reduction is the mean over jobs of 1 − each one's ratio.",
    "completion_ratio": "Tasks that ended over tasks submitted.",
    "sharing_degree": "The least over resources of used / alone; alone is what the tenant would have"
    " used in its own part of the pool, C × w / sum(w).",
    "longest_starvation": "The longest time, in seconds, with tasks waiting and none running.",
    "jain_index": "Jain's index of dominant use over time for the weight, of tenants that submitted.",
    "envy": "How much more of its work the tenant would have done with what another one used, weights"
    " counted; 1 or less is no envy, null where it did nothing.",
    "charged": "What the tenant would pay for use under the price plan; commitments and fixed costs stay"
    " out. paid is that less what its own servers earn.",
    "saved": "Alone cost + outside cost − paid, as statements have it.",
    "spread": "Over seeds: mean, deviation of the sample, least and most. Curves are of the first seed.",
}

_PER_TENANT = (
    "submitted",
    "completed",
    "completion_ratio",
    "mean_waiting",
    "mean_completion",
    "dominant_use",
    "dominant_alone",
    "sharing_degree",
    "longest_starvation",
    "envy",
)
_COUNTS = ("submitted", "completed")
_MONEY = ("charged", "paid", "saved")


def results_of(backtest: Backtest, scenario: Scenario, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the whole result, from cells that are all done.

    A policy that could not run has its `error`, and the others have results.
    """
    spec, names = backtest.spec, scenario.tenants
    by_policy: list[list[Cell]] = [[] for _ in spec["policies"]]
    for cell in cells:
        by_policy[cell.policy].append(cell)
    plan = backtest.plan
    digits = None if plan is None else minor_digits(plan.pool)
    reference = next(
        (own for own in by_policy if any(cell.status == CellStatus.SUCCEEDED for cell in own)), []
    )
    baseline = {
        cell.seed: jobs_from_bytes(bytes(cell.jobs or b"")) for cell in _succeeded(reference)
    }
    return {
        "input": backtest.input,
        "baseline": spec["policies"][reference[0].policy]["name"] if reference else None,
        "resources": scenario.head["resources"],
        "units": scenario.head["units"],
        "price_plan": None if plan is None else str(plan.pk),
        "currency": None if plan is None else plan.pool.currency,
        "seeds": spec["seeds"],
        "resample": spec["resample"],
        "definitions": DEFINITIONS,
        "columns": [
            _column(policy, own, names, baseline, digits)
            for policy, own in zip(spec["policies"], by_policy, strict=True)
        ],
    }


def _succeeded(cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.status == CellStatus.SUCCEEDED]


def _column(
    policy: Mapping[str, Any],
    cells: Sequence[Cell],
    names: Sequence[str],
    baseline: Mapping[int, Jobs],
    digits: int | None,
) -> dict[str, Any]:
    done = _succeeded(cells)
    failed = next((cell.error for cell in cells if cell.status == CellStatus.FAILED), None)
    column: dict[str, Any] = {
        "policy": dict(policy),
        "error": failed,
        "seeds": [cell.seed for cell in done],
        "seconds": sum(cell.seconds or 0.0 for cell in done),
        "pool": None,
        "by_job_size": None,
        "tenants": None,
        "money": None,
        "curves": None,
    }
    # A mean over some of the seeds is not comparable with the means of others.
    if failed is not None or not done:
        return column
    found = [cell.result or {} for cell in done]
    money = [each["money"] for each in found if "money" in each]
    return column | {
        "pool": {
            name: {
                resource: _spread([each["pool"][name][resource] for each in found])
                for resource in found[0]["pool"][name]
            }
            if name == "utilisation"
            else _spread([each["pool"][name] for each in found])
            for name in found[0]["pool"]
        },
        "by_job_size": _by_job_size(done, baseline),
        "tenants": [
            _tenant(name, position, found, money, digits) for position, name in enumerate(names)
        ],
        "money": _money(money, digits),
        # Edges differ between seeds, so that curves have no mean.
        "curves": _named(found[0]["curves"], names),
    }


def _by_job_size(cells: Sequence[Cell], baseline: Mapping[int, Jobs]) -> list[dict[str, Any]]:
    """Return completion times by the number of a job's tasks, beside the baseline's of the same seed."""
    sizes = []
    for cell in cells:
        # A policy that draws nothing has one cell, which is compared with every seed.
        theirs = baseline.get(cell.seed) or next(iter(baseline.values()))
        sizes.append(reduction_by_job_size(jobs_from_bytes(bytes(cell.jobs or b"")), theirs))
    return [
        {
            "least": of_size[0].least,
            "most": of_size[0].most,
            "jobs": _mean([each.jobs for each in of_size]),
            "mean_completion": _mean([each.mean for each in of_size]),
            "baseline_completion": _mean([each.other_mean for each in of_size]),
            "reduction": _spread([each.reduction for each in of_size]),
            "mean_reduction": _spread([each.mean_reduction for each in of_size]),
        }
        for of_size in zip(*sizes, strict=True)
    ]


def _tenant(
    name: str,
    position: int,
    found: Sequence[Mapping[str, Any]],
    money: Sequence[Mapping[str, Any]],
    digits: int | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {"tenant": name}
    for measure in _PER_TENANT:
        mean = _mean([each["tenants"][measure][position] for each in found])
        row[measure] = (
            int(mean) if mean is not None and measure in _COUNTS and mean % 1 == 0 else mean
        )
    for measure in _MONEY:
        row[measure] = _mean_money([each[measure][position] for each in money], digits)
    return row


def _money(money: Sequence[Mapping[str, Any]], digits: int | None) -> dict[str, Any] | None:
    if not money:
        return None
    return {
        "charged": _mean_money([each["total_charged"] for each in money], digits),
        "saved": _mean_money([each["total_saved"] for each in money], digits),
        "unpriced": sorted({name for each in money for name in each["unpriced"]}),
    }


def _named(curves: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {**curves, "tenants": [names[position] for position in curves["tenants"]]}


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and not isnan(value)]


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return statistics.fmean(known) if known else None


def _spread(values: Iterable[float | None]) -> dict[str, Any] | None:
    """Return the spread of the known values over the seeds, None if there are none."""
    known = _known(values)
    if not known:
        return None
    return {
        "mean": statistics.fmean(known),
        "deviation": statistics.stdev(known) if len(known) > 1 else 0.0,
        "least": min(known),
        "most": max(known),
    }


def _mean_money(amounts: Iterable[str | None], digits: int | None) -> str | None:
    # Exact sums of texts: a mean of floats could differ by a cent.
    known = [Decimal(amount) for amount in amounts if amount is not None]
    if not known or digits is None:
        return None
    mean = sum(known, Decimal(0)) / len(known)
    return str(mean.quantize(Decimal(1).scaleb(-digits)))
