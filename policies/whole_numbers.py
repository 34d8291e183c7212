"""Quantities on a common integer scale, so that what fits is decided exactly (policies §1.5).

Whole numbers below 2^53 are exact in float64, and so are their sums and differences: a server
that has exactly room for three tasks takes three, whatever was launched in which order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray
from policies.problem import Problem

LARGEST_WHOLE = 2.0**52
FINEST_DIGIT = 24
# Decimal digits beyond this relative distance are the noise of binary fractions. Where a
# quantity has no finite decimal form (5/9), a server may be filled this much too full.
SNAP_TOLERANCE = 1e-13


@dataclass(frozen=True, eq=False)
class WholeServers:
    """A problem's servers and tasks in whole numbers.

    Attributes:
        demand: (n, m) of one task.
        capacity: (k, m) of one server of each row, 0 for rows that offer nothing.
        share_of_unit: (m,) one unit as a share of the pool; 0 where the pool has none.
    """

    demand: FloatArray
    capacity: FloatArray
    share_of_unit: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> WholeServers:
        """The problem's quantities on one scale per resource."""
        capacity = np.where(problem.contributed_only[:, None], 0.0, problem.capacity)
        largest = capacity.max(axis=0, initial=0.0)
        demand, whole = whole_quantities(problem.demand, capacity, largest)
        totals = problem.server_count @ whole
        share = np.divide(1.0, totals, out=np.zeros(problem.m), where=totals > 0)
        return cls(demand, whole, share)


def whole_quantities(
    demand: FloatArray, capacity: FloatArray, largest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Demands and capacities as whole numbers of the same unit, resource by resource.

    Args:
        demand: (n, m) of one task.
        capacity: (k, m) of one server.
        largest: (m,) largest amount that will be added up, at least each capacity.

    Returns:
        demand (n, m) and capacity (k, m) in units of a power of ten: the coarsest in which
        every number is whole, or else the finest in which ``largest`` stays below 2^52; no
        demand above 0 becomes 0.
    """
    whole_demand, whole_capacity = np.zeros(demand.shape), np.zeros(capacity.shape)
    for r in range(demand.shape[1]):
        values = np.concatenate([demand[:, r], capacity[:, r]])
        digits = _digits(values[values > 0], float(largest[r]))
        needed = demand[:, r] > 0
        whole_demand[needed, r] = np.maximum(np.round(_scaled(demand[needed, r], digits)), 1.0)
        room = _scaled(capacity[:, r], digits)
        whole_capacity[:, r] = np.floor(room * (1 + SNAP_TOLERANCE) + SNAP_TOLERANCE)
    return whole_demand, whole_capacity


def _digits(values: FloatArray, largest: float) -> int:
    """Decimal places to keep; below 0 they are zeros to drop."""
    if largest <= 0 or not len(values):
        return 0
    most = math.floor(math.log10(LARGEST_WHOLE / largest))
    fewest = min(-math.floor(math.log10(values.max())), most)
    for digits in range(fewest, min(most, FINEST_DIGIT)):
        scaled = _scaled(values, digits)
        if (np.abs(scaled - np.round(scaled)) <= SNAP_TOLERANCE * scaled).all():
            return digits
    return min(most, FINEST_DIGIT)


def _scaled(values: FloatArray, digits: int) -> FloatArray:
    scaled: FloatArray = values * 10.0**digits if digits >= 0 else values / 10.0**-digits
    return scaled
