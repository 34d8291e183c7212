"""The questions of ``exact_levels`` in the longest floats that the processor has.

Where float64 leaves a doubt, the same costs with 11 or more further bits nearly always remove it, at a
small part of the time that fractions take. An answer that is not certain is left to these, so that
nothing depends on the length of the floats.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.allocation import Allocation
from policies.model.policy import ShareDefinition
from policies.model.tolerance import LEVEL_TOLERANCE
from policies.verification.exact import UNIT
from policies.verification.form import alone_in_limits
from policies.verification.places import Places
from policies.verification.rounds import LevelRounds
from policies.verification.stated import Stated

LongArray = npt.NDArray[np.longdouble]
LONG = np.longdouble
LONG_UNIT = float(np.finfo(LONG).eps)
# Shorter floats than these gain too little.
WORTH_ASKING = 2.0**-62
# Roundings behind one term, as in ``exact_levels``.
ROUNDINGS = 64
# A long float as a sum of so many float64.
_PIECES = 3


class LongLevels:
    """A problem and an answer in long floats.

    Costs are those of ``exact_levels.Fractions``, each off by a few units in its last place.
    """

    def __init__(
        self, stated: Stated, places: Places, rounds: LevelRounds, allocation: Allocation
    ) -> None:
        form, problem, amounts = rounds.form, stated.problem, stated.as_they_are
        self._rounds = rounds
        self._owner = form.owner[form.kind]
        mine = form.workloads
        capacity: LongArray = amounts.exact_capacity.astype(LONG) * problem.server_count[:, None]
        total = capacity.sum(axis=0)
        size = np.where(total > 0, total, LONG(1))
        demand = amounts.exact_demand[mine].astype(LONG)
        taken = np.where(total > 0, demand / size, LONG(0))
        by_sum = stated.choice.share is ShareDefinition.SUM
        per_task = taken.sum(axis=1) if by_sum else taken.max(axis=1)
        self._unit_demand = taken / per_task[:, None]
        rooms = np.zeros((places.count, problem.m), dtype=LONG)
        offering = places.place_of_row >= 0
        np.add.at(rooms, places.place_of_row[offering], capacity[offering])
        bounds = amounts.exact_limits
        of_limits = np.where(bounds < np.inf, bounds.astype(LONG), total)
        self._rooms = np.where(total > 0, np.concatenate([rooms, of_limits]) / size, LONG(0))
        self._share = np.zeros(form.t, dtype=LONG)
        np.add.at(self._share, self._owner, allocation.tasks[mine].astype(LONG) * per_task)
        most = problem.tasks.astype(LONG)
        for j, number in alone_in_limits(stated, places, form.reasons == ""):
            for bound, part in zip(bounds[number], amounts.exact_demand[j], strict=True):
                if 0 < bound < math.inf and part:
                    most[j] = min(most[j], LONG(bound) / LONG(part))
        self._limit = most[mine] * per_task

    @staticmethod
    def can_ask(stated: Stated) -> bool:
        """Return whether the processor has long floats, and they know how the problem counts shares."""
        counts = stated.factors is None and stated.choice.share is not ShareDefinition.ALONE
        return LONG_UNIT <= WORTH_ASKING and counts

    def answers(
        self, number: int, rising: BoolArray, groups: IntArray, everybody: int
    ) -> tuple[BoolArray, BoolArray]:
        """Return the groups that certainly cannot be lifted (g,) and those that certainly can (g,).

        Args:
            number: of the round; rising: (t',) tenants that rise in it; groups: of interchangeable
                tenants; everybody: stands for all rising tenants.
        """
        rounds, form = self._rounds, self._rounds.form
        reached, together, alone = self._levels(number)
        frozen = rounds.frozen_in < number
        unit = LONG_UNIT * (
            ROUNDINGS + form.demand.shape[1] + int(np.bincount(self._owner, minlength=1).max())
        )
        costs = self._costs(number)
        before = np.where(rising, np.minimum(reached, self._share), self._share)
        cost, size = costs.of_shares(np.where(rising | frozen, before, LONG(0)))
        worth: LongArray = self._rooms * rounds.certificate.rounds[number].prices.astype(LONG)
        base = _sum(cost, -worth.ravel())
        cap = np.zeros(form.t, dtype=LONG)
        np.add.at(cap, self._owner, self._limit)
        # Each tenant's costs are its own: those of all that are lifted alone are worked out once.
        of_alone = self._lifted(costs, rising, alone, cost, size)
        order = np.argsort(form.group, kind="stable")
        yes, no = np.zeros(len(groups), dtype=np.bool_), np.zeros(len(groups), dtype=np.bool_)
        for position, group in enumerate(groups.tolist()):
            all_rise = group == everybody
            share, (lifts, growths) = alone, of_alone
            if all_rise:
                share, lifted = together, np.flatnonzero(rising)
                lifts, growths = self._lifted(costs, rising, together, cost, size)
            else:
                first, last = np.searchsorted(form.group, [group, group + 1], sorter=order)
                lifted = order[first:last][rising[order[first:last]]]
            lift = _sum(lifts[lifted])
            sizes = float(size.sum()) + float(growths[lifted].sum()) + float(worth.sum())
            # Twice what is known, as the error itself is rounded.
            error = 4 * (unit * sizes + UNIT * (abs(base) + abs(lift)))
            if all_rise and rounds.in_groups:
                wants = may_want = rounds.want_more(number, 0.0)
            else:
                wants = bool((cap[lifted] > share[lifted] * (1 + LONG(unit))).any())
                may_want = bool((cap[lifted] > share[lifted] * (1 - LONG(unit))).any())
            yes[position] = base + lift > error or not may_want
            no[position] = base + lift < -error and wants
        return yes, no

    @staticmethod
    def _lifted(
        costs: _LongCosts, rising: BoolArray, share: LongArray, cost: LongArray, size: LongArray
    ) -> tuple[LongArray, LongArray]:
        """Return what lifting rising tenants (t',) costs beyond ``cost``, and how much ``size`` grows.

        Args:
            share: (t',) to which each is lifted; cost, size: (t',) of what each has.
        """
        more, larger = costs.of_shares(np.where(rising, share, LONG(0)))
        return more - cost, np.maximum(larger - size, LONG(0))

    def _levels(self, number: int) -> tuple[LongArray, LongArray, LongArray]:
        """Return the shares (t',) that a round reaches, raised with all, and lifted alone."""
        rounds = self._rounds
        if rounds.in_groups:
            reached, together = rounds.reached(number), rounds.raised(number)
            alone = rounds.lifted(number, LEVEL_TOLERANCE)
            return reached.astype(LONG), together.astype(LONG), alone.astype(LONG)
        weight = rounds.form.weight.astype(LONG)
        level = LONG(rounds.certificate.rounds[number].level)
        raised = (level + LONG(LEVEL_TOLERANCE) * LONG(rounds.size(number))) * weight
        return level * weight, raised, raised

    def _costs(self, number: int) -> _LongCosts:
        form, prices = self._rounds.form, self._rounds.certificate.rounds[number].prices
        places = len(form.capacity)
        cost = np.zeros((len(self._owner), places), dtype=LONG)
        for r in range(prices.shape[1]):
            cost += self._unit_demand[:, r, None] * prices[:places, r]
        for limit in np.flatnonzero((prices[places:] > 0).any(axis=1)).tolist():
            counted, where, _ = form.limits[limit]
            counts = np.outer(counted[form.kind], where)
            paid = (self._unit_demand * prices[places + limit]).sum(axis=1)
            cost = np.where(counts, cost + paid[:, None], cost)
        cost[~form.allowed[form.kind]] = np.inf
        return _LongCosts(self._owner, cost.min(axis=1), self._limit, form.t)


class _LongCosts:
    """Tenants' workloads at the prices of a round, the cheapest first."""

    def __init__(self, owner: IntArray, price: LongArray, limit: LongArray, tenants: int) -> None:
        order = np.lexsort((price, owner))
        self._owner, self._price, self._tenants = owner[order], price[order], tenants
        self._start, self._end = np.zeros_like(limit), limit[order].copy()
        # A tenant's workloads follow each other, which a sum over all would round by others' shares.
        for at in np.flatnonzero(self._owner[1:] == self._owner[:-1]).tolist():
            self._start[at + 1] = self._end[at]
            self._end[at + 1] += self._end[at]

    def of_shares(self, share: LongArray) -> tuple[LongArray, LongArray]:
        """Return the costs of shares (t',), and the size that rounding is relative to (t',)."""
        reached = share[self._owner]
        begun = reached > self._start
        end = np.where(begun, np.minimum(reached, self._end), LONG(0))
        price = np.where(begun, self._price, LONG(0))
        start = np.where(begun, self._start, LONG(0))
        cost, size = np.zeros(self._tenants, dtype=LONG), np.zeros(self._tenants, dtype=LONG)
        np.add.at(cost, self._owner, (end - start) * price)
        np.add.at(size, self._owner, end * price)
        return cost, size


def _sum(*terms: LongArray) -> float:
    """Return the float64 nearest to the sum of all terms."""
    pieces: list[FloatArray] = []
    rest = np.concatenate(terms)
    for _ in range(_PIECES):
        pieces.append(rest.astype(np.float64))
        rest = rest - pieces[-1]
    return math.fsum(np.concatenate(pieces).tolist())
