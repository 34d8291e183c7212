"""The same programs for a modelling language and a plain solver, as peers."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from policies import LeximinProblem, Problem, normalise, server_classes


def shares_form(problem: Problem) -> LeximinProblem:
    """Return the merged classes and normalised demands from which both sides start."""
    return normalise(problem, server_classes(problem)).leximin


def cvxpy_program(form: LeximinProblem) -> cp.Problem:
    """Return the vectorised program of one level of exact DRFH, max g with sum_c x = g w."""
    x = cp.Variable((form.n, form.K), nonneg=True)
    level = cp.Variable()
    capacity = x.T @ form.demand <= form.capacity_share
    fairness = x @ np.ones(form.K) == level * form.weight
    return cp.Problem(cp.Maximize(level), [capacity, fairness])


def cvxpy_level(program: cp.Problem, solver: str) -> float:
    """Solve the program with the defaults of a solver, and return the level."""
    program.solve(solver=solver)
    return float(program.value)


def highs_level(form: LeximinProblem) -> float:
    """Solve one level with SciPy's HiGHS on sparse matrices, and return it."""
    cap = np.full(form.t, np.inf)
    return float(_Rounds(form).maximise(np.ones(form.t, dtype=bool), np.zeros(form.t), cap)[0])


def paper_rounds(form: LeximinProblem) -> tuple[np.ndarray, int]:
    """Return the (t,) shares by §5.1 of the paper, and the number of rounds.

    Each round is one cold program. It raises all active tenants until one has all its tasks, and freezes
    that one. With positive demands, the first round that satisfies no tenant is the last.
    """
    share = np.zeros(form.t)
    active = np.ones(form.t, dtype=bool)
    rounds = _Rounds(form)
    programs = 0
    while active.any():
        level, _ = rounds.maximise(active, share, form.cap)
        programs += 1
        reached = np.minimum(level * form.weight, form.cap)
        # The solver meets a bound only up to its tolerance.
        full = active & (form.cap <= level * form.weight * (1 + 1e-9))
        share[active] = reached[active]
        if not full.any():
            break
        active &= ~full
    return share, programs


def rounds_with_duals(form: LeximinProblem) -> tuple[np.ndarray, int]:
    """Return the (t,) shares by rounds that freeze tenants with a positive dual, and their number.

    A tenant with all its tasks is also frozen.
    """
    share = np.zeros(form.t)
    active = np.ones(form.t, dtype=bool)
    rounds = _Rounds(form)
    programs = 0
    while active.any():
        level, tenant_price = rounds.maximise(active, share, form.cap)
        programs += 1
        reached = np.minimum(level * form.weight, form.cap)
        # A positive dual means that a lift of the tenant would cost the level.
        stuck = active & ((tenant_price > 1e-9) | (form.cap <= reached * (1 + 1e-9)))
        share[stuck] = reached[stuck]
        active &= ~stuck
    return share, programs


class _Rounds:
    """Program of a round, with sparse capacity and tenant rows that are built once."""

    def __init__(self, form: LeximinProblem) -> None:
        self.form = form
        n, K, m = form.n, form.K, form.m  # noqa: N806
        pairs = np.argwhere(form.allowed)
        j, c = pairs[:, 0], pairs[:, 1]
        self.size = len(pairs)
        column = np.arange(self.size)
        use = sp.csr_matrix(
            (
                form.demand[j].ravel(),
                ((c[:, None] * m + np.arange(m)).ravel(), np.repeat(column, m)),
            ),
            shape=(K * m, self.size + 1),
        )
        self.use = use
        self.of_tenant = sp.csr_matrix((np.ones(self.size), (j, column)), shape=(n, self.size))

    def maximise(self, active, share, cap):
        """Maximise the common level of the ``active`` tenants, and return it with the tenants' duals.

        The others keep ``share``. The level ends at the least ``cap`` of an active tenant.
        """
        form = self.form
        gain = np.where(active, form.weight, 0.0)
        rows = sp.hstack([self.of_tenant, sp.csr_matrix(-gain[:, None])]).tocsr()
        fixed = np.where(active, 0.0, share)
        # The first tenant with all its tasks ends the round.
        top = float((cap / form.weight)[active].min())
        result = linprog(
            np.r_[np.zeros(self.size), -1.0],
            A_ub=self.use,
            b_ub=form.capacity_share.ravel(),
            A_eq=rows,
            b_eq=fixed,
            bounds=[(0, None)] * self.size + [(0, top if np.isfinite(top) else None)],
            method="highs",
        )
        if result.status != 0:
            raise RuntimeError(result.message)
        return float(result.x[-1]), np.abs(result.eqlin.marginals) * form.weight
