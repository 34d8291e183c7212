"""The competitive equilibrium of one pool against a modelling language and a cone solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from benchmarks.instances import google_pool
from benchmarks.measurement import Row, best_seconds
from policies import solve


def measure(*, quick: bool) -> list[Row]:
    """900 tenants on the sum of Table 1's servers."""
    problem = google_pool(900)
    program, share = _program(problem)
    program.solve(solver="CLARABEL")
    answer = solve(problem, "ceei")
    apart = float(np.abs(answer.tenant_share / share.value - 1).max())
    repeat = 3 if quick else 10
    peer, _ = best_seconds(
        lambda: program, lambda stated: stated.solve(solver="CLARABEL"), repeat=repeat
    )
    ours, _ = best_seconds(lambda: google_pool(900), lambda p: solve(p, "ceei"), repeat=repeat)
    return [
        Row(
            name="ceei",
            sizes=f"{problem.t} tenants, 2 resources",
            ours_seconds=ours,
            peer="cvxpy, Clarabel",
            peer_seconds=peer,
            agreement=apart,
            goal=50.0,
            notes=f"gap {answer.gap:.0e}",
        )
    ]


def _program(problem):
    """Weighted logarithms of shares within the pool's capacities, and the shares."""
    share = cp.Variable(problem.t, nonneg=True)
    weight = problem.effective_weight / problem.effective_weight.sum()
    within = problem.normalised_demand.T @ share <= 1
    return cp.Problem(cp.Maximize(weight @ cp.log(share)), [within]), share
