"""Seconds of ``solve`` for pools with groups beside flat pools of the same tenants.

``python -m benchmarks.groups`` prints a line per size and mode with both times and their ratio, and a
line in which HiGHS's simplex method solves the programs of the same rounds. Times are of the processor,
the least of two.
"""

from __future__ import annotations

import os

# Before NumPy, whose OpenBLAS reads it once.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dataclasses import replace

import numpy as np

from benchmarks.measurement import best_seconds
from policies import Problem, normalise, server_classes, solve, verify, warm
from policies.leximin.group_rounds import GroupRounds

CLASSES = 10
# Tenants and groups of three levels.
SIZES = ((1_000, 50), (10_000, 500), (100_000, 5_000))
LARGEST_WHOLE = 10_000
LARGEST_FOR_PEER = 1_000


def grouped_pool(tenants: int, groups: int, *, seed: int = 1) -> Problem:
    """Return tenants on ten classes of servers, in groups of three levels."""
    random = np.random.default_rng(seed)
    top = max(1, round(groups ** (1 / 3)))
    middle = top * top
    parents = [
        *[-1] * top,
        *random.integers(0, top, middle),
        *(top + random.integers(0, middle, groups - top - middle)),
    ]
    return Problem.create(
        resources=["cpu", "memory"],
        capacity=random.uniform(1, 10, (CLASSES, 2)).round(4),
        server_count=[tenants // CLASSES] * CLASSES,
        tenants=[f"tenant-{i}" for i in range(tenants)],
        weight=random.uniform(0.5, 2, tenants).round(3),
        demand=random.uniform(0.03, 3, (tenants, 2)).round(4),
        tasks=random.choice([np.inf, np.inf, np.inf, 1, 3], tenants),
        groups=[f"group-{g}" for g in range(groups)],
        group_parent=parents,
        group_weight=random.uniform(0.5, 2, groups).round(3),
        tenant_group=random.integers(top + middle, groups, tenants),
    )


def flat(problem: Problem) -> Problem:
    """Return the same pool without groups."""
    return replace(problem, tenant_group=np.full(problem.t, -1))


def print_row(problem: Problem, policy: str, mode: str) -> None:
    """Measure one mode, with groups and without, and print it."""
    ours, answer = best_seconds(lambda: problem, lambda p: solve(p, policy, mode=mode), repeat=2)
    without, _ = best_seconds(
        lambda: flat(problem), lambda p: solve(p, policy, mode=mode), repeat=2
    )
    proven = "-"
    if answer.certificate is not None:
        proven = "proven" if verify(problem, answer).valid else "NOT PROVEN"
    sizes = f"{problem.t:,} tenants in {len(problem.groups):,} groups"
    print(f"{sizes:36} {policy:5} {mode:12} {ours:8.3f} s, flat {without:8.3f} s, ratio "
          f"{ours / without:5.2f}  {proven}", flush=True)  # fmt: skip


def print_peer(problem: Problem) -> None:
    """Measure HiGHS on the programs of the same rounds and print it."""
    form = normalise(problem, server_classes(problem)).leximin
    seconds, theirs = best_seconds(
        lambda: form, lambda f: GroupRounds(f, None, interior=False).run(), repeat=1
    )
    ours, answer = best_seconds(lambda: problem, lambda p: solve(p, "drfh"), repeat=2)
    apart = float(np.abs(answer.tenant_share - theirs.share).max())
    print(f"{problem.t:,} tenants, HiGHS (simplex) for each program: {seconds:.3f} s, ours with "
          f"proofs {ours:.3f} s, ratio {seconds / ours:.1f}; shares differ by {apart:.0e}",
          flush=True)  # fmt: skip


def main() -> None:
    """Print every size."""
    warm()
    for tenants, groups in SIZES:
        problem = grouped_pool(tenants, groups)
        print_row(problem, "drfh", "divisible")
        print_row(problem, "drf", "divisible")
        if tenants <= LARGEST_WHOLE:
            print_row(problem, "drfh", "indivisible")
            print_row(problem, "drf", "indivisible")
        if tenants <= LARGEST_FOR_PEER:
            print_peer(problem)


if __name__ == "__main__":
    main()
