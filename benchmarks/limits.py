"""Seconds of ``solve`` for pools with limits and guarantees beside the same pools without.

``python -m benchmarks.limits`` prints a line per pool and mode with both times, their ratio and the
goal. Times are of the processor, the least of two, for 10,000 tenants of one run. Names after it choose
rows: ``python -m benchmarks.limits 10000`` measures those of 10,000 tenants.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dataclasses import replace
from typing import Literal

import numpy as np

from benchmarks.groups import CLASSES, flat, grouped_pool
from benchmarks.measurement import best_seconds
from policies import Guarantee, Limit, Problem, solve, verify, warm

LIMITS, GUARANTEES = 200, 200
# Tenants, their groups, and how often each row is measured.
SIZES = ((900, 60, 2), (10_000, 500, 1))
SELECTORS = 10
GOAL = 10


def limited_pool(problem: Problem, limits: int, *, seed: int = 2) -> Problem:
    """Return the pool with limits of tenants and groups, half of them on two kinds of servers."""
    random = np.random.default_rng(seed)
    # A label for each row: selectors then cut the classes differently.
    problem = replace(problem, server_labels=tuple({"kind": str(row)} for row in range(problem.k)))
    in_groups = bool((problem.tenant_group >= 0).any())
    found = []
    for _ in range(limits):
        group = in_groups and random.random() < 0.5
        nodes = len(problem.groups) if group else problem.t
        amount = np.full(problem.m, np.inf)
        resource = int(random.integers(problem.m))
        # Low enough that many of the limits bind.
        amount[resource] = problem.totals[resource] * random.uniform(0.2, 1) / nodes
        kinds = tuple(sorted({str(kind) for kind in random.integers(0, CLASSES, 2)}))
        where = {"kind": kinds} if random.random() < 0.5 else {}
        scope = "group" if group else "tenant"
        found.append(Limit(scope, int(random.integers(nodes)), amount, where))  # type: ignore[arg-type]
    return replace(
        problem, limits=tuple(sorted(found, key=lambda limit: (limit.scope, limit.node)))
    )


def guaranteed_pool(problem: Problem, guarantees: int, *, seed: int = 3) -> Problem:
    """Return the pool with guarantees of tenants and groups, half of them on two kinds of servers.

    Together they are some 60 % of the pool.
    """
    random = np.random.default_rng(seed)
    problem = replace(problem, server_labels=tuple({"kind": str(row)} for row in range(problem.k)))
    in_groups = bool((problem.tenant_group >= 0).any())
    found = []
    for number in range(guarantees):
        scope: Literal["group", "tenant"] = "tenant"
        if in_groups and random.random() < 0.5:
            scope = "group"
        nodes = len(problem.groups) if scope == "group" else problem.t
        amount = np.full(problem.m, np.inf)
        resource = int(random.integers(problem.m))
        amount[resource] = problem.totals[resource] * 0.6 / guarantees
        kind = f"{number % (SELECTORS - 1)}"
        where = {"kind": (kind,)} if random.random() < 0.5 else {}
        found.append(Guarantee(scope, int(random.integers(nodes)), amount, where))
    return replace(
        problem, guarantees=tuple(sorted(found, key=lambda each: (each.scope, each.node)))
    )


def print_row(what: str, name: str, problem: Problem, mode: str, repeat: int) -> None:
    """Measure one mode, with limits or guarantees and without, and print it."""
    limited = problem
    if what != "guarantees":
        limited = limited_pool(limited, LIMITS)
    if what != "limits":
        limited = guaranteed_pool(limited, GUARANTEES)
    ours, answer = best_seconds(
        lambda: limited, lambda p: solve(p, "drfh", mode=mode), repeat=repeat
    )
    without, _ = best_seconds(lambda: problem, lambda p: solve(p, "drfh", mode=mode), repeat=2)
    proven = "verified" if verify(limited, answer).valid else "NOT VERIFIED"
    stopped = sum(reason.startswith("limit:") for reason in answer.limited_by)
    ratio = ours / without
    goal = f"goal {GOAL} {'met' if ratio <= GOAL else 'MISSED'}"
    print(
        f"{problem.t:6,} {what:10} {name:10} {mode:12} {ours:8.3f} s, without {without:7.3f} s,"
        f" ratio {ratio:6.1f}, {goal}; {stopped} stopped by limits, {proven}",
        flush=True,
    )


def main() -> None:
    """Print all rows, or those of the given sizes."""
    warm()
    print(f"{CLASSES} classes of servers, {LIMITS} limits, {GUARANTEES} guarantees")
    named = [int(size) for size in sys.argv[1:]]
    for tenants, groups, repeat in SIZES:
        if named and tenants not in named:
            continue
        tree = grouped_pool(tenants, groups)
        for what in ("limits", "guarantees", "both"):
            for name, problem in (("flat", flat(tree)), (f"{groups} groups", tree)):
                for mode in ("divisible", "indivisible"):
                    print_row(what, name, problem, mode, repeat)


if __name__ == "__main__":
    main()
