"""A structured interior-point method for one round of the leximin.

The program, in shares of the pool (rows are tenants, or single workloads of tenants that
get all their tasks):

    maximise   tau
    subject to sum_j x[j, c] d[j, r] + s[c, r] = c_hat[c, r]      prices p >= 0
               sum over row i of x[j, c]       = keep_i + tau rise_i  prices y
               sum_c x[j, c] + u[j]            = limit_j             prices h >= 0
               x, s, u >= 0

Mehrotra's predictor-corrector method (SIAM J. Optim. 2, 1992). Every variable is in one
tenant row, so the normal equations are solved by elimination: tenants first, which leaves
a dense system of classes × resources + 1 unknowns, or servers first, which leaves one of
tenants + 1, whichever is smaller.
"""

from __future__ import annotations

import time

import numpy as np

from policies.errors import SolveTimeoutError
from policies.leximin.interior_point.equations import Rows, elimination_for, rows_of
from policies.leximin.interior_point.state import (
    STEPS,
    TAU,
    Bounds,
    Point,
    aims_for,
    relative_gap,
    step_for,
)
from policies.leximin.interior_point.steps import ARRIVED, GOING, GOOD_ENOUGH, advance
from policies.leximin.level_program import LevelProgram, LevelSolution

MOST_STEPS = 100
FIRST_FILL = 0.9
FIRST_TENANT_PRICE = 0.9
# Steps on this many variables, together, go by between two looks at the clock.
VARIABLES_BETWEEN_LOOKS = 1_000_000


class NoConvergenceError(ArithmeticError):
    """The method lost its footing: use another one for this round."""


def maximise_level(program: LevelProgram, deadline: float | None) -> LevelSolution:
    """Solve one round.

    Args:
        program: the round, with at least one row that rises.
        deadline: ``time.monotonic()`` seconds at which to give up, or None.

    Returns:
        A strictly interior primal solution (its rounding is for the caller to repair),
        prices and the level.

    Raises:
        NoConvergenceError: typically because the feasible set has no interior.
        SolveTimeoutError: ``deadline`` passed.
    """
    rows = rows_of(program)
    # In here prices are (m, K), variables (K, n) and demands (m, n), as the kernels have them.
    bounds = Bounds(
        allowed=np.ascontiguousarray(program.allowed.T.astype(np.float64)),
        size=np.ascontiguousarray(np.where(program.capacity > 0, program.capacity, 1.0).T),
        keep=program.keep,
        limit=program.limit,
    )
    with np.errstate(all="ignore"):  # what is not finite ends the iteration
        point = _start(program, rows, bounds)
    system, aims = elimination_for(rows, program.K), aims_for(point)
    step, other = step_for(point), step_for(point)
    most = min(max(VARIABLES_BETWEEN_LOOKS // point.x.size, 1), MOST_STEPS)
    status = GOING
    while status == GOING and point.numbers[STEPS] < MOST_STEPS:
        if deadline is not None and time.monotonic() > deadline:
            raise SolveTimeoutError("solve.timeout", "the time limit passed")
        status = advance(rows, bounds, system, point, aims, step, other, most)
    steps = int(point.numbers[STEPS])
    if status != ARRIVED:
        gap = relative_gap(rows, bounds, point, aims)
        if not gap <= GOOD_ENOUGH:
            raise NoConvergenceError(f"relative gap {gap} after {steps} steps")
    if not np.isfinite(point.x).all():
        raise NoConvergenceError(f"not finite after {steps} steps")
    return LevelSolution(
        x=np.ascontiguousarray(point.x.T),
        prices=point.p.T.copy(),
        tau=float(point.numbers[TAU]),
        steps=steps,
    )


def _start(program: LevelProgram, rows: Rows, bounds: Bounds) -> Point:
    """A centred start: everybody everywhere, every class filled to the same part."""
    mine, demand, size, allowed = rows.limited, rows.demand, bounds.size, bounds.allowed
    siblings = np.diff(program.first)[program.row]
    wanted = (program.keep + program.rise)[program.row] / siblings
    attraction = size.min(axis=0)
    for _ in range(2):
        spread = allowed * (wanted / (attraction @ allowed))
        used = (demand @ spread.T) * attraction
        fullest = (used / size).max(axis=0)
        attraction = attraction / np.maximum(fullest, 1e-12)
    spread = allowed * (wanted / (attraction @ allowed))
    used = (demand @ spread.T) * attraction
    tau = FIRST_FILL / float((used / size).max())
    x = spread * (attraction * tau)[:, None]
    placed = wanted * tau
    s = size - used * tau
    u = np.ones(program.n)
    limit = program.limit[mine]
    u[mine] = np.maximum(limit - placed[mine], 0.1 * limit)
    # Prices that are centred for the slacks; tenant prices just below every offer.
    # The duals are feasible from the start and stay so: every step solves their rows.
    price = 1.0 / s
    outside = allowed == 0
    cost = price.T @ demand
    cost[outside] = np.inf
    y = FIRST_TENANT_PRICE * np.minimum.reduceat(cost.min(axis=0), program.first[:-1])
    norm = float(program.rise @ y)
    p, y = price / norm, y / norm
    h = np.zeros(program.n)
    h[mine] = float((s * p).mean()) / u[mine]
    z = cost / norm + (h - y[program.row])
    z[outside] = 1.0
    pairs = int(program.allowed.sum()) + size.size + len(mine)
    numbers = np.array([tau, float((x * z).sum()), np.inf, 0.0, 0.0, pairs])
    return Point(x, s, u, z, p, y, h, used * tau, placed, numbers)
