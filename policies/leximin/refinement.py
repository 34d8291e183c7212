"""Refinement of a small leximin to the last digit.

Programs are solved up to a tolerance. Here their tight rows are solved as equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.certificate import Round
from policies.model.tolerance import OVERFILL, SOLVER_TOLERANCE
from policies.proofs.equations import nearest_solution
from policies.proofs.limit_rows import LimitRow
from policies.proofs.normal_form import LeximinProblem

# Of what is nearly full, or nearly all, it is meant to be so.
NEARLY = 1e-8
# Equations are solved when nothing is off by more, in shares of the pool.
SOLVED = 1e-14
# Equations of full rooms are solved at most so often: each time leaves less.
MOST_FILLINGS = 4

Refined = tuple[FloatArray, FloatArray, tuple[Round, ...]]


def refined(
    problem: LeximinProblem,
    x: FloatArray,
    share: FloatArray,
    rounds: Sequence[Round],
    frozen_in: IntArray,
) -> Refined:
    """Return the nearest solution of the equations that an answer nearly fulfils.

    Return the answer itself if there is none. The places of workloads stay. Tenants of a round have
    its level, or all their tasks. Workloads at their limits, full classes and reached amounts of
    limits stay so. Levels never exceed their bounds.

    Args:
        problem: the normalised problem.
        x: (n, K) shares on the classes; share: (t,) of each tenant.
        rounds: with their levels and bounds; frozen_in: (t,) the round of each tenant.

    Returns:
        ``x``, ``share`` and the rounds with the levels of the solution.
    """
    workload, where = np.nonzero(x)
    levels, bounds = np.array([(item.level, item.bound) for item in rounds]).T
    # A share is that of a level: one that lacks more is stopped before all tasks, and never has them.
    full = share >= problem.cap * (1 - SOLVER_TOLERANCE)
    # The level bounds a tenant's only workload.
    near_limit = problem.needs_limit_row & (x.sum(axis=1) > problem.limit * (1 - NEARLY))
    at_limit = np.flatnonzero(near_limit)
    of_class, resource = np.nonzero(problem.used_parts(x) > 1 - NEARLY)
    limited, amounts = _reached_limits(problem, x, workload, where)
    level_of = np.zeros((problem.t, len(rounds)))
    rises = ~full & (levels[frozen_in] > 0)
    level_of[rises, frozen_in[rises]] = -problem.weight[rises]
    taken = np.where(where == of_class[:, None], problem.demand[workload][:, resource].T, 0.0)
    rows = np.block(
        [
            [problem.owner[workload] == np.arange(problem.t)[:, None], level_of],
            [workload == at_limit[:, None], np.zeros((len(at_limit), len(rounds)))],
            [taken, np.zeros((len(of_class), len(rounds)))],
            [limited, np.zeros((len(limited), len(rounds)))],
        ]
    )
    right = np.concatenate(
        [
            np.where(full, problem.cap, 0.0),
            problem.limit[at_limit],
            problem.capacity_share[of_class, resource],
            amounts,
        ]
    )
    solution = nearest_solution(rows, right, np.append(x[workload, where], levels))
    parts, reached = np.split(solution, [len(workload)])
    solved = np.zeros_like(x)
    solved[workload, where] = parts
    # Rows that are taken for tight by mistake have no solution nearby, or one that does not fit.
    if (
        np.abs(rows @ solution - right).max(initial=0.0) > SOLVED
        or (parts < 0).any()
        or (reached > bounds * (1 + SOLVED)).any()
        or (problem.used_parts(solved) > 1 + OVERFILL).any()
        or (problem.limits_used(solved) > 1 + OVERFILL).any()
        or (solved.sum(axis=1) > problem.limit * (1 + OVERFILL)).any()
    ):
        return x, share, tuple(rounds)
    levels = np.where(levels == 0.0, 0.0, np.minimum(reached, bounds))
    restated = tuple(
        replace(item, level=level) for item, level in zip(rounds, levels.tolist(), strict=True)
    )
    return solved, np.where(full, problem.cap, levels[frozen_in] * problem.weight), restated


def filled_up(problem: LeximinProblem, x: FloatArray, share: FloatArray) -> FloatArray:
    """Return the same shares of tenants, moved between their places until nearly full rooms are full.

    Programs leave or exceed some 1e-12 of them, which is more than tenants with a small part of the pool
    may be lifted by. Few tenants of a vertex have several places, so that the equations are few.

    Args:
        problem: the normalised problem; x: (n, K) shares on the classes; share: (t,) of each tenant.
    """
    best, left = x, np.inf
    moved = _scaled_to(problem, x, share)
    workload, where = np.nonzero(moved)
    # Workloads at their limits have no share to give to the tenant's others.
    at_limit = moved.sum(axis=1) > problem.limit * (1 - NEARLY)
    unit = np.where(at_limit, problem.t + np.arange(problem.n), problem.owner)[workload]
    order = np.lexsort((-moved[workload, where], unit))
    workload, where, unit = workload[order], where[order], unit[order]
    is_first = np.r_[True, unit[1:] != unit[:-1]]
    # The largest place of each pays for what the others get.
    largest = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    gets = np.flatnonzero(~is_first)
    pays = largest[gets]
    of_class = np.argwhere(problem.used_parts(moved) > 1 - NEARLY)
    # Rounding alone uses an amount of 0, which has no parts.
    has_some = problem.rooms[problem.K :] > 0
    of_limit = np.argwhere((problem.limits_used(moved) > 1 - NEARLY) & has_some)
    some = np.r_[gets, pays]
    taken = _taken_parts(problem, of_class, of_limit, workload[some], where[some])
    rows = taken[:, : len(gets)] - taken[:, len(gets) :]
    if not rows.size:
        return x
    for _ in range(MOST_FILLINGS):
        used = problem.used_parts(moved)[tuple(of_class.T)]
        rest = 1.0 - np.r_[used, problem.limits_used(moved)[tuple(of_limit.T)]]
        if np.abs(rest).max() >= left:
            break
        best, left = moved, float(np.abs(rest).max())
        change = nearest_solution(rows, rest, np.zeros(len(gets)))
        moved = moved.copy()
        moved[workload[gets], where[gets]] += change
        np.subtract.at(moved, (workload[pays], where[pays]), change)
        if (moved < 0).any():
            break
        moved = _scaled_to(problem, moved, share)
    return best


def _scaled_to(problem: LeximinProblem, x: FloatArray, share: FloatArray) -> FloatArray:
    """Return ``x`` (n, K) in which each tenant has its share (t,) to the last digit."""
    sums = problem.tenant_sums(x)
    part = np.divide(share, sums, out=np.ones_like(sums), where=sums > 0)
    scaled: FloatArray = x * part[problem.owner, None]
    return scaled


def _taken_parts(
    problem: LeximinProblem,
    of_class: IntArray,
    of_limit: IntArray,
    workload: IntArray,
    where: IntArray,
) -> FloatArray:
    """Return what one unit of share of each place (p,) takes of rooms, (r, p), in parts of these.

    Args:
        of_class: class and resource (r', 2); of_limit: limit and resource (r'', 2).
        workload, where: (p,) of each place.
    """
    demand = problem.demand[workload]
    rows = [np.zeros((0, len(workload)))]
    for number, resource in of_class.tolist():
        size = problem.capacity_share[number, resource]
        rows.append(np.where(where == number, demand[:, resource] / size, 0.0)[None, :])
    for number, resource in of_limit.tolist():
        item = problem.limits[number]
        counted = _is_counted(problem, item, workload, where)
        size = float(item.amount[resource])
        rows.append(np.where(counted, demand[:, resource] / size, 0.0)[None, :])
    return np.concatenate(rows)


def _is_counted(
    problem: LeximinProblem, item: LimitRow, workload: IntArray, where: IntArray
) -> BoolArray:
    """Return whether a limit counts what a workload has on a class, (p,) for each of them."""
    counts = np.zeros(problem.n, dtype=np.bool_)
    counts[item.workloads] = True
    counted: BoolArray = counts[workload] & item.classes[where]
    return counted


def _reached_limits(
    problem: LeximinProblem, x: FloatArray, workload: IntArray, where: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return what placements (p,) take of amounts that are nearly used, (r, p), and these (r,)."""
    rows, amounts = [np.zeros((0, len(workload)))], []
    for limit, resource in np.argwhere(problem.limits_used(x) > 1 - NEARLY).tolist():
        item = problem.limits[limit]
        counted = _is_counted(problem, item, workload, where)
        rows.append(np.where(counted, problem.demand[workload, resource], 0.0)[None, :])
        amounts.append(float(item.amount[resource]))
    return np.concatenate(rows), np.array(amounts)
