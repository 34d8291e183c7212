"""Growth of time with tenants, servers, resources and tasks.

``python -m benchmarks.growth`` measures every point and writes docs/pictures/growth.svg. Times are of
all of ``solve``, the least of a few runs, in the processor's time of one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

# Before NumPy, whose OpenBLAS reads it once.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from allocator_service.core.charts import Chart, Curve, column, growth_chart
from benchmarks.instances import google_pool
from benchmarks.measurement import best_seconds
from policies import Problem, solve, warm

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "growth.svg"
REPEAT = 3
TENANTS = (10, 100, 1_000, 10_000, 100_000)
CLASSES = (10, 30, 100, 300, 1_000)
RESOURCES = (1, 2, 4, 8)
PARTS_OF_DEMAND = (0.5, 1.0, 5.0, 25.0)
# Affinity checks every server that runs a task, for every task.
PARTS_FOR_AFFINITY = PARTS_OF_DEMAND[:2]
DIVISIBLE = ("drf", "ceei", "drfh")
RULES = ("first-fit", "best-fit", "two-choices", "affinity")


def distinct_servers(classes: int, *, tenants: int = 100, resources: int = 2) -> Problem:
    """Return a problem of distinct servers and tenants with one random workload each, seed 1."""
    random = np.random.default_rng(1)
    return Problem.create(
        resources=[f"resource-{r}" for r in range(resources)],
        capacity=random.uniform(0.1, 1.0, (classes, resources)).round(6),
        tenants=[f"tenant-{i}" for i in range(tenants)],
        demand=random.uniform(0.001, 0.03, (tenants, resources)).round(5),
    )


def _of_resources(classes: int, tenants: int, resources: int) -> Problem:
    return distinct_servers(classes, tenants=tenants, resources=resources)


def _milliseconds(prepare: Callable[[], Problem], policy: str, mode: str, **options: str) -> float:
    seconds, _ = best_seconds(
        prepare,
        lambda problem: solve(problem, policy, mode=mode, options=options),
        repeat=REPEAT,
    )
    return seconds * 1e3


def _divisible(
    title: str, sizes: str, values: Sequence[int], prepare: Callable[[int], Problem]
) -> Chart:
    curves = [
        Curve(
            policy,
            [(n, _milliseconds(partial(prepare, n), policy, "divisible")) for n in values],
        )
        for policy in DIVISIBLE
    ]
    return growth_chart(title=title, sizes=sizes, unit="ms", curves=curves)


def _in_parts(parts: float) -> Problem:
    problem = google_pool(100)
    return replace(problem, demand=(problem.demand / parts).round(5))


def _whole_tasks() -> Chart:
    """Draw the time of one pool of Table 1's servers with ever smaller tasks, of which more fit."""
    curves = []
    for rule in RULES:
        points = []
        for parts in PARTS_FOR_AFFINITY if rule == "affinity" else PARTS_OF_DEMAND:
            prepare = partial(_in_parts, parts)
            answer = solve(prepare(), "drfh", mode="indivisible", options={"placement": rule})
            milliseconds = _milliseconds(prepare, "drfh", "indivisible", placement=rule)
            points.append((float(answer.tasks.sum()), milliseconds))
        curves.append(Curve(f"drfh, {rule}", points))
    return growth_chart(
        title="Whole tasks on 12,583 servers, 100 tenants", sizes="tasks", unit="ms", curves=curves
    )


def picture() -> Chart:
    """Draw four charts in one picture."""
    return column(
        "How time grows",
        [
            _divisible("12,583 servers (10 classes), 2 resources", "tenants", TENANTS, google_pool),
            _divisible(
                "100 tenants, 2 resources, no two servers alike",
                "server classes",
                CLASSES,
                distinct_servers,
            ),
            _divisible(
                "900 tenants on 10 distinct servers",
                "resources",
                RESOURCES,
                partial(_of_resources, 10, 900),
            ),
            _whole_tasks(),
        ],
    )


if __name__ == "__main__":
    warm()
    PICTURE.write_text(picture().svg + "\n")
