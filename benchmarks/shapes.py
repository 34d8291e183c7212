"""Seconds and placements of exact DRFH with selectors and task limits, for many shapes.

``python -m benchmarks.shapes`` prints a line per shape, with HiGHS beside ours where it ends within a
minute. Times are of all of ``solve``, in the processor's time of one thread.

``python -m benchmarks.shapes neighbours 20`` compares that many random shapes with their neighbours.
These are the same shape with another seed, with half as many tenants or servers, or with one resource
more. It prints each ratio to the slowest and the fastest neighbour, divided by the ratio that the sizes
explain.
"""

from __future__ import annotations

import os

# Before NumPy, whose OpenBLAS reads it once.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys

import numpy as np

from benchmarks.instances import google_pool
from benchmarks.measurement import best_seconds
from benchmarks.peers import rounds_with_duals, shares_form
from policies import Problem, solve, warm

# Tenants, servers of which no two are alike, resources.
SHAPES = (
    (100, 30, 2), (100, 500, 2), (300, 500, 2), (400, 500, 2), (300, 330, 7), (830, 140, 6),
)  # fmt: skip
SELECTED = (900, 10_000, 100_000)
# Variables beyond which HiGHS takes minutes.
MOST_FOR_PEER = 10_000


def unlike_servers(tenants: int, servers: int, resources: int, *, seed: int = 1) -> Problem:
    """Return a problem of random servers in three zones.

    Half of the tenants may only use one or two zones, and half have few tasks.
    """
    random = np.random.default_rng(seed)
    zones = [
        {}
        if random.random() < 0.5
        else {"zone": list(random.choice(list("abc"), random.integers(1, 3), replace=False))}
        for _ in range(tenants)
    ]
    limited = random.random(tenants) < 0.5
    return Problem.create(
        resources=[f"resource-{r}" for r in range(resources)],
        capacity=random.uniform(10, 100, (servers, resources)).round(4),
        server_labels=[{"zone": "abc"[row % 3]} for row in range(servers)],
        tenants=[f"tenant-{i}" for i in range(tenants)],
        demand=random.uniform(0.1, 2, (tenants, resources)).round(4),
        weight=random.uniform(0.5, 2, tenants).round(3),
        tasks=np.where(limited, random.integers(1, 60, tenants), np.inf),
        selectors=zones,
    )


def print_row(sizes: str, problem: Problem) -> None:
    """Measure one shape and print it."""
    answer = solve(problem, "drfh")
    classes = answer.classes.count
    ours, _ = best_seconds(lambda: problem, lambda p: solve(p, "drfh"), repeat=2)
    most = 2 * (problem.n + classes * problem.m)
    peer = "-"
    if problem.n * classes <= MOST_FOR_PEER:
        seconds, (share, _) = best_seconds(
            lambda: shares_form(problem), rounds_with_duals, repeat=1
        )
        apart = float((np.abs(answer.tenant_share - share) / share).max())
        peer = f"{seconds:.3f} s, shares differ by {apart:.0e}"
    print(f"{sizes:40} {ours:8.3f} s  {len(answer.placement_tasks):7,} placements of at most "
          f"{most:7,}  HiGHS with duals: {peer}", flush=True)  # fmt: skip


def print_neighbours(count: int) -> None:
    """Print the ratios of random shapes to their neighbours, the worst last."""
    random = np.random.default_rng(11)
    rows = []
    for number in range(count):
        tenants = int(np.exp(random.uniform(np.log(50), np.log(600))))
        servers = int(np.exp(random.uniform(np.log(10), np.log(500))))
        resources = int(random.integers(2, 9))
        base = _seconds(tenants, servers, resources, number)
        near = {
            "another seed": _seconds(tenants, servers, resources, number + 1000),
            "half the tenants": 2 * _seconds(tenants // 2, servers, resources, number),
            "half the servers": 2 * _seconds(tenants, servers // 2, resources, number),
            "one resource more": _seconds(tenants, servers, resources + 1, number)
            * (resources / (resources + 1)) ** 2,
        }
        worst = max(near, key=lambda name: max(base / near[name], near[name] / base))
        ratio = max(base / near[worst], near[worst] / base)
        rows.append(
            f"{ratio:6.2f}  {tenants} tenants, {servers} servers, {resources} resources: {base:.3f} s, "
            f"{worst}: {near[worst]:.3f} s"
        )
        print(rows[-1], flush=True)
    print("worst:", *sorted(rows, key=lambda row: float(row.split()[0]))[-3:], sep="\n")


def _seconds(tenants: int, servers: int, resources: int, seed: int) -> float:
    problem = unlike_servers(tenants, servers, resources, seed=seed)
    seconds, _ = best_seconds(lambda: problem, lambda p: solve(p, "drfh"), repeat=2)
    return seconds


def main() -> None:
    """Print every shape, or random ones beside their neighbours."""
    warm()
    if sys.argv[1:2] == ["neighbours"]:
        print_neighbours(int(sys.argv[2]))
        return
    for tenants, servers, resources in SHAPES:
        sizes = f"{tenants} tenants, {servers} servers, {resources} resources"
        print_row(sizes, unlike_servers(tenants, servers, resources))
    for tenants in SELECTED:
        print_row(f"{tenants:,} tenants, Table 1", google_pool(tenants, constraints=True))


if __name__ == "__main__":
    main()
