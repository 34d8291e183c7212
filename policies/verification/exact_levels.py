"""Whether a round's prices prove its level, decided as if in rational arithmetic.

Any feasible allocation pays for itself: at non-negative prices the costs of all tenants' shares add
up to no more than what the servers are worth (``prices``). So once the costs of some shares add
up to *more*, nobody can have all of them. Put to the question are, with everybody frozen earlier at
the share that its tasks are, and for a level raised by the tolerance that is claimed
(``LEVEL_TOLERANCE``):

* all rising tenants at the raised level, or with all their tasks: they cannot go beyond, which
  bounds the round's level;
* one group of interchangeable tenants at the raised level and the others at the level, or at their
  share if that is less: the group cannot be lifted, which makes its tenants stuck.

What tenants have is feasible, exactly: else shares that are too large by their rounding would prove
anything where prices are far apart.

Costs are what the problem's quantities stand for (``amounts``), at the prices, levels and
weights that are stated. In floating point each term is off by a few units in the last place of what
it is a part of, and sums are rounded once (``math.fsum``); what is found beyond that is certain. Only
what is not is asked again in fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.policy import ShareDefinition
from policies.model.tolerance import LEVEL_TOLERANCE
from policies.verification.exact import UNIT
from policies.verification.form import Form
from policies.verification.prices import Costs, level_size, rising_in
from policies.verification.stated import Places, Stated

# Roundings behind one term: quantities to shares, shares to normalised demands, the level raised and
# weighted, products; each resource and each of a tenant's workloads adds one more.
ROUNDINGS = 48
# Instead of a group.
EVERYBODY, NOBODY = -1, -2


@dataclass(frozen=True, eq=False)
class Proven:
    """What a certificate's prices prove.

    Attributes:
        levels: (rounds,) is the level proven to be within the tolerance of the highest?
        tenants: (t',) does the tenant have all its tasks, or is it proven to be stuck in its round?
    """

    levels: BoolArray
    tenants: BoolArray


def proven(
    stated: Stated,
    places: Places,
    form: Form,
    allocation: Allocation,
    certificate: Certificate,
) -> Proven:
    """What the prices of a leximin's rounds prove, exactly.

    Args:
        stated: the problem; places: what prices are for; form: who takes part.
        allocation: a feasible answer; certificate: its own, whose rounds fit the problem.
    """
    frozen_in = certificate.frozen_in[form.tenants]
    levels = np.ones(len(certificate.rounds), dtype=np.bool_)
    tenants = np.zeros(form.t, dtype=np.bool_)
    share = form.tenant_sums(form.shares_of(allocation.tasks))
    exact: Fractions | None = None
    for number, item in enumerate(certificate.rounds):
        rising = rising_in(form, certificate.rounds, frozen_in, number)
        question = _Question.of(form, certificate, frozen_in, rising, share, number)
        full = form.cap <= item.level * form.weight * (1 + LEVEL_TOLERANCE)
        mine = np.unique(form.group[(frozen_in == number) & ~full])
        groups = np.r_[EVERYBODY, mine]
        yes, no = question.answers(groups)
        for position in np.flatnonzero(~yes & ~no).tolist():
            if exact is None:
                exact = Fractions.of(stated, places, form, allocation, certificate)
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
        cost, lift: (t',) of what each tenant has reached, and what the raised level costs more.
        size: (t',) what roundings of these costs are relative to; worth: of all servers.
        wants, may_want: (t',) who has tasks left at the raised level, certainly or perhaps.
        unit: relative error of a term.
    """

    group: IntArray
    cost: FloatArray
    lift: FloatArray
    size: FloatArray
    worth: float
    wants: BoolArray
    may_want: BoolArray
    unit: float

    @classmethod
    def of(
        cls,
        form: Form,
        certificate: Certificate,
        frozen_in: IntArray,
        rising: BoolArray,
        share: FloatArray,
        number: int,
    ) -> _Question:
        item = certificate.rounds[number]
        least = np.where(rising, np.minimum(item.level * form.weight, share), share)
        reached = np.where(rising | (frozen_in < number), np.minimum(form.cap, least), 0.0)
        raised = (item.level + LEVEL_TOLERANCE * level_size(form, rising, item.level)) * form.weight
        lifted = np.where(rising, np.minimum(form.cap, raised), reached)
        costs = Costs.at(form, item.prices)
        cost, _ = costs.of_shares(reached)
        more, size = costs.of_shares(lifted)
        most = int(np.bincount(form.owner, minlength=1).max())
        unit = UNIT * (ROUNDINGS + form.demand.shape[1] + most)
        wants = rising & (form.cap > raised * (1 + unit))
        may_want = rising & (form.cap > raised * (1 - unit))
        worth = math.fsum((form.capacity * item.prices).ravel().tolist())
        return cls(form.group, cost, more - cost, size, worth, wants, may_want, unit)

    def answers(self, groups: IntArray) -> tuple[BoolArray, BoolArray]:
        """(g,) and (g,) is it certain that a group, or ``EVERYBODY``, cannot be lifted; that it can?"""
        base = math.fsum([*self.cost.tolist(), -self.worth])
        surplus = base + self._sums(self.lift, groups)
        error = 2 * self.unit * (math.fsum(self.size.tolist()) + self.worth)
        error += 2 * UNIT * len(self.group) * float(self.lift.sum())
        yes = (surplus > error) | (self._sums(self.may_want.astype(np.float64), groups) == 0)
        no = (surplus < -error) & (self._sums(self.wants.astype(np.float64), groups) > 0)
        return yes, no

    def _sums(self, values: FloatArray, groups: IntArray) -> FloatArray:
        by_group = grouped_sum(values, self.group, len(self.group))
        sums: FloatArray = np.where(groups == EVERYBODY, values.sum(), by_group[groups])
        return sums


@dataclass(frozen=True, eq=False)
class Fractions:
    """A problem and an answer in fractions, and the same questions about them.

    Attributes:
        form: whose workloads and tenants these are; certificate: the statement.
        demand: (n') by resource, what one unit of share of a workload takes of the pool.
        limit: (n') share of all its tasks; None: no limit. owner: (n') tenant.
        x: (n') share of each workload, by its tasks; share: (t') of each tenant.
        allowed: (n') classes; capacity: (K) by resource, share of the pool.
    """

    form: Form
    certificate: Certificate
    demand: list[list[Fraction]]
    limit: list[Fraction | None]
    x: list[Fraction]
    share: list[Fraction]
    owner: list[int]
    allowed: list[list[int]]
    capacity: list[list[Fraction]]

    @classmethod
    def of(
        cls,
        stated: Stated,
        places: Places,
        form: Form,
        allocation: Allocation,
        certificate: Certificate,
    ) -> Fractions:
        problem, amounts = stated.problem, stated.as_they_are
        demand, capacity = (
            [[Fraction(amount) for amount in row] for row in table.tolist()]
            for table in (amounts.exact_demand, amounts.exact_capacity)
        )
        of_place = [[Fraction(0)] * problem.m for _ in range(places.count)]
        total = [Fraction(0)] * problem.m
        for row, count, where in zip(
            capacity, problem.server_count.tolist(), places.place_of_row.tolist(), strict=True
        ):
            for r, amount in enumerate(row):
                total[r] += count * amount
                if where >= 0:
                    of_place[where][r] += count * amount

        def shares(row: list[Fraction]) -> list[Fraction]:
            return [part / of if of else Fraction(0) for part, of in zip(row, total, strict=True)]

        per_share, limit, x = [], [], []
        share = [Fraction(0)] * form.t
        owners = form.owner[form.kind].tolist()
        for j, owner in zip(form.workloads.tolist(), owners, strict=True):
            taken = shares(demand[j])
            counted = taken
            if stated.factors is not None:
                weights = stated.factors[problem.workload_tenant[j]].tolist()
                counted = [part / Fraction(w) for part, w in zip(taken, weights, strict=True)]
            per_task = (
                sum(counted, Fraction(0))
                if stated.choice.policy.share is ShareDefinition.SUM
                else max(counted)
            )
            per_share.append([part / per_task for part in taken])
            tasks = float(problem.tasks[j])
            x.append(Fraction(float(allocation.tasks[j])) * per_task)
            share[owner] += x[-1]
            limit.append(None if math.isinf(tasks) else Fraction(tasks) * per_task)
        return cls(
            form=form,
            certificate=certificate,
            demand=per_share,
            limit=limit,
            x=x,
            share=share,
            owner=owners,
            allowed=[np.flatnonzero(row).tolist() for row in form.allowed[form.kind]],
            capacity=[shares(row) for row in of_place],
        )

    def cannot_be_lifted(self, number: int, rising: BoolArray, group: int) -> bool:
        """With rising tenants lifted (a group, or all): do they want no more, or cannot have it?"""
        prices = self._prices(number)
        cost, wanting = self._cost(number, rising, group, prices)
        return not wanting or cost > self._worth(prices)

    def unsold(self, number: int, rising: BoolArray) -> Fraction:
        """What servers are worth beyond what the tenants' shares cost, nobody lifted."""
        prices = self._prices(number)
        return self._worth(prices) - self._cost(number, rising, NOBODY, prices)[0]

    def _prices(self, number: int) -> list[list[Fraction]]:
        prices = self.certificate.rounds[number].prices.tolist()
        return [[Fraction(p) for p in row] for row in prices]

    def _worth(self, prices: list[list[Fraction]]) -> Fraction:
        return sum(map(product, self.capacity, prices), Fraction(0))

    def _cost(
        self, number: int, rising: BoolArray, group: int, prices: list[list[Fraction]]
    ) -> tuple[Fraction, bool]:
        """The least cost of all shares, and whether a lifted tenant has tasks left."""
        form, rounds = self.form, self.certificate.rounds
        level = Fraction(rounds[number].level)
        scale = Fraction(level_size(form, rising, rounds[number].level))
        raised = level + Fraction(LEVEL_TOLERANCE) * scale
        segments: list[list[tuple[Fraction, Fraction | None]]] = [[] for _ in range(form.t)]
        for row, limit, owner, allowed in zip(
            self.demand, self.limit, self.owner, self.allowed, strict=True
        ):
            segments[owner].append((min(product(row, prices[c]) for c in allowed), limit))
        frozen_in = self.certificate.frozen_in[form.tenants]
        cost, wanting = Fraction(0), False
        for i, mine in enumerate(segments):
            weight = Fraction(float(form.weight[i]))
            if rising[i]:
                lifted = group in (EVERYBODY, form.group[i])
                tasks = [limit for _, limit in mine if limit is not None]
                wanting |= lifted and (len(tasks) < len(mine) or sum(tasks) > raised * weight)
                left = raised * weight if lifted else min(level * weight, self.share[i])
            elif frozen_in[i] < number:
                left = self.share[i]
            else:
                continue
            for price, limit in sorted(mine, key=lambda segment: segment[0]):
                part = left if limit is None else min(left, limit)
                cost += part * price
                left -= part
        return cost, wanting


def product(left: list[Fraction], right: list[Fraction]) -> Fraction:
    """The inner product."""
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))
