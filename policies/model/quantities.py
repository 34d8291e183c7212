"""Quantities on a common integer scale, so that what fits is decided exactly (policies §1.5).

Whole numbers below 2^53 are exact in float64, and so are their sums and differences: a server
that has exactly room for three tasks takes three, whatever was launched in which order.

The quantities of a resource are read as whole multiples of one unit, each
the one whose nearest float64 is the number given: 0.1 is one tenth, 5 / 9 five ninths where the
capacity is 5. The unit is a power of ten where that does, or else the reciprocal of a common
denominator of fractions with denominators up to 1,000 or powers of 2. Where neither does (numbers of
17 digits; very small ones beside very large ones), they are the float64 numbers themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.problem import Problem

LARGEST_WHOLE = 2.0**52
# An amount that fits nowhere.
BEYOND = 2.0**53
# Powers of ten up to this one are float64 numbers themselves.
_EXACT_POWER = 22
# Range of exact sums (``quantities_read``).
SERVER, POOL, NOTHING = "server", "pool", "nothing"
_MOST_DIGITS = 340
_MOST_DENOMINATORS = 64
# Fractions with larger denominators are unlikely to be meant, unless these are powers of 2.
_LARGEST_DENOMINATOR = 1000


@dataclass(frozen=True, eq=False)
class WholeServers:
    """A problem's servers and tasks in whole numbers, in one unit per resource.

    Attributes
    ----------
    demand : (q, m) float array
        Of one piece of each kind (``Problem.pieces``); of workloads whose tasks have one piece, of one
        task.
    capacity : (k, m) float array
        Of one server of each row; 0 for rows that offer nothing.
    share_of_unit : (m,) float array
        One unit as a share of the pool; 0 where the pool has none.
    limits : (l, m) float array
        Amounts of limits; inf of those that cannot bind.

    Examples
    --------
    >>> from policies import Problem, WholeServers
    >>> problem = Problem.create(resources=["cpu"], capacity=[[1.5]], tenants=["A"], demand=[[0.5]])
    >>> whole = WholeServers.of(problem)
    >>> whole.demand.tolist(), whole.capacity.tolist()
    ([[5.0]], [[15.0]])
    """

    demand: FloatArray
    capacity: FloatArray
    share_of_unit: FloatArray
    limits: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> WholeServers:
        """Return the problem's quantities on one scale per resource."""
        quantities = quantities_read(problem, SERVER)
        totals = problem.server_count @ quantities.capacity
        share = np.divide(1.0, totals, out=np.zeros(problem.m), where=totals > 0)
        return cls(quantities.demand, quantities.capacity, share, quantities.limits)


@dataclass(frozen=True, eq=False)
class Quantities:
    """Demands, capacities and amounts of limits in one unit per resource.

    Attributes:
        demand: (n, m) of one task, or (q, m) of one piece of each kind; capacity: (k, m) of one server.
        limits: (l, m) amounts of limits; inf of those that cannot bind.
        common: (m,) is there a unit of which all are whole multiples? Elsewhere tasks are
            rounded up and servers down.
    """

    demand: FloatArray
    capacity: FloatArray
    limits: FloatArray
    common: BoolArray


def offered_capacity(problem: Problem) -> FloatArray:
    """Return the capacity of one server of each row (k, m), 0 for rows that offer nothing."""
    return np.where(problem.contributed_only[:, None], 0.0, problem.capacity)


@lru_cache(maxsize=2)
def quantities_read(problem: Problem, sums: str) -> Quantities:
    """Return the problem's quantities, read once for solving and checking.

    The arrays must not be written to. Demands of workloads that cannot be served at all are 0.

    Args:
        problem: the problem.
        sums: the largest sum that must be exact. ``SERVER``: the capacity of a server, with demands by
            piece. ``POOL``: the capacity of the pool. ``NOTHING``: no sum, only the quantities
            themselves, however large.
    """
    capacity = offered_capacity(problem)
    unserved = problem.resource_absent | problem.out_of_range
    demand = np.where(unserved[:, None], 0.0, problem.demand)
    if sums == SERVER and problem.gangs:
        demand = np.where(unserved[problem.pieces.workload, None], 0.0, problem.pieces.demand)
    largest = problem.totals if sums == POOL else capacity.max(axis=0, initial=0.0)
    if sums == NOTHING:
        largest = np.maximum(largest, demand.max(axis=0, initial=0.0))
    limits = limits_below_totals(problem)
    largest = np.maximum(
        largest, np.where(np.isfinite(limits), limits, 0.0).max(axis=0, initial=0.0)
    )
    tables = (np.ascontiguousarray(table) for table in (demand, capacity, limits, largest))
    return _quantities_of(problem.m, *(table.tobytes() for table in tables))


def limits_below_totals(problem: Problem) -> FloatArray:
    """Return the amounts (l, m) of limits that are less than the pool has, inf for the others."""
    if not problem.limits:
        return np.zeros((0, problem.m))
    amounts = np.array([limit.amount for limit in problem.limits])
    amounts = np.where(problem.limit_share > 0, amounts, 0.0)
    return np.where(amounts < problem.totals, amounts, np.inf)


@lru_cache(maxsize=4)
def _quantities_of(resources: int, *tables: bytes) -> Quantities:
    """Return the quantities of some tables, cached by their bytes.

    The steps of a long-term policy have the same tables, since they differ in tasks only.
    """
    demand, capacity, limits, largest = (
        np.frombuffer(table).reshape(-1, resources) for table in tables
    )
    return whole_quantities(demand, capacity, largest[0], limits)


def as_read(problem: Problem, sums: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Demands (n or q, m), offered capacities (k, m) and limits (l, m) as what they stand for.

    Limits that cannot bind are inf.

    In whole multiples of the resource's unit, or else as the float64 numbers that they are; both
    exactly. ``sums`` as for :func:`quantities_read`: both read the same.
    """
    whole = quantities_read(problem, sums)
    demand = problem.pieces.demand if sums == SERVER else problem.demand
    return (
        np.where(whole.common, whole.demand, demand),
        np.where(whole.common, whole.capacity, offered_capacity(problem)),
        np.where(whole.common, whole.limits, limits_below_totals(problem)),
    )


def whole_quantities(
    demand: FloatArray, capacity: FloatArray, largest: FloatArray, limits: FloatArray | None = None
) -> Quantities:
    """Return demands, capacities and limits as whole numbers of one unit for each resource.

    Args:
        demand: (n, m) of one task.
        capacity: (k, m) of one server.
        largest: (m,) largest amount that will be added up, at least each capacity. Demands beyond
            it fit nowhere and need no unit: they are rounded up.
        limits: (l, m) amounts that sums may not exceed; inf: any. They are rounded like capacities.

    Returns:
        Whole numbers of the unit that the module describes. If there is no such unit in which
        ``largest`` stays below 2^52, the unit is the finest power of 2 in which it stays below 2^53,
        with demands rounded up and capacities down, so that tasks that fit do so exactly.
    """
    k = len(capacity)
    bounded = np.zeros((0, demand.shape[1])) if limits is None else limits
    unbounded = np.isinf(bounded)
    capacity = np.vstack([capacity, np.where(unbounded, 0.0, bounded)])
    whole_demand, whole_capacity = np.zeros(demand.shape), np.zeros(capacity.shape)
    common = np.ones(demand.shape[1], dtype=np.bool_)
    for r in range(demand.shape[1]):
        fits = demand[:, r] <= largest[r]
        values = np.concatenate([demand[fits, r], capacity[:, r]])
        whole = _whole_multiples(values, float(largest[r]))
        if whole is None:
            common[r] = False
            up = 53 - math.frexp(float(largest[r]))[1]
            whole_demand[:, r] = BEYOND
            whole_demand[fits, r] = np.ceil(np.ldexp(demand[fits, r], up))
            whole_capacity[:, r] = np.floor(np.ldexp(capacity[:, r], up))
            continue
        whole_demand[fits, r] = whole[: int(fits.sum())]
        whole_demand[~fits, r] = BEYOND
        whole_capacity[:, r] = whole[int(fits.sum()) :]
    whole_limits = np.where(unbounded, np.inf, whole_capacity[k:])
    return Quantities(whole_demand, whole_capacity[:k], whole_limits, common)


def _whole_multiples(values: FloatArray, largest: float) -> FloatArray | None:
    """Return the values (v,) as whole multiples of one unit.

    The unit is the coarsest decimal one that fits, or else a common fraction. None if neither fits.
    """
    if not values.any():
        return np.zeros(len(values))
    top = float(values.max())
    finest = math.floor(math.log10(LARGEST_WHOLE) - math.log10(max(largest, top)))
    # The finest unit first: where it fails, no coarser one holds either.
    if abs(finest) <= _MOST_DIGITS and _in_units(values, *_decimal(finest)) is not None:
        for digits in range(min(-math.floor(math.log10(top)), finest), finest + 1):
            whole = _in_units(values, *_decimal(digits))
            if whole is not None:
                return whole
    return _in_fractions(values, max(largest, top))


def _decimal(digits: int) -> tuple[int, int]:
    return (10**digits, 1) if digits >= 0 else (1, 10**-digits)


def _in_units(values: FloatArray, times: int, over: int) -> FloatArray | None:
    """Return whole N (v,) with each value the float64 nearest to N × over / times.

    None if there are none. One of ``times`` and ``over`` is 1.
    """
    exact = max(times, over) <= 10**_EXACT_POWER and float(max(times, over)) == max(times, over)
    if exact:
        whole: FloatArray = np.round(values * float(times) / float(over))
        if whole.max() >= LARGEST_WHOLE / 2:
            # From here on the rounded product may be nearer to the whole number beside.
            for beside in (-1.0, 1.0):
                found = _back(whole, times, over) == values
                is_beside = ~found & (_back(whole + beside, times, over) == values)
                whole = np.where(is_beside, whole + beside, whole)
        back = _back(whole, times, over)
    else:  # as long as it takes; Python's division of integers is rounded once
        numbers = [_nearest(value, times, over) for value in values.tolist()]
        if max(numbers) > LARGEST_WHOLE:
            return None
        whole = np.array(numbers, dtype=np.float64)
        back = np.array([number * over / times for number in numbers])
    if whole.max() > LARGEST_WHOLE or not np.array_equal(back, values):
        return None
    return whole


def _back(whole: FloatArray, times: int, over: int) -> FloatArray:
    """Return the float64 numbers (v,) nearest to whole × over / times."""
    back: FloatArray = whole / float(times) if over == 1 else whole * float(over)
    return back


def _nearest(value: float, times: int, over: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (2 * numerator * times + denominator * over) // (2 * denominator * over)


def _in_fractions(values: FloatArray, largest: float) -> FloatArray | None:
    """Return the values (v,) in units of 1 / a common denominator.

    None if that unit is too fine.
    """
    common = 1
    for _ in range(_MOST_DENOMINATORS):
        whole = _in_units(values, common, 1)
        if whole is not None:
            return whole
        back = np.round(values * common) / common
        # One value at a time: the denominator of the first mismatch often explains the others.
        part = _denominator(float(values[int(np.argmax(back != values))]))
        finer = math.lcm(common, part)
        # Powers of 2 are what a float64 is made of; other large denominators come from rounding.
        if part > _LARGEST_DENOMINATOR and part & (part - 1):
            return None
        if finer == common or finer * max(largest, 1.0) > LARGEST_WHOLE:
            return None
        common = finer
    return None


def _denominator(value: float) -> int:
    """Of the first convergent of the value's continued fraction that rounds to it."""
    numerator, denominator = value.as_integer_ratio()
    above, below, above_before, below_before = 1, 0, 0, 1
    while True:
        quotient, rest = divmod(numerator, denominator)
        above, above_before = quotient * above + above_before, above
        below, below_before = quotient * below + below_before, below
        if rest == 0 or above / below == value:
            return below
        numerator, denominator = denominator, rest
