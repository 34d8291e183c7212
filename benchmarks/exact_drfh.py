"""Exact DRFH, one level, against modelling-language and plain solvers.

"One level" is the same on both sides, from merged classes and normalised demands to a level and feasible
shares, on our side also the proof. "Front door" is all of ``solve`` on our side, with merging, reasons,
few placements, and the checks on the answer.
"""

from __future__ import annotations

from functools import partial

import cvxpy as cp
import numpy as np

from benchmarks.instances import google_pool
from benchmarks.measurement import Row, best_seconds
from benchmarks.peers import cvxpy_level, cvxpy_program, highs_level, shares_form
from policies import Allocation, LeximinProblem, level_program, maximise_level, prove_round, solve

BACK_ENDS = ("ECOS", "CLARABEL")


def measure(*, quick: bool) -> list[Row]:
    """Measure 900 tenants with 2 and 4 resources, and 3,000 and 100,000 with 2."""
    rows = _against_peers(900, 2, goal=25.0, repeat=5 if quick else 20)
    rows += _against_peers(900, 4, goal=20.0, repeat=3 if quick else 10)
    rows += _against_peers(3000, 2, goal=20.0, repeat=3 if quick else 10)
    rows.append(_linear_cost(20_000 if quick else 100_000))
    return rows


def _against_peers(tenants: int, resources: int, *, goal: float, repeat: int) -> list[Row]:
    sizes = f"{tenants} tenants, 12,583 servers (10 classes), {resources} resources"
    problem = google_pool(tenants, resources=resources)
    form = shares_form(problem)
    level, gap, overfilled = one_level(form)
    answer = solve(problem, "drfh")
    peers = {}
    for name in (name for name in BACK_ENDS if name in cp.installed_solvers()):
        theirs = cvxpy_level(cvxpy_program(form), name)
        seconds, _ = best_seconds(
            # A new program each time, because cvxpy keeps what it has compiled.
            lambda: cvxpy_program(form),
            partial(cvxpy_level, solver=name),
            repeat=max(repeat // 3, 2),
        )
        peers[f"cvxpy {name}"] = (theirs, seconds)
    theirs = highs_level(form)
    seconds, _ = best_seconds(lambda: form, highs_level, repeat=max(repeat // 5, 1))
    peers["SciPy HiGHS"] = (theirs, seconds)
    alone, _ = best_seconds(lambda: form, one_level, repeat=repeat)
    whole, _ = best_seconds(
        lambda: google_pool(tenants, resources=resources),
        lambda fresh: solve(fresh, "drfh"),
        repeat=repeat,
    )
    best = min((name for name in peers if name.startswith("cvxpy")), key=lambda n: peers[n][1])
    rows = [
        Row(
            name="exact DRFH, one level",
            sizes=sizes,
            our_value=alone,
            peer=name,
            peer_value=seconds,
            agreement=abs(theirs / level - 1),
            goal=goal if name == best else None,
            notes=f"gap {gap:.0e}, overfilled {overfilled:.0e}",
        )
        for name, (theirs, seconds) in peers.items()
    ]
    rows.append(
        Row(
            name="exact DRFH, front door",
            sizes=sizes,
            our_value=whole,
            peer=best,
            peer_value=peers[best][1],
            agreement=abs(peers[best][0] / answer.objective - 1),
            goal=None,
            notes=f"{len(answer.placement_tasks)} placements, overfilled {_overfilled(answer):.0e}",
        )
    )
    return rows


def one_level(form: LeximinProblem) -> tuple[float, float, float]:
    """Return the level of the first round, its certified relative gap, and the overfill."""
    everybody = np.ones(form.t, dtype=np.bool_)
    nothing = np.zeros(form.t)
    program, _ = level_program(form, form.weight / form.weight.sum(), nothing)
    solution = maximise_level(program, None)
    overfilled = float(((solution.x.T @ form.demand) / form.capacity_share).max())
    # The level is that of shares that fit, as an interior point may be over by rounding.
    shares = solution.x / max(overfilled, 1.0)
    level = float((shares.sum(axis=1) / form.weight).min())
    proof = prove_round(form, solution.prices, level=level, share=nothing, rising=everybody)
    filled = float(((shares.T @ form.demand) / form.capacity_share).max())
    return level, proof.bound / level - 1, max(filled - 1, 0.0)


def _linear_cost(tenants: int) -> Row:
    """Measure the time per tenant at 3,000 and at the full size.

    With linear cost the ratio is near 1.
    """
    small, _ = best_seconds(lambda: google_pool(3000), lambda p: solve(p, "drfh"), repeat=2)
    large, answer = best_seconds(lambda: google_pool(tenants), lambda p: solve(p, "drfh"), repeat=2)
    return Row(
        name="exact DRFH, linear cost",
        sizes=f"{tenants} tenants, 2 resources; per tenant",
        our_value=large / tenants,
        peer="ours with 3,000 tenants",
        peer_value=small / 3000,
        agreement=None,
        goal=0.5,
        notes=f"{large:.2f} s in all, gap {answer.gap:.0e}, overfilled {_overfilled(answer):.0e}",
    )


def _overfilled(answer: Allocation) -> float:
    capacity = answer.problem.capacity[answer.classes.first_row]
    whole = capacity * answer.classes.servers[:, None]
    return max(float((answer.used_by_class / whole).max()) - 1, 0.0)
