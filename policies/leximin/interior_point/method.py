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

from policies.arrays import FloatArray
from policies.errors import SolveTimeoutError
from policies.leximin.interior_point.equations import Rows
from policies.leximin.interior_point.state import Bounds, Point
from policies.leximin.interior_point.steps import GOOD_ENOUGH, Method
from policies.leximin.level_program import LevelProgram, LevelSolution
from policies.model.solver_status import SolverStatus

# Well beyond the few dozen that most take; runs that stopped gaining end by themselves.
MOST_STEPS = 400
FIRST_FILL = 0.9
FIRST_TENANT_PRICE = 0.9


class NoConvergenceError(ArithmeticError):
    """Failure of the method to converge, after which another one must solve the round."""


def maximise_level(program: LevelProgram, deadline: float | None) -> LevelSolution:
    """Solve one round of the leximin by the interior-point method.

    Parameters
    ----------
    program : LevelProgram
        The round, with at least one row that rises.
    deadline : float or None
        ``time.monotonic()`` seconds at which to give up.

    Returns
    -------
    LevelSolution
        A strictly interior primal solution (the caller repairs its rounding), prices and the level.

    Raises
    ------
    NoConvergenceError
        The method did not converge, typically because the feasible set has no interior.
    SolveTimeoutError
        The deadline passed.

    References
    ----------
    Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optim. 2, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Problem, level_program, maximise_level, normalise, one_class
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> leximin = normalise(problem, one_class(problem)).leximin
    >>> program, _ = level_program(leximin, rise=np.ones(2), keep=np.zeros(2))
    >>> round(maximise_level(program, None).tau, 6)
    0.666667
    """
    rows = Rows.of(program)
    # What no server has is not in use either: 1 keeps the division finite.
    size = np.where(program.capacity > 0, program.capacity, 1.0).T
    bounds = Bounds(
        allowed=np.ascontiguousarray(program.allowed.T.astype(np.float64)),
        of_slacks=np.r_[size.ravel(), program.limit[rows.limited]],
        keep=program.keep,
    )
    with np.errstate(all="ignore"):  # what is not finite ends the iteration
        method = Method(rows, bounds, _start(program, rows, bounds, size))
        status = SolverStatus.ITERATING
        while status is SolverStatus.ITERATING and method.steps < MOST_STEPS:
            if deadline is not None and time.monotonic() > deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed")
            status = method.advance()
    if status is not SolverStatus.OPTIMAL and not method.gap <= GOOD_ENOUGH:
        raise NoConvergenceError(f"relative gap {method.gap} after {method.steps} steps")
    point = method.point
    if not np.isfinite(point.x).all():
        raise NoConvergenceError(f"not finite after {method.steps} steps")
    return LevelSolution(
        x=np.ascontiguousarray(point.x.T),
        prices=point.prices[: size.size].reshape(size.shape).T.copy(),
        tau=point.tau,
        steps=method.steps,
    )


def _start(program: LevelProgram, rows: Rows, bounds: Bounds, size: FloatArray) -> Point:
    """Return a centred start, with every workload in every class that it may use.

    Every class is filled to the same part.
    """
    mine, demand, allowed = rows.limited, rows.demand, bounds.allowed
    siblings = np.diff(program.first)[program.row]
    share = (program.keep + program.rise)[program.row] / siblings
    attraction = size.min(axis=0)
    # Classes that come out fuller than others attract less; two passes are enough for a start.
    for _ in range(2):
        spread = allowed * (share / (attraction @ allowed))
        used = (demand @ spread.T) * attraction
        fullest = (used / size).max(axis=0)
        attraction = attraction / np.maximum(fullest, 1e-12)
    spread = allowed * (share / (attraction @ allowed))
    used = (demand @ spread.T) * attraction
    # Strictly inside all capacities.
    tau = FIRST_FILL / float((used / size).max())
    x = spread * (attraction * tau)[:, None]
    placed = share * tau
    s = size - used * tau
    limit = program.limit[mine]
    # Above 0 even where the start exceeds a limit: its row need not be met at first.
    u = np.maximum(limit - placed[mine], 0.1 * limit)
    # Prices that are centred for the slacks; tenant prices just below every offer.
    # The duals are feasible from the start and stay so: every step solves their rows.
    price = 1.0 / s
    outside = allowed == 0
    cost = price.T @ demand
    cost[outside] = np.inf
    y = FIRST_TENANT_PRICE * np.minimum.reduceat(cost.min(axis=0), rows.first[:-1])
    norm = float(program.rise @ y)
    p, y = price / norm, y / norm
    h = float((s * p).mean()) / u
    offset = -y[program.row]
    offset[mine] += h
    z = cost / norm + offset
    z[outside] = 1.0
    return Point(
        x=x,
        z=z,
        slacks=np.r_[s.ravel(), u],
        prices=np.r_[p.ravel(), h],
        y=y,
        tau=tau,
        placed=placed,
        used=np.r_[(used * tau).ravel(), placed[mine]],
        complementarity=float(np.vdot(x, z)),
    )
