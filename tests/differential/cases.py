"""Random problems, drawn from a seed by NumPy alone, and what each of them asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from policies import Problem

# Every policy with its modes and the options that choose another way through the code.
QUESTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("drf", "divisible", {}),
    ("drf", "divisible", {"resource_weights": {"u0": {"cpu": 2.0}}}),
    ("drf", "indivisible", {}),
    ("drf", "indivisible", {"resource_weights": {"u0": {"cpu": 2.0}}}),
    ("drfh", "divisible", {}),
    ("drfh", "divisible", {}),
    ("drfh", "indivisible", {}),
    ("drfh", "indivisible", {"placement": "first-fit"}),
    ("drfh", "indivisible", {"placement": "affinity"}),
    ("drfh", "indivisible", {"placement": "two-choices", "seed": 7}),
    ("static", "indivisible", {}),
    ("asset", "divisible", {}),
    ("asset", "indivisible", {}),
    ("ceei", "divisible", {}),
    ("single-resource", "indivisible", {}),
    ("slots", "indivisible", {}),
    ("slots", "indivisible", {"slots_per_largest_server": 4}),
    ("tda", "indivisible", {"effort": 0.2}),
    ("tda", "indivisible", {"pack": True, "effort": 0.2}),
    ("mrfs", "indivisible", {}),
    ("lt-drf", "indivisible", {}),
    ("lt-af", "indivisible", {"borrow_cap": 0.5}),
    ("h-mrf", "indivisible", {"starvation_timeout": 2.0}),
    ("h-mrf", "indivisible", {"placement": "pool", "literal_alone": True}),
)
# These see the pool as one server, so no workload may choose where it runs.
ONE_POOL = {"drf", "asset", "ceei", "single-resource", "slots"}


@dataclass(frozen=True)
class Case:
    """One question: a problem and the policy, mode and options to answer it by."""

    number: int
    problem: Problem
    policy: str
    mode: str
    options: dict[str, Any] = field(default_factory=dict)


def cases(count: int) -> Iterator[Case]:
    """The first ``count`` cases; case ``number`` is the same in every run."""
    for number in range(count):
        policy, mode, options = QUESTIONS[number % len(QUESTIONS)]
        rng = np.random.default_rng([20261122, number])
        one_pool = policy in ONE_POOL or (policy == "tda" and not options.get("pack"))
        one_pool |= options.get("placement") == "pool"
        problem = _problem(rng, size=number // len(QUESTIONS) % 6, selectors=not one_pool,
                           small=policy == "tda")  # fmt: skip
        yield Case(number, problem, policy, mode, options)


def _problem(rng: np.random.Generator, *, size: int, selectors: bool, small: bool) -> Problem:
    tenants = int(rng.integers(*((1, 5), (2, 8), (4, 12), (10, 60), (3, 6), (40, 90))[size]))
    rows = int(rng.integers(*((1, 4), (1, 6), (2, 10), (2, 12), (30, 60), (1, 3))[size]))
    if small:
        tenants, rows = min(tenants, 6), min(rows, 4)
    m = int(rng.integers(1, 5))
    round_numbers = bool(rng.integers(2))
    if round_numbers:
        capacity = rng.choice([0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 15.0], (rows, m))
        steps = [0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0]
    else:
        capacity = rng.uniform(1, 16, (rows, m))
        steps = []
    capacity[0] = np.maximum(capacity[0], 1.0)
    several = rng.random() < 0.4 and not small
    n = int(rng.integers(tenants, 2 * tenants + 1)) if several else tenants
    demand = rng.choice(steps, (n, m)) if steps else rng.uniform(0.01, 2, (n, m))
    if small:
        demand = np.maximum(demand, 0.5) * 2
    demand[np.arange(n), rng.integers(0, m, n)] += 0.5
    limited = rng.random(n) < 0.4
    fields: dict[str, Any] = {}
    if rng.random() < 0.5:
        fields["weight"] = rng.choice([0.5, 1.0, 2.0, 3.0], tenants)
    if rng.random() < 0.4:
        fields["weights_mode"] = "contribution"
        fields["contributed_by"] = rng.integers(-1, tenants, rows)
        fields["contributed_only"] = np.r_[False, rng.random(rows - 1) < 0.15]
    if rng.random() < 0.3:
        fields["best_effort"] = rng.random(tenants) < 0.3
    if selectors and rng.random() < 0.5:
        fields["server_labels"] = [{"zone": "ab"[int(z)]} for z in rng.integers(0, 2, rows)]
        choice: list[dict[str, Any]] = [{}, {}, {"zone": "a"}, {"zone": ["a", "b"]}]
        fields["selectors"] = [choice[int(c)] for c in rng.integers(0, 4, n)]
    if several:
        fields["priority"] = rng.integers(-1, 2, n)
    return Problem.create(
        resources=("cpu", "memory", "gpu", "disk")[:m],
        capacity=capacity,
        demand=demand,
        tenants=[f"u{i}" for i in range(tenants)],
        workload_tenant=np.sort(rng.integers(0, tenants, n)) if several else None,
        server_count=rng.integers(1, 4 if small else 20, rows),
        tasks=np.where(limited, rng.integers(0, 40, n), np.inf),
        **fields,
    )
