"""Mixes of workloads that keep the shares of earlier stages.

A tenant of an earlier stage keeps its share, and may reach it through any mix of its workloads.
Linear programs find what is the same in every mix (resources that are full, workloads that cannot
run or run in full), and a mix in the interior of all else, from which an interior-point method can
start.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, diags_array, hstack, identity, vstack
from scipy.sparse.linalg import lsmr

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.errors import SolveFailedError, SolveTimeoutError
from policies.model.tolerance import DUST
from policies.proofs.market import ROOM
from policies.proofs.normal_form import LeximinProblem

# Of a tenant's share: a workload with no more in every mix does not run in any.
NOT_AT_ALL = 1e-7
# Of the programs: far inside what is certified afterwards.
FEASIBLE = 1e-10
LINPROG_TIME_LIMIT = 1


@dataclass(frozen=True, eq=False)
class Mixes:
    """All mixes that keep the shares of the tenants of earlier stages.

    Attributes:
        x: (n,) shares in a mix of the interior, and 0 for the other workloads.
        free: (n,) workloads whose share differs between mixes.
        full: (m,) resources with no room in any mix.
    """

    x: FloatArray
    free: BoolArray
    full: BoolArray


def mixes_of(form: LeximinProblem, x: FloatArray, stage: int, deadline: float | None) -> Mixes:
    """Find what all mixes share.

    Args:
        form: the normalised problem on one pool.
        x: (n,) shares in one of the mixes; stage: those of its tenants and of later ones are not kept.
        deadline: ``time.monotonic()`` seconds.

    Raises:
        SolveTimeoutError, SolveFailedError.
    """
    kept = form.stage[form.owner] < stage
    several = np.diff(form.first)[form.owner] > 1
    mine = np.flatnonzero(kept & several)
    program = _Program.of(form, x, mine, np.flatnonzero(kept & ~several))
    seen = np.zeros(program.width, dtype=np.bool_)
    found: list[FloatArray] = []
    # One program for all variables at once: each point shows at least one more that can be above
    # 0.
    while not seen.all():
        point = program.furthest(~seen, deadline)
        found.append(point)
        new = ~seen & (point > program.least)
        if not new.any():
            break
        seen |= new
    q = len(mine)
    runs, full, at_limit = seen[:q].copy(), ~seen[q : q + form.m], ~seen[q + form.m :]
    runs[program.limited[at_limit]] = False
    inside = np.where(kept, x, 0.0)
    # The mean of points of a convex set is above 0 wherever one of them is.
    mean, own = np.mean(found, axis=0)[:q], x[mine] / program.share
    inside[mine] = program.exact(mean, runs, full, at_limit) * program.share
    if overfilled(form, inside) > DUST:
        # Limits that are not quite reached in any mix do not fit: a tenant with a single mix keeps it.
        inside[mine] = program.exact(mean, runs, full, at_limit, own) * program.share
    free = np.zeros(form.n, dtype=np.bool_)
    free[mine] = runs
    # A single free workload is fixed by its tenant's share, so that it has no choice.
    alone = np.bincount(form.owner[free], minlength=form.t)[form.owner] < 2
    return Mixes(inside, free & ~alone, full)


def overfilled(form: LeximinProblem, x: FloatArray) -> float:
    """Return the largest relative excess of shares (n,) over a resource.

    It is below 0 if all fit.
    """
    size = np.where(form.capacity_share[0] > 0, form.capacity_share[0], 1.0)
    return float((x @ form.demand / size).max()) - 1.0


def completed_prices(
    form: LeximinProblem, x: FloatArray, stage: int, prices: FloatArray, deadline: float | None
) -> FloatArray:
    """Return prices (m,) that show which mix is the cheapest at given ones.

    What resources that are full keep from cheaper mixes is added to their prices: at the sum, every
    mix that is the cheapest of those that fit is the cheapest of all.

    Args:
        form: the normalised problem on one pool.
        x: (n,) shares in one of the mixes; stage: those of its tenants and of later ones are not kept.
        prices: (m,) what is paid for resources beside that; deadline: ``time.monotonic()`` seconds.

    Raises:
        SolveTimeoutError, SolveFailedError.
    """
    kept = form.stage[form.owner] < stage
    several = np.diff(form.first)[form.owner] > 1
    mine = np.flatnonzero(kept & several)
    program = _Program.of(form, x, mine, np.flatnonzero(kept & ~several))
    # HiGHS has absolute tolerances: small prices would be lost in them.
    size = float(prices.max())
    cost = np.zeros(program.width)
    cost[: len(mine)] = program.share * (form.demand[mine] @ prices) / size
    _, added = program.least_cost(cost, deadline)
    return prices + size * added


@dataclass(frozen=True, eq=False)
class _Program:
    """Mixes as parts of each tenant's share, with the room they leave in resources and limits.

    Attributes:
        rows, right: the equations, of tenants, resources and limits.
        least: (width,) amounts that count as more than nothing.
        share: (q,) of the tenant of each workload; limited: (l,) workloads with a limit.
    """

    rows: csr_array
    right: FloatArray
    least: FloatArray
    share: FloatArray
    limited: IntArray

    @property
    def width(self) -> int:
        """Number of variables."""
        return len(self.least)

    @property
    def tenants(self) -> int:
        """Number of tenants, whose equations come first."""
        return len(self.right) - (self.width - len(self.share))

    @classmethod
    def of(cls, form: LeximinProblem, x: FloatArray, mine: IntArray, fixed: IntArray) -> _Program:
        tenants, owner = np.unique(form.owner[mine], return_inverse=True)
        share = grouped_sum(x[mine], owner, len(tenants))[owner]
        share = np.where(share > 0, share, 1.0)
        part = x[mine] / share
        limit = form.limit[mine] / share
        limited = np.flatnonzero(np.isfinite(limit))
        q, t, count = len(mine), len(tenants), len(limited)
        taken = form.demand[mine] * share[:, None]
        sums = coo_array((np.ones(q), (owner, np.arange(q))), shape=(t, q))
        at_limit = coo_array((np.ones(count), (np.arange(count), limited)), shape=(count, q))
        room = form.capacity_share[0] - x[fixed] @ form.demand[fixed]
        rows = vstack(
            [
                hstack([sums, csr_array((t, form.m + count))]),
                hstack([csr_array(taken.T), identity(form.m), csr_array((form.m, count))]),
                hstack([at_limit, csr_array((count, form.m)), identity(count)]),
            ]
        )
        # The given mix fits, whatever the rounding.
        right = np.concatenate(
            [
                grouped_sum(part, owner, t),
                np.maximum(room, part @ taken),
                np.maximum(limit, part)[limited],
            ]
        )
        least = np.concatenate(
            [np.full(q, NOT_AT_ALL), np.full(form.m, ROOM), np.full(count, NOT_AT_ALL)]
        )
        return cls(csr_array(rows), right, least, share, limited)

    def furthest(self, unseen: BoolArray, deadline: float | None) -> FloatArray:
        """Return the mix (width,) with the greatest sum of the variables that have been 0 so far."""
        return self.least_cost(-unseen.astype(np.float64), deadline)[0]

    def least_cost(self, cost: FloatArray, deadline: float | None) -> tuple[FloatArray, FloatArray]:
        """Return the mix (width,) with the least sum of costs (width,).

        Return the prices (m,) of the resources as well.
        """
        options: dict[str, float | bool] = {
            "primal_feasibility_tolerance": FEASIBLE,
            "dual_feasibility_tolerance": FEASIBLE,
        }
        if deadline is not None:
            options["time_limit"] = max(deadline - time.monotonic(), 1e-3)
        answer = linprog(cost, A_eq=self.rows, b_eq=self.right, options=options)
        if answer.x is None and answer.status != LINPROG_TIME_LIMIT:
            # Rounding in presolve's substitutions can make rows that just fit infeasible.
            options["presolve"] = False
            answer = linprog(cost, A_eq=self.rows, b_eq=self.right, options=options)
        if answer.status == LINPROG_TIME_LIMIT:
            raise SolveTimeoutError("solve.timeout", "the time limit passed")
        if answer.x is None:
            raise SolveFailedError(
                "solve.failed", f"no mix of workloads was found: {answer.message}"
            )
        resources = slice(self.tenants, len(self.right) - len(self.limited))
        point: FloatArray = np.maximum(answer.x, 0.0)
        prices: FloatArray = np.maximum(-answer.eqlin.marginals[resources], 0.0)
        return point, prices

    def exact(
        self,
        part: FloatArray,
        runs: BoolArray,
        full: BoolArray,
        at_limit: BoolArray,
        own: FloatArray | None = None,
    ) -> FloatArray:
        """Return a mix (q,) without the tolerance of the programs.

        Args:
            part: (q,) the mix; runs: (q,) workloads between nothing and their limits.
            full: (m,) resources with no room; at_limit: (l,) limits that are reached.
            own: (q,) the mix that tenants without such workloads keep; None: what limits make of it.
        """
        q, count = len(part), len(at_limit)
        part = np.where(runs, part, 0.0)
        part[self.limited[at_limit]] = self.right[len(self.right) - count :][at_limit]
        if own is not None:
            shares = self.rows[: self.tenants, :q]
            part = np.where(shares.T @ (shares @ runs == 0) > 0, own, part)
        held = np.concatenate([np.arange(self.tenants), self.tenants + np.flatnonzero(full)])
        rows = self.rows[held][:, :q]
        scale = diags_array(np.where(runs, part, 0.0))
        missed = self.right[held] - rows @ part
        moved = lsmr(rows @ scale, missed, atol=1e-15, btol=1e-15, conlim=0.0)[0]
        result: FloatArray = np.maximum(part + scale @ moved, 0.0)
        return result
