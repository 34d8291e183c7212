"""Every tolerance that is part of what an answer promises, named once.

What fits is decided exactly (``proofs.capacities``). The tolerances here are for numbers that are
equal in rational arithmetic and differ by rounding in float64. Step lengths and stopping rules of a
single algorithm stay beside it.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray

# Discrete decisions (policies §1.5): two numbers that are equal in rational arithmetic differ by a
# few units in the last place after a handful of operations; a relative 1e-9 is far above that and
# far below any quantity that means something (quantities have 12 fractional digits at most).
DISCRETE_TOLERANCE = 1e-9

# Relative distance between a level and its proven bound that counts as optimal, and the
# part of 1 / sum of weights below which a level's own size no longer scales it.
LEVEL_TOLERANCE = 1e-9
SMALLEST_LEVEL_SCALE = 1e-2
# The solver asks more of itself than the verifier does, so that rounding or another order of
# summation never costs an answer its proof.
SOLVER_TOLERANCE = LEVEL_TOLERANCE / 2
SOLVER_NOISE = 2e-15
# What is less than this part of a tenant's share is rounding, and 0 in the answer: solvers leave it to
# workloads and servers that get nothing. Far enough below the tolerance of a level for its proof.
DUST = LEVEL_TOLERANCE / 4
# What rounding may hide when costs are subtracted from the worth of all servers, relative to that.
BUDGET_ROUNDING = 1e-15
# ... and what the rounding of shares of others may hide. It counts only where shares then rise, at no
# price, to a position that is reached. A tenth of it was too little for a generated pool.
BUDGET_NOISE = 1e-10
# A position on the path of a tree, the sum of all shares, is rounded by this much of it, and with it the
# share of a tenant that rises alone.
POSITION_ROUNDING = 1e-15
# A round whose bound is further from its level, relative, is not one that rounding leaves open; nor is
# one with a tenant that could be lifted further by it, as far as prices show.
OPEN_GAP = 1e-3
# ... nor one whose lift to the bound costs more than this part of the resources that those who rise
# would take it from: mostly some 1e-15 of these is what rounding hides, 1.1e-11 was the most.
HIDDEN_BY_ROUNDING = 1e-10
# Tenants whose lift, relative, is at most this end an open round together. Among 10,000 tenants prices
# left 5e-10 to some 1e-8 of the lift of one with a small part of the pool, which is rounding.
HIDDEN_LIFT = 1e-7
# CEEI: mixes of the first stage's workloads that differ by no more than this part of the pool, of each
# resource, are as good as one: what solvers leave idle of resources that are full.
SAME_AMOUNT = 1e-9
# ... and this is the most of the second stage's product that such a difference may hide, relative: where
# what is left is small, that much of the pool is much of it.
HIDDEN_PRODUCT = 1e-6
# ... and a resource of which no mix leaves more than this part of the pool is full in all of them. Twice
# ``proofs.market.ROOM`` was the most that a mix left of what another one fills.
NEXT_TO_NOTHING = 1e-5
# Time division: a round that is left open is not wider than this part of its bound.
OPEN_TIME_GAP = 0.5
# ... levels below it are as good as this one: what they are relative to.
SMALLEST_LEVEL = 1e-3
# ... and a tenant whose share has less than this part in a round's prices is left to a later round.
SMALLEST_PART = 1e-7

# Rounding may overfill a class by this much, relative, before the answer is made feasible exactly.
OVERFILL = 5e-13
# No more than this part of anything is taken back then: beyond, a solver has failed.
MOST_TAKEN = 1e-11

# Sums and products of reported numbers agree to this, relative: solvers and readers add up in
# different orders, 1e-16 of the largest term each time.
AGREEMENT = 1e-9
# A tenant's workload may run in the place of a preferred one with this part of their shares: what room
# there is for one of them, when it is preferred, is right to the solver's rounding.
PREFERRED = 1e-8
# The fractions of a period add up to 1 to this: thirds of it have no sum that is 1 exactly.
WHOLE_PERIOD = 1e-12

# Properties: differences of shares below this, relative, are rounding of solvers (solved to 1e-9);
SHARE_TOLERANCE = 1e-7
# ... and a gain or loss below this part of a share is not one.
CHANGE_TOLERANCE = 1e-6


def whole_part(amount: FloatArray) -> FloatArray:
    """Floor of each amount, where one that is a whole number but for rounding is that."""
    nearest = np.round(amount)
    close = np.abs(amount - nearest) <= DISCRETE_TOLERANCE * np.maximum(1.0, np.abs(nearest))
    whole: FloatArray = np.where(close, nearest, np.floor(amount))
    return whole
