"""Two ways to eliminate: tenants first or servers first, whichever leaves less.

Both solve, for the steps of prices ``dp`` (m, K), tenant prices ``dy`` (rows,), limit prices
``dh`` (n,), 0 where unlimited, and the level ``dtau``,

    class rows:   sum_j theta d (d . dp - dy + dh) + slack dp = a
    tenant rows:  sum_v theta (dy - d . dp - dh) - rise dtau   = b
    limit rows:   sum_c theta (d . dp - dy + dh) + room dh     = e
    level row:    rise . dy                                    = f

where ``theta = x / z``, ``slack = s / p`` and ``room = u / h``. Tenants first leaves a dense
system of classes × resources + 1 unknowns, for many tenants and few classes; servers first
leaves one of rows + limits + 1, for few tenants and many classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled
from policies.leximin.interior_point import loops as kernels
from policies.leximin.interior_point import servers_first, tenants_first
from policies.leximin.interior_point.cholesky import factored, substitute
from policies.leximin.level_program import LevelProgram


class Rows(NamedTuple):
    """What the equations of a program have in common at every point.

    Attributes:
        demand: (m, n); row: (n,) and first: (rows + 1,) as in the program; rise: (rows,).
        limited: workloads with a limit row; several: workloads that share their row.
        resource, other: (pairs,) resources of each pair; pair_products: (pairs, n) products of
            their demands, 0 for workloads that share their row.
        servers_first: which elimination.
    """

    demand: FloatArray
    row: IntArray
    first: IntArray
    rise: FloatArray
    limited: IntArray
    several: IntArray
    resource: IntArray
    other: IntArray
    pair_products: FloatArray
    servers_first: bool


class Elimination(NamedTuple):
    """What is kept per point: theta, its sums, and the factored system (N unknowns and dtau).

    Attributes:
        theta, part: (K, n); total, inverse, kept, values: (n,); diagonal, by_row: (rows,).
        links: (pairs, K, K); divided: (pairs, n); rest: (m K, m K) what rows of several and
            slacks leave: all of tenants first.
        columns: (K m, n) servers' blocks applied to theta d; blocks: (K, m, m), their factors:
            all of servers first.
        matrix, factor: (N, N); border, solved_border, right, solved, missed: (N,).
        corner: (2,) of the level itself, and with everything else eliminated.
    """

    theta: FloatArray
    part: FloatArray
    total: FloatArray
    inverse: FloatArray
    kept: FloatArray
    values: FloatArray
    diagonal: FloatArray
    by_row: FloatArray
    links: FloatArray
    divided: FloatArray
    rest: FloatArray
    columns: FloatArray
    blocks: FloatArray
    matrix: FloatArray
    factor: FloatArray
    border: FloatArray
    solved_border: FloatArray
    right: FloatArray
    solved: FloatArray
    missed: FloatArray
    corner: FloatArray


def rows_of(program: LevelProgram) -> Rows:
    """The rows of a program, with the elimination that leaves less."""
    limited = np.flatnonzero(np.isfinite(program.limit))
    alone = np.bincount(program.row, minlength=program.rows)[program.row] == 1
    resource, other = np.tril_indices(program.m)
    demand = np.ascontiguousarray(program.demand.T)
    return Rows(
        demand=demand,
        row=program.row,
        first=program.first,
        rise=program.rise,
        limited=limited,
        several=np.flatnonzero(~alone),
        resource=resource,
        other=other,
        pair_products=demand[resource] * demand[other] * alone,
        servers_first=program.rows + len(limited) < program.m * program.K,
    )


def elimination_for(rows: Rows, classes: int) -> Elimination:
    """Room for the factored system of a program on ``classes`` server classes."""
    m, n = rows.demand.shape
    t = len(rows.rise)
    unknowns = t + len(rows.limited) if rows.servers_first else m * classes
    pairs, inner, outer = (
        (0, 0, classes) if rows.servers_first else (len(rows.resource), classes, 0)
    )
    return Elimination(
        theta=np.zeros((classes, n)),
        part=np.empty((inner, n)),
        total=np.zeros(n),
        inverse=np.zeros(n),
        kept=np.ones(n),
        values=np.empty(n),
        diagonal=np.empty(t),
        by_row=np.empty(t),
        links=np.empty((pairs, inner, inner)),
        divided=np.empty((pairs, n)),
        rest=np.empty((m * inner, m * inner)),
        columns=np.empty((outer * m, n)),
        blocks=np.empty((outer, m, m)),
        matrix=np.empty((unknowns, unknowns)),
        factor=np.empty((unknowns, unknowns)),
        border=np.empty(unknowns),
        solved_border=np.empty(unknowns),
        right=np.empty(unknowns),
        solved=np.empty(unknowns),
        missed=np.empty(unknowns),
        corner=np.empty(2),
    )


@compiled
def factor(rows, system, x, z, slack, room):  # type: ignore[no-untyped-def]
    """Take in the current point; slack (m, K), room (n,) where limited. False when singular."""
    kernels.scaling(x, z, system.theta, system.total)
    if rows.servers_first:
        sound = servers_first.factor(rows, system, slack, room)
    else:
        sound = tenants_first.factor(rows, system, slack, room)
    if not sound or not factored(system.matrix, system.factor):
        return False
    substitute(system.factor, system.border, system.solved_border)
    own = system.corner[0]
    system.corner[1] = own + np.dot(system.border, system.solved_border)
    return True


@compiled
def solve(rows, system, a, b, e, f, refine, dp, dy, dh):  # type: ignore[no-untyped-def]
    """Write the steps dp (m, K), dy (rows,), dh (n,) and return dtau.

    Args:
        rows, system: factored at the current point.
        a, b, e, f: right-hand sides (m, K), (rows,), (n,) and of the level; b is overwritten.
        refine: ask for steps that are accurate although the system is nearly singular.
    """
    if rows.servers_first:
        return servers_first.solve(rows, system, a, b, e, f, dp, dy, dh)
    return tenants_first.solve(rows, system, a, b, e, f, refine, dp, dy, dh)
