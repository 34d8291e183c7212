"""Exact DRFH, one level: our front door against modelling-language and plain solvers."""

from __future__ import annotations

from functools import partial

import cvxpy as cp

from benchmarks.instances import google_pool
from benchmarks.measurement import Row, best_seconds
from benchmarks.peers import cvxpy_level, cvxpy_program, highs_level, shares_form
from policies import Allocation, solve

BACK_ENDS = ("ECOS", "CLARABEL")


def measure(*, quick: bool) -> list[Row]:
    """900 tenants with 2 and 4 resources, 3,000 and 100,000 with 2."""
    rows = _against_peers(900, 2, goal=25.0, repeat=5 if quick else 20)
    rows += _against_peers(900, 4, goal=20.0, repeat=3 if quick else 10)
    rows += _against_peers(3000, 2, goal=20.0, repeat=3 if quick else 10)
    rows.append(_linear_cost(20_000 if quick else 100_000))
    return rows


def _against_peers(tenants: int, resources: int, *, goal: float, repeat: int) -> list[Row]:
    sizes = f"{tenants} tenants, 12,583 servers (10 classes), {resources} resources"
    answer = solve(google_pool(tenants, resources=resources), "drfh")
    form = shares_form(google_pool(tenants, resources=resources))
    notes = f"gap {answer.gap:.0e}, overfilled {_overfilled(answer):.0e}"
    peers = {}
    for name in (name for name in BACK_ENDS if name in cp.installed_solvers()):
        level = cvxpy_level(cvxpy_program(form), name)
        seconds, _ = best_seconds(
            lambda: cvxpy_program(form),
            partial(cvxpy_level, solver=name),
            repeat=max(repeat // 3, 2),
        )
        peers[f"cvxpy {name}"] = (level, seconds)
    level = highs_level(form)
    seconds, _ = best_seconds(lambda: form, highs_level, repeat=max(repeat // 5, 1))
    peers["SciPy HiGHS"] = (level, seconds)
    ours, _ = best_seconds(
        lambda: google_pool(tenants, resources=resources),
        lambda problem: solve(problem, "drfh"),
        repeat=repeat,
    )
    best = min((name for name in peers if name.startswith("cvxpy")), key=lambda n: peers[n][1])
    return [
        Row(
            name="exact DRFH, one level",
            sizes=sizes,
            ours_seconds=ours,
            peer=name,
            peer_seconds=seconds,
            agreement=abs(level / answer.objective - 1),
            goal=goal if name == best else None,
            notes=notes,
        )
        for name, (level, seconds) in peers.items()
    ]


def _linear_cost(tenants: int) -> Row:
    """Time per tenant at 3,000 against the full size: linear cost keeps the ratio near 1."""
    small, _ = best_seconds(lambda: google_pool(3000), lambda p: solve(p, "drfh"), repeat=5)
    large, answer = best_seconds(lambda: google_pool(tenants), lambda p: solve(p, "drfh"), repeat=2)
    return Row(
        name="exact DRFH, linear cost",
        sizes=f"{tenants} tenants, 2 resources",
        ours_seconds=large,
        peer=f"ours, 3,000 tenants, scaled by {tenants / 3000:.1f}",
        peer_seconds=small * tenants / 3000,
        agreement=0.0,
        goal=0.5,
        notes=f"gap {answer.gap:.0e}, overfilled {_overfilled(answer):.0e}",
    )


def _overfilled(answer: Allocation) -> float:
    capacity = answer.problem.capacity[answer.classes.first_row]
    whole = capacity * answer.classes.servers[:, None]
    return max(float((answer.used_by_class / whole).max()) - 1, 0.0)
