"""The mix of earlier stages' workloads that leaves most to a later market.

Tenants of earlier stages keep their shares; their mix and the later tenants' shares are chosen
together, for the greatest weighted Nash product of the later ones. The program is that of
``eisenberg_gale`` with one more equation per earlier tenant, the sum of its workloads.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.equilibrium.mixes import Mixes, mixes_of, overfilled
from policies.errors import SolveFailedError, SolveTimeoutError
from policies.model.tolerance import OVERFILL
from policies.proofs.market import stage_of
from policies.proofs.mixes import Mix
from policies.proofs.normal_form import LeximinProblem

MOST_STEPS = 200
# Complementarity left at the end, relative to the sum of weights.
CENTRED = 1e-12
# ... and what is accepted where rounding allows no more.
GOOD_ENOUGH = 1e-9
SHORT_OF_BOUNDARY = 0.99
CENTRING, CENTRING_AFTER_LONG, LONG_STEP = 0.1, 0.01, 0.9
# Rows that are this close to a combination of others, relative, are one.
DEPENDENT = 1e-9
# How much of the earlier prices is added to the later ones to prove a mix.
EARLIER_PRICES = (0.0, 1.0, 100.0)
# What another mix could save, relative to the budgets, that counts as nothing.
SAVED = 2e-10
# Prices below this part of the greatest are those of resources that are not full.
FREE = 1e-9


def leaves_most(
    form: LeximinProblem, stage: int, x: FloatArray, prices: FloatArray, earlier: FloatArray
) -> bool:
    """Return whether prices prove that no other mix of the earlier workloads leaves more to the stage.

    Parameters
    ----------
    form : LeximinProblem
        The normalised problem on one pool.
    stage : int
        The stage whose tenants share what is left.
    x : (n,) float array
        Shares of all workloads up to this stage.
    prices : (m,) float array
        What clears the stage's market.
    earlier : (m,) float array
        Prices of the stage before.
    """
    mix = Mix.of(form, stage, x)
    if not mix.is_chosen:
        return True
    full = mix.later.blocked > 0
    wants = form.demand[form.stage[form.owner] == stage].any(axis=0)
    if (full & wants & (earlier <= FREE * earlier.max())).any():
        return False
    budget = float(form.weight[form.stage == stage].sum())
    return any(
        mix.saving(np.where(full, 0.0, prices) + part * earlier) <= SAVED * budget
        for part in EARLIER_PRICES
    )


def best_mix(form: LeximinProblem, stage: int, x: FloatArray, deadline: float | None) -> FloatArray:
    """Return the shares (n,) of the earlier workloads in the mix that leaves most to the stage.

    The shares of other workloads are 0. If rounding overfilled a resource, all are scaled down.

    Raises:
        SolveTimeoutError, SolveFailedError.
    """
    mixes = mixes_of(form, x, stage, deadline)
    later = stage_of(form, stage, mixes.x)
    if later.market is None or not mixes.free.any():
        return _within(form, mixes.x)
    program = _Program.of(form, stage, mixes)
    shares, _ = _solve(program, deadline)
    result = mixes.x.copy()
    count = len(program.target)
    moved = np.flatnonzero(mixes.free)
    part = shares[: len(moved)]
    reached = grouped_sum(part, program.owner[: len(moved)], count)
    # Earlier tenants keep their shares exactly, which the program holds to its tolerance only.
    result[moved] = part * (program.target / reached)[program.owner[: len(moved)]]
    return _within(form, result)


def joint_prices(
    form: LeximinProblem, stage: int, x: FloatArray, deadline: float | None
) -> FloatArray | None:
    """Return prices (m,) of resources with room in some mix, with mix and later shares chosen together.

    Resources that are full in every mix are free: what they are worth depends on what else is paid for
    the mix (``mixes.completed_prices``). None where no mix leaves the later stage anything.

    Args:
        form: the normalised problem on one pool; stage: the later one.
        x: (n,) shares, those of earlier tenants in any mix.
        deadline: ``time.monotonic()`` seconds.

    Raises:
        SolveTimeoutError, SolveFailedError.
    """
    mixes = mixes_of(form, x, stage, deadline)
    market = stage_of(form, stage, mixes.x).market
    if market is None or not mixes.free.any():
        return None
    program = _Program.of(form, stage, mixes)
    _, found = _solve(program, deadline)
    prices = np.zeros(form.m)
    prices[program.rows] = np.where(program.equal, 0.0, found / program.size)
    return prices * float(market.weight.sum())


def _within(form: LeximinProblem, x: FloatArray) -> FloatArray:
    part = 1.0 + overfilled(form, x)
    return x if part <= 1 + OVERFILL else x / part


@dataclass(frozen=True, eq=False)
class _Program:
    """Workloads that move, those of earlier tenants first, and the rows that hold them.

    Attributes:
        rows: (m',) resource of each row; size: (m',) the part of the pool that is its unit.
        demand: (n', m') of the rows; right: (m',) what the rows may use; equal: (m',) all of it.
        owner: (n',) tenant of each workload, the earlier ones first; target: (e,) their sums.
        weight: (t',) of the later tenants, with sum 1; 0 for the earlier ones.
        limit: (n',) share at most; start: (n',) a point inside.
    """

    rows: IntArray
    size: FloatArray
    demand: FloatArray
    right: FloatArray
    equal: BoolArray
    owner: IntArray
    target: FloatArray
    weight: FloatArray
    limit: FloatArray
    start: FloatArray

    @classmethod
    def of(cls, form: LeximinProblem, stage: int, mixes: Mixes) -> _Program:
        moved = np.flatnonzero(mixes.free)
        later = np.flatnonzero(
            (form.stage[form.owner] == stage) & ~(form.demand[:, mixes.full] > 0).any(axis=1)
        )
        chosen = np.concatenate([moved, later])
        left = form.capacity_share[0] - mixes.x @ form.demand
        size = np.where(mixes.full | ~form.demand[chosen].any(axis=0), 1.0, left)
        demand = form.demand[chosen] / size
        tenants, owner = np.unique(form.owner[moved], return_inverse=True)
        target = grouped_sum(mixes.x[moved], owner, len(tenants))
        buyers, buyer = np.unique(form.owner[later], return_inverse=True)
        weight = form.weight[buyers] / form.weight[buyers].sum()
        part = (weight / np.bincount(buyer))[buyer]
        most = demand[len(moved) :].max(axis=1)
        begin = np.minimum(0.5 * part / most, 0.5 * form.limit[later])
        rows = _independent(demand[: len(moved)], owner, mixes.full)
        used = mixes.x[moved] @ demand[: len(moved)]
        return cls(
            rows=rows,
            size=size[rows],
            demand=np.ascontiguousarray(demand[:, rows]),
            right=np.where(mixes.full, used, used + 1.0)[rows],
            equal=mixes.full[rows],
            owner=np.concatenate([owner, len(tenants) + buyer]).astype(np.int64),
            target=target,
            weight=np.concatenate([np.zeros(len(tenants)), weight]),
            limit=form.limit[chosen],
            start=np.concatenate([mixes.x[moved], begin]),
        )


def _independent(demand: FloatArray, owner: IntArray, full: BoolArray) -> IntArray:
    """Return the rows that are needed.

    They are all rows with room, and the full ones that no others imply.
    """
    with_room = np.flatnonzero(~full)
    if not full.any():
        return with_room
    inside = demand[:, full]
    sums = [grouped_sum(column, owner, int(owner.max()) + 1) for column in inside.T]
    # A tenant's sum is held anyway: a row is new only in how its workloads differ.
    mean = np.column_stack(sums) / np.bincount(owner)[:, None]
    triangle, pivots = qr(inside - mean[owner], mode="r", pivoting=True)
    size = np.abs(np.diag(triangle))
    needed = pivots[: len(size)][size > DEPENDENT * float(np.abs(inside).max())]
    return np.sort(np.concatenate([with_room, np.flatnonzero(full)[needed]]))


def _solve(program: _Program, deadline: float | None) -> tuple[FloatArray, FloatArray]:
    """Return the shares (n',) at the optimum and the prices (m',) of the rows.

    Primal-dual steps lead there from the start.
    """
    demand, owner, equal = program.demand, program.owner, program.equal
    count = len(program.weight)
    earlier = np.arange(count) < len(program.target)
    target = np.concatenate([program.target, np.zeros(count - len(program.target))])
    weight = program.weight
    limited = np.isfinite(program.limit)
    x = program.start.copy()
    room = np.where(limited, program.limit - x, 1.0)
    pairs = len(x) + int(limited.sum()) + int((~equal).sum())
    level = 1.0 / pairs
    z, h = level / x, np.where(limited, level / room, 0.0)
    prices = np.where(equal, 0.0, 1.0)
    slack = np.where(equal, 0.0, program.right - x @ demand)
    y = np.zeros(count)
    step, best, answer = 0.0, np.inf, (x, prices)
    for _ in range(MOST_STEPS):
        if deadline is not None and time.monotonic() > deadline:
            raise SolveTimeoutError("solve.timeout", "the time limit passed")
        share = grouped_sum(x, owner, count)
        worth = np.where(earlier, y, weight / share)
        rest = worth[owner] - demand @ prices + z - h
        missed = program.right - x @ demand - slack
        products = float(x @ z) + float(room @ h) + float(slack @ prices)
        left = products + float(np.abs(rest) @ x) + float(np.abs(missed) @ np.abs(prices))
        # Near the end rounding can make a step worse.
        if left < best:
            best, answer = left, (x, prices)
        if products <= CENTRED or not np.isfinite(left):
            break
        centre = max((CENTRING if step < LONG_STEP else CENTRING_AFTER_LONG) * products,
                     0.01 * CENTRED) / pairs  # fmt: skip
        theta = 1.0 / (z / x + h / room)
        push = theta * (rest + centre / x - z - np.where(limited, centre / room - h, 0.0))
        total, pushed = grouped_sum(theta, owner, count), grouped_sum(push, owner, count)
        own = np.where(earlier, 1.0 / total, weight / (share**2 + weight * total))
        push -= theta * (own * (pushed - np.where(earlier, target - share, 0.0)))[owner]
        sums = np.column_stack([grouped_sum(theta * d, owner, count) for d in demand.T])
        gathered = theta[:, None] * (demand - (own[:, None] * sums)[owner])
        matrix = demand.T @ gathered
        column = demand.T @ push - missed
        open_rows = np.flatnonzero(~equal)
        matrix[open_rows, open_rows] += slack[open_rows] / prices[open_rows]
        column[open_rows] += centre / prices[open_rows] - slack[open_rows]
        # Least squares, because rows may become dependent on the way to the boundary.
        dp = np.linalg.lstsq(matrix, column, rcond=None)[0]
        dx = push - gathered @ dp
        dy = np.where(earlier, own * (target - share - pushed + sums @ dp), 0.0)
        dz = (centre - z * dx) / x - z
        dh = np.where(limited, (centre + h * dx) / room - h, 0.0)
        droom = np.where(limited, -dx, 0.0)
        ds = np.zeros_like(slack)
        ds[open_rows] = (centre - slack * dp)[open_rows] / prices[open_rows] - slack[open_rows]
        fastest = max(
            float((-change / value).max(initial=0.0))
            for change, value in (
                (dx, x), (dz, z), (droom, room), (dh[limited], h[limited]),
                (dp[open_rows], prices[open_rows]), (ds[open_rows], slack[open_rows]),
            )
        )  # fmt: skip
        step = min(1.0, SHORT_OF_BOUNDARY / max(fastest, 1e-300))
        x, z, room, h = x + step * dx, z + step * dz, room + step * droom, h + step * dh
        prices, slack, y = prices + step * dp, slack + step * ds, y + step * dy
    if not best <= GOOD_ENOUGH:
        raise SolveFailedError(
            "solve.failed", f"the best mix of workloads did not converge: {best:.1e}"
        )
    return answer
