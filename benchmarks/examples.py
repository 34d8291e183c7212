"""Pictures of the worked examples in docs/policies.

``python -m benchmarks.examples`` solves the example of each page and writes its picture to
docs/pictures/example-*.svg.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from allocator_service.core.charts import (
    BarRow,
    Chart,
    Reference,
    StepLine,
    bar_chart,
    column,
    steps_chart,
)
from policies import (
    Allocation,
    Problem,
    dominant_on,
    evaluate_document,
    history_from_document,
    problem_from_document,
    solve,
)
from policies.simulation import Trace, simulate

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "pictures"
LONG_TERM = ("h-mrf", "lt-af", "lt-drf")
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def _document(page: str) -> dict[str, Any]:
    # Exactly one: with a second block on the page the picture could be of the other.
    (block,) = re.findall(
        r"```json\n(.*?)```", (DOCS / "policies" / f"{page}.md").read_text(), re.DOTALL
    )
    document: dict[str, Any] = json.loads(block)
    return document


def _solve_example(page: str) -> Allocation:
    parsed = problem_from_document(_document(page))
    return solve(parsed.problem, parsed.policy, mode=parsed.mode, options=parsed.options)


def _pool_in_parts(title: str, answer: Allocation) -> Chart:
    """Draw the part of each resource that every workload has, and the rest."""
    problem = answer.problem
    # Rounded, because a rest of 1e-14 would be drawn as a part of its own.
    used = (100 * answer.tasks[:, None] * problem.demand / problem.totals).round(6)
    left = (100 - used.sum(axis=0)).round(6)
    free = left.any()
    rows = [
        BarRow(name, [*used[:, r].tolist(), *([float(left[r])] if free else [])])
        for r, name in enumerate(problem.resources)
    ]
    return bar_chart(
        title=title,
        unit="% of the pool",
        series=[*problem.tenants, *(["unallocated"] if free else [])],
        rows=rows,
        stacked=True,
    )


def asset() -> Chart:
    """Draw the example of asset fairness."""
    return _pool_in_parts("asset: equal sums of shares, 4/5 each", _solve_example("asset"))


def ceei() -> Chart:
    """Draw the example of the competitive equilibrium."""
    return _pool_in_parts("ceei: what equal budgets buy", _solve_example("ceei"))


def long_term() -> Chart:
    """Draw the tasks and degrees of Example 4 of Tang et al. under the three policies."""
    document = _document("long-term")
    parsed = problem_from_document(document)
    problem = parsed.problem
    history = history_from_document(document["history"], problem.tenants, problem.resources)
    # The tasks of the first step follow from its use: the page states the use only.
    first = (history.used / problem.demand).min(axis=1)
    tasks, degrees = [], []
    for policy in LONG_TERM:
        answer = solve(problem, policy, options=parsed.options, history=history)
        assert answer.history is not None
        for i, tenant in enumerate(problem.tenants):
            tasks.append(BarRow(f"{policy}, {tenant}", [float(first[i]), float(answer.tasks[i])]))
            degrees.append(BarRow(f"{policy}, {tenant}", [float(answer.history.sharing_degree[i])]))
    return column(
        "Example 4 under h-mrf, lt-af and lt-drf",
        [
            bar_chart(
                title="Tasks in the two steps",
                unit="tasks",
                series=["step 1", "step 2"],
                rows=tasks,
                stacked=True,
            ),
            bar_chart(
                title="Sharing degree β after both",
                unit="used / alone",
                series=["β"],
                rows=degrees,
                reference=Reference(1.0, "below 1 sharing is a loss"),
            ),
        ],
    )


def mrfs() -> Chart:
    """Draw the requests on each server, by their dominant resource there."""
    document = _document("mrfs")
    problem = problem_from_document(document).problem
    hosted: dict[str, list[float]] = {}
    for placed in evaluate_document(document)["placements"]:
        job = problem.workload_names.index(placed["workload"]["name"])
        counts = hosted.setdefault(placed["server"], [0.0] * problem.m)
        counts[dominant_on(problem.demand[job], problem.capacity[0])] += placed["tasks"]
    return bar_chart(
        title="mrfs: requests on each server",
        unit="requests",
        series=[f"dominated by {name}" for name in problem.resources],
        rows=[BarRow(name, counts) for name, counts in sorted(hosted.items())],
    )


def simulation() -> Chart:
    """Draw the cores in use over time by the page's two tenants, with a memory and without."""
    problem = Problem.create(
        resources=("cpu",), units=("core",), capacity=[[10]], tenants=["A", "B"], demand=[[1], [1]]
    )
    trace = Trace.create(
        workload=[0] * 110 + [1] * 100, submit=[0] * 110 + [10] * 100, duration=[1] * 210
    )
    return column(
        "Ten cores under h-mrf and drf",
        [_cores_over_time(problem, trace, policy) for policy in ("h-mrf", "drf")],
    )


def _cores_over_time(problem: Problem, trace: Trace, policy: str) -> Chart:
    found = simulate(problem, trace, policy)
    seconds = np.arange(found.ended)
    in_use = found.dominant_shares_at(seconds) * problem.totals[0]
    lines = [
        StepLine(
            tenant,
            [
                (NOON + timedelta(seconds=s), NOON + timedelta(seconds=s + 1), cores)
                for s, cores in zip(seconds.tolist(), in_use[:, i].tolist(), strict=True)
            ],
        )
        for i, tenant in enumerate(problem.tenants)
    ]
    return steps_chart(title=policy, unit="cores", lines=lines)


EXAMPLES: dict[str, Callable[[], Chart]] = {
    "asset": asset,
    "ceei": ceei,
    "long-term": long_term,
    "mrfs": mrfs,
    "simulation": simulation,
}


def picture_of(page: str) -> Path:
    """Return the path of the picture of a page's example."""
    return PICTURES / f"example-{page}.svg"


if __name__ == "__main__":
    for page, draw in EXAMPLES.items():
        picture_of(page).write_text(draw().svg + "\n")
