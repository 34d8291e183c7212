"""Placement rules that look at servers one by one, and the names of all rules.

Sources: Wang et al., TPDS 2015, §5.2 (first-fit), Tang et al., TPDS 2018, §6 (affinity).
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE, misfit
from policies.model.tolerance import DISCRETE_TOLERANCE

FIRST_FIT, AFFINITY, TWO_CHOICES, BEST_BY_SLOPE, BEST_BY_SCAN = range(5)


@compiled
def first_fit(demand, allowed, row_of, left, start):
    """Return the first server from ``start`` on that has room, or -1."""
    m = len(demand)
    for server in range(start, len(left)):
        fits = True
        for r in range(m):
            fits = fits and demand[r] <= left[server, r]
        if fits and allowed[row_of[server]]:
            return server
    return NOWHERE


@compiled
def better_of_two(demand, ratio, reference, size, allowed, row_of, left, share_of_unit, draws):
    """Return the better fit of two servers drawn at random, or -1 if neither has room."""
    best, chosen = np.inf, NOWHERE
    for _ in range(2):
        server = int(draw(draws) * len(left))
        fits = allowed[row_of[server]]
        for r in range(len(demand)):
            fits = fits and demand[r] <= left[server, r]
        if not fits:
            continue
        distance = misfit(ratio, reference, left[server], share_of_unit)
        slack = DISCRETE_TOLERANCE * (size + min(best, distance))
        if distance < best - slack or (distance <= best + slack and server < chosen):
            best, chosen = distance, server
    return chosen


@compiled
def draw(draws):
    """Return the next number in [0, 1) of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    draws[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = draws[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = bits ^ (bits >> np.uint64(31))
    return float(bits >> np.uint64(11)) * 2.0**-53


@compiled
def most_affine(demand, allowed, row_start, opened, left, share_of_unit):
    """Return the server with the largest dot product of demand and unused capacity, or -1."""
    m = len(demand)
    best = -1.0
    # Which scores tie with the best is known only after a first pass; the first of these is taken.
    for again in range(2):
        threshold = best * (1.0 - DISCRETE_TOLERANCE)
        if again == 1 and best < 0.0:
            break
        for row in range(len(opened)):
            if not allowed[row]:
                continue
            last = min(opened[row] + 1, row_start[row + 1])
            for server in range(row_start[row], last):
                fits = True
                score = 0.0
                for r in range(m):
                    amount = left[server, r]
                    fits = fits and demand[r] <= amount
                    score += demand[r] * share_of_unit[r] * amount * share_of_unit[r]
                if fits and again == 1 and score >= threshold:
                    return server
                if fits and score > best:
                    best = score
    return NOWHERE
