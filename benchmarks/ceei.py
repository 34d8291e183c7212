"""The competitive equilibrium of one pool against a modelling language and a cone solver.

"Equilibrium" is the same on both sides, from normalised demands to shares, on our side with the prices
that prove them. "Front door" is all of ``solve`` on our side, with merging, reasons, and the checks on
the answer.
"""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np

from benchmarks.instances import google_pool
from benchmarks.measurement import Row, best_seconds
from policies import clear_market, normalise, one_class, solve


def measure(*, quick: bool) -> list[Row]:
    """Measure 900 tenants on the sum of Table 1's servers."""
    problem = google_pool(900)
    form = normalise(problem, one_class(problem)).leximin
    program, share = _program(problem)
    # cvxpy compiles at the first solution and keeps it, so that only the solver is timed.
    program.solve(solver="CLARABEL")
    answer = solve(problem, "ceei")
    repeat = 5 if quick else 30
    peer, _ = best_seconds(
        lambda: program, lambda stated: stated.solve(solver="CLARABEL"), repeat=repeat
    )
    found = np.zeros(form.n)
    market = clear_market(form, 0, found, None)
    alone, _ = best_seconds(
        lambda: np.zeros(form.n), lambda x: clear_market(form, 0, x, None), repeat=repeat
    )
    whole, _ = best_seconds(lambda: google_pool(900), lambda p: solve(p, "ceei"), repeat=repeat)
    equilibrium = Row(
        name="ceei, equilibrium",
        sizes=f"{problem.t} tenants, 2 resources",
        our_value=alone,
        peer="cvxpy, Clarabel",
        peer_value=peer,
        agreement=float(np.abs(found / share.value - 1).max()),
        goal=50.0,
        notes=f"gap {market.bound / market.level - 1:.0e}",
    )
    front_door = replace(
        equilibrium,
        name="ceei, front door",
        our_value=whole,
        agreement=float(np.abs(answer.tenant_share / share.value - 1).max()),
        goal=None,
        notes=f"gap {answer.gap:.0e}",
    )
    return [equilibrium, front_door]


def _program(problem):
    """Return a program that maximises weighted logarithms of shares in the pool, and the shares."""
    share = cp.Variable(problem.t, nonneg=True)
    weight = problem.effective_weight / problem.effective_weight.sum()
    within = problem.normalised_demand.T @ share <= 1
    return cp.Problem(cp.Maximize(weight @ cp.log(share)), [within]), share
