"""Refinement of a small leximin to the last digit.

Programs are solved up to a tolerance. Here their tight rows are solved as equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.model.certificate import Round
from policies.model.tolerance import OVERFILL
from policies.proofs.equations import nearest_solution
from policies.proofs.normal_form import LeximinProblem

# Of what is nearly full, or nearly all, it is meant to be so.
NEARLY = 1e-8
# Equations are solved when nothing is off by more, in shares of the pool.
SOLVED = 1e-14

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
    full = share >= problem.cap * (1 - NEARLY)
    at_limit = np.flatnonzero(x.sum(axis=1) > problem.limit * (1 - NEARLY))
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


def _reached_limits(
    problem: LeximinProblem, x: FloatArray, workload: IntArray, where: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return what placements (p,) take of amounts that are nearly used, (r, p), and these (r,)."""
    rows, amounts = [np.zeros((0, len(workload)))], []
    for limit, resource in np.argwhere(problem.limits_used(x) > 1 - NEARLY).tolist():
        item = problem.limits[limit]
        counted = np.isin(workload, item.workloads) & item.classes[where]
        rows.append(np.where(counted, problem.demand[workload, resource], 0.0)[None, :])
        amounts.append(float(item.amount[resource]))
    return np.concatenate(rows), np.array(amounts)
