"""Exact test of whether a round's prices prove its level, as if in rational arithmetic.

At non-negative prices the costs of all tenants' shares in a feasible allocation add up to at most
what the servers are worth (``prices``). If the costs of some shares add up to *more*, these shares
are not feasible together. Two hypotheses are tested, with every tenant frozen earlier at the share
of its tasks, and for a level raised by the tolerance that is claimed (``LEVEL_TOLERANCE``):

* all rising tenants at the raised level, or with all their tasks: they cannot go beyond, which
  bounds the round's level;
* one group of interchangeable tenants at the raised level and the others at the level, or at their
  share if that is less: the group cannot be lifted, which makes its tenants stuck.

The shares of the answer are feasible exactly. Otherwise shares that are too large by their rounding
would prove anything where prices are far apart.

Costs are those of the problem's quantities (``amounts``), at the prices, levels and weights that
are stated. In floating point each term is off by a few units in the last place of the amount it is
a part of, and sums are rounded once (``math.fsum``). A result beyond that error is certain. Only
the others are tested again, in longer floats (``long_levels``), then with terms that are rounded down
to whole multiples of a tiny part, and where that leaves a doubt, in fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.tolerance import LEVEL_TOLERANCE
from policies.verification.exact import UNIT
from policies.verification.exact_costs import ALL_TENANTS, Fractions
from policies.verification.form import Form
from policies.verification.long_levels import LongLevels
from policies.verification.places import Places
from policies.verification.prices import Costs
from policies.verification.rounds import LevelRounds
from policies.verification.stated import Stated

# Roundings behind one term: quantities to shares, shares to normalised demands, the level raised and
# weighted, products; each resource and each of a tenant's workloads adds one more.
ROUNDINGS = 48


@dataclass(frozen=True, eq=False)
class Proven:
    """Results of a certificate's prices.

    Attributes:
        levels: (rounds,) True if the level is proven to be within the tolerance of the highest.
        tenants: (t',) True if the tenant has all its tasks, or is proven to be stuck in its round.
    """

    levels: BoolArray
    tenants: BoolArray


def proven(
    stated: Stated,
    places: Places,
    form: Form,
    allocation: Allocation,
    rounds: LevelRounds,
) -> Proven:
    """Return the exact results of the prices of a leximin's rounds.

    Args:
        stated: the problem; places: what prices are for; form: who takes part.
        allocation: a feasible answer; rounds: of its certificate, which fit the problem.
    """
    certificate = rounds.certificate
    frozen_in = rounds.frozen_in
    levels = np.ones(len(certificate.rounds), dtype=np.bool_)
    tenants = form.kept.copy()
    share = form.tenant_sums(form.shares_of(allocation.tasks))
    finer: LongLevels | None = None
    exact: Fractions | None = None
    for number in range(len(certificate.rounds)):
        rising = rounds.rising(number)
        question = _Question.of(rounds, share, number)
        full = form.cap <= rounds.reached(number) * (1 + LEVEL_TOLERANCE)
        mine = np.unique(form.group[(frozen_in == number) & ~full])
        groups = np.r_[ALL_TENANTS, mine]
        yes, no = question.answers(groups)
        open_ = np.flatnonzero(~yes & ~no)
        if len(open_) and LongLevels.can_ask(stated):
            if finer is None:
                finer = LongLevels(stated, places, rounds, allocation)
            yes[open_], no[open_] = finer.answers(number, rising, groups[open_], ALL_TENANTS)
        for position in np.flatnonzero(~yes & ~no).tolist():
            if exact is None:
                exact = Fractions.of(stated, places, rounds, allocation)
            yes[position] = exact.cannot_be_lifted(number, rising, int(groups[position]))
        levels[number] = yes[0]
        stuck = np.isin(form.group, mine[yes[1:]])
        tenants |= (frozen_in == number) & (full | stuck)
    return Proven(levels, tenants)


@dataclass(frozen=True, eq=False)
class _Question:
    """One round in floating point, with how far off it may be.

    Attributes:
        group: (t',) of interchangeable tenants.
        cost: (t',) of what each tenant has reached; lift, together: (t',) what it costs more to lift
            the tenant alone, and to raise it with all.
        size: (t',) what roundings of these costs are relative to; worth: of all servers.
        wants, may_want: (t',) who has tasks left when lifted, certainly or perhaps; all_want,
            all_may_want: whether anybody has when all are raised.
        unit: relative error of a term.
    """

    group: IntArray
    cost: FloatArray
    lift: FloatArray
    together: FloatArray
    size: FloatArray
    worth: float
    wants: BoolArray
    may_want: BoolArray
    all_want: bool
    all_may_want: bool
    unit: float

    @classmethod
    def of(
        cls,
        rounds: LevelRounds,
        share: FloatArray,
        number: int,
    ) -> _Question:
        form, frozen_in, rising = rounds.form, rounds.frozen_in, rounds.rising(number)
        item = rounds.certificate.rounds[number]
        # Never above the answer's shares: only these are feasible, and larger ones would prove
        # anything.
        least = np.where(rising, np.minimum(rounds.reached(number), share), share)
        reached = np.where(rising | (frozen_in < number), np.minimum(form.cap, least), 0.0)
        alone, raised = rounds.lifted(number, LEVEL_TOLERANCE), rounds.raised(number)
        costs = Costs.at(form, item.prices)
        cost, _ = costs.of_shares(reached)
        more, size = costs.of_shares(np.where(rising, np.minimum(form.cap, alone), reached))
        all_more, all_size = costs.of_shares(
            np.where(rising, np.minimum(form.cap, raised), reached)
        )
        most = int(np.bincount(form.owner, minlength=1).max())
        unit = UNIT * (ROUNDINGS + form.demand.shape[1] + most)
        # From both sides of the error, so that neither result rests on rounding.
        wants = rising & (form.cap > alone * (1 + unit))
        may_want = rising & (form.cap > alone * (1 - unit))
        worth = math.fsum((form.rooms * item.prices).ravel().tolist())
        return cls(
            group=form.group,
            cost=cost,
            lift=more - cost,
            together=all_more - cost,
            size=np.maximum(size, all_size),
            worth=worth,
            wants=wants,
            may_want=may_want,
            all_want=rounds.want_more(number, unit),
            all_may_want=rounds.want_more(number, -unit),
            unit=unit,
        )

    def answers(self, groups: IntArray) -> tuple[BoolArray, BoolArray]:
        """Return the groups that certainly cannot be lifted (g,) and those that certainly can (g,).

        ``ALL_TENANTS`` stands for all rising tenants.
        """
        base = math.fsum([*self.cost.tolist(), -self.worth])
        surplus = base + self._sums(self.lift, groups, float(self.together.sum()))
        error = 2 * self.unit * (math.fsum(self.size.tolist()) + self.worth)
        error += 2 * UNIT * len(self.group) * float(max(self.lift.sum(), self.together.sum()))
        may_want = self._sums(self.may_want.astype(np.float64), groups, float(self.all_may_want))
        wants = self._sums(self.wants.astype(np.float64), groups, float(self.all_want))
        yes = (surplus > error) | (may_want == 0)
        no = (surplus < -error) & (wants > 0)
        return yes, no

    def _sums(self, values: FloatArray, groups: IntArray, everybody: float) -> FloatArray:
        by_group = grouped_sum(values, self.group, len(self.group))
        sums: FloatArray = np.where(groups == ALL_TENANTS, everybody, by_group[groups])
        return sums
