"""Costs of shares at a round's prices, in fractions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, cmp_to_key
from itertools import pairwise
from operator import mul

import numpy as np

from policies.arrays import BoolArray
from policies.model.allocation import Allocation
from policies.model.policy import ShareDefinition
from policies.verification.form import alone_in_limits
from policies.verification.places import Places
from policies.verification.rounds import ExactShares, LevelRounds
from policies.verification.stated import Stated

# Into so many parts the unit of costs is divided before they are rounded down.
PARTS = 1 << 160
# Instead of a group.
ALL_TENANTS, NO_TENANT = -1, -2
# Price of one unit of share, a whole number and what it is to be divided by, and the most of it.
_Segment = tuple[int, int, Fraction | None]


@dataclass(frozen=True, eq=False)
class Fractions:
    """A problem and an answer in fractions, and the same questions about them.

    Attributes:
        rounds: the statement, and whose workloads and tenants these are.
        whole: (n') by resource, what one unit of share of a workload takes of the pool, as whole
            numbers and what they are to be divided by.
        limit: (n') share of all its tasks; None: no limit. owner: (n') tenant.
        x: (n') share of each workload, by its tasks; share: (t') of each tenant.
        allowed: (n') classes; capacity: (K + l) by resource, share of the pool: of classes, of limits.
        limits: (n') numbers of the limits in which the workload counts.
    """

    rounds: LevelRounds
    whole: list[tuple[list[int], int]]
    limit: list[Fraction | None]
    x: list[Fraction]
    share: list[Fraction]
    owner: list[int]
    allowed: list[list[int]]
    capacity: list[list[Fraction]]
    limits: list[list[int]]

    @classmethod
    def of(
        cls,
        stated: Stated,
        places: Places,
        rounds: LevelRounds,
        allocation: Allocation,
    ) -> Fractions:
        form = rounds.form
        problem, amounts = stated.problem, stated.as_they_are
        capacity = [[Fraction(a) for a in row] for row in amounts.exact_capacity.tolist()]
        of_place = [[Fraction(0)] * problem.m for _ in range(places.count)]
        servers: dict[tuple[Fraction, ...], int] = {}
        total = [Fraction(0)] * problem.m
        for row, count, where in zip(
            capacity, problem.server_count.tolist(), places.place_of_row.tolist(), strict=True
        ):
            servers[tuple(row)] = servers.get(tuple(row), 0) + count
            for r, amount in enumerate(row):
                total[r] += count * amount
                if where >= 0:
                    of_place[where][r] += count * amount

        def shares(row: list[Fraction]) -> list[Fraction]:
            return [part / of if of else Fraction(0) for part, of in zip(row, total, strict=True)]

        # Shares of the pool as whole numbers of one part of it: fractions would be reduced at each step.
        per_amount, of_pool = _whole([1 / of if of else of for of in total])
        caps: dict[int, list[int]] = {}
        for j, number in alone_in_limits(stated, places, form.reasons == ""):
            caps.setdefault(j, []).append(number)
        whole, limit, x = [], [], []
        share = [Fraction(0)] * form.t
        owners = form.owner[form.kind].tolist()
        demands = amounts.exact_demand[form.workloads].tolist()
        for j, owner, demand in zip(form.workloads.tolist(), owners, demands, strict=True):
            amounts_of_task, of_amount = _whole_floats(demand)
            taken = list(map(mul, amounts_of_task, per_amount))
            of_taken = of_amount * of_pool
            counted: list[int] | list[Fraction] = taken
            if stated.factors is not None:
                weights = stated.factors[problem.workload_tenant[j]].tolist()
                counted = [part / Fraction(w) for part, w in zip(taken, weights, strict=True)]
            # A whole number and what it is to be divided by: the parts are shared by most workloads.
            if stated.choice.share is ShareDefinition.ALONE:
                alone = _alone([Fraction(amount) for amount in demand], servers)
                parts, of_parts = of_taken * alone.denominator, alone.numerator
            else:
                by_sum = stated.choice.share is ShareDefinition.SUM
                most_counted = Fraction(sum(counted) if by_sum else max(counted))
                parts, of_parts = most_counted.numerator, most_counted.denominator
            whole.append(([part * of_parts for part in taken], parts))
            tasks = float(problem.tasks[j])
            number_of_tasks, of_tasks = float(allocation.tasks[j]).as_integer_ratio()
            x.append(Fraction(number_of_tasks * parts, of_tasks * of_parts * of_taken))
            # Sums of fractions are slow, and most tenants have one workload.
            share[owner] = share[owner] + x[-1] if share[owner] else x[-1]
            most = [] if math.isinf(tasks) else [Fraction(tasks)]
            for number in caps.get(j, []):
                bounds = amounts.exact_limits[number].tolist()
                most += [
                    Fraction(bound) / Fraction(part)
                    for bound, part in zip(bounds, demand, strict=True)
                    if 0 < bound < math.inf and part
                ]
            limit.append(min(most) * Fraction(parts, of_parts * of_taken) if most else None)
        # An amount that cannot bind is as good as all that the pool has.
        of_limits = [
            [
                Fraction(amount) if amount < math.inf else whole
                for amount, whole in zip(row, total, strict=True)
            ]
            for row in amounts.exact_limits.tolist()
        ]
        counted_by = np.zeros((len(form.limits), len(form.owner)), dtype=np.bool_)
        for number, item in enumerate(form.limits):
            counted_by[number] = item[0]
        return cls(
            rounds=rounds,
            limit=limit,
            x=x,
            share=share,
            owner=owners,
            allowed=_true_columns(form.allowed[form.kind]),
            capacity=[shares(row) for row in of_place + of_limits],
            limits=_true_columns(counted_by.T[form.kind]),
            whole=whole,
        )

    def demand(self, workload: int) -> list[Fraction]:
        """Return what one unit of share of a workload takes of the pool."""
        row, of = self.whole[workload]
        return [Fraction(part, of) for part in row]

    def cannot_be_lifted(self, number: int, rising: BoolArray, group: int) -> bool:
        """Return whether rising tenants (a group, or all) need no more or cannot have it."""
        if not self.wants_more(number, rising, group):
            return True
        worth = self.worth(number)
        least, terms = self._rounded_cost(number, rising, group)
        if least > worth * PARTS:
            return True
        # Rounding down takes less than one part of each term.
        if least + terms <= worth * PARTS:
            return False
        return self.cost(number, rising, group) > worth

    def unsold(self, number: int, rising: BoolArray) -> Fraction:
        """Return the servers' worth beyond the cost of the tenants' shares, with no tenant lifted."""
        return self.worth(number) - self.cost(number, rising, NO_TENANT)

    def _prices(self, number: int) -> tuple[list[list[int]], int]:
        """Return a round's prices as whole numbers, and their common denominator."""
        rows = self.rounds.certificate.rounds[number].prices.tolist()
        of = max((p.as_integer_ratio()[1] for row in rows for p in row), default=1)
        return [[n * (of // d) for n, d in map(float.as_integer_ratio, row)] for row in rows], of

    def worth(self, number: int) -> Fraction:
        prices, denominator = self._prices(number)
        priced = [product(*row) for row in zip(self.capacity, prices, strict=True) if any(row[1])]
        return sum(priced, Fraction(0)) / denominator

    def _least_prices(self, number: int) -> list[tuple[int, int]]:
        """Return what one unit of share of each workload (n') costs where it is cheapest.

        It is a whole number and what this is to be divided by.
        """
        # Whole numbers, as there are many places and fractions are slow.
        prices, of_prices = self._prices(number)
        form, places = self.rounds.form, len(self.rounds.form.capacity)
        found = []
        for (row, of_row), allowed, limits in zip(
            self.whole, self.allowed, self.limits, strict=True
        ):
            cost = {place: sum(map(mul, row, prices[place])) for place in allowed}
            for limit in limits:
                if any(prices[places + limit]):
                    paid = sum(map(mul, row, prices[places + limit]))
                    counts = form.limits[limit][1]
                    cost = {place: c + paid if counts[place] else c for place, c in cost.items()}
            found.append((min(cost.values()), of_row * of_prices))
        return found

    @cached_property
    def _known(self) -> dict[int, _RoundCosts]:
        return {}

    def _costs(self, number: int) -> _RoundCosts:
        """Return what the shares of a round cost, worked out once for all questions about it."""
        if number not in self._known:
            segments: list[list[_Segment]] = [[] for _ in range(self.rounds.form.t)]
            for price, limit, owner in zip(
                self._least_prices(number), self.limit, self.owner, strict=True
            ):
                segments[owner].append((*price, limit))
            for mine in segments:
                mine.sort(key=cmp_to_key(_by_price))
            self._known[number] = _RoundCosts(segments, self.rounds.exactly(number))
        return self._known[number]

    def wants_more(self, number: int, rising: BoolArray, group: int) -> bool:
        """Return whether a lifted tenant has tasks left."""
        if group == ALL_TENANTS and self.rounds.in_groups:
            return self.rounds.want_more(number, 0.0)
        costs = self._costs(number)
        for i in self._lifted(rising, group):
            limits = [limit for _, _, limit in costs.segments[i] if limit is not None]
            if len(limits) < len(costs.segments[i]) or sum(limits) > self._most(number, i, group):
                return True
        return False

    def _lifted(self, rising: BoolArray, group: int) -> list[int]:
        """Return the tenants that are lifted."""
        lifted = rising & ((group == ALL_TENANTS) | (self.rounds.form.group == group))
        return np.flatnonzero(lifted).tolist()

    def _most(self, number: int, tenant: int, group: int) -> Fraction:
        """Return the share of a lifted tenant."""
        _, raised, alone = self._costs(number).shares(tenant)
        return raised if group == ALL_TENANTS else alone

    def _all_shares(
        self, number: int, rising: BoolArray, group: int
    ) -> Iterator[tuple[int, Fraction]]:
        """Yield the tenants that rise or have risen, with their shares, some of them lifted."""
        costs, lifted = self._costs(number), set(self._lifted(rising, group))
        for i in np.flatnonzero(rising | (self.rounds.frozen_in < number)).tolist():
            share = costs.reached(i, self.share[i]) if rising[i] else self.share[i]
            yield i, self._most(number, i, group) if i in lifted else share

    def cost(self, number: int, rising: BoolArray, group: int) -> Fraction:
        """Return the least cost of all shares."""
        costs = self._costs(number)
        found = (costs.of_share(*each) for each in self._all_shares(number, rising, group))
        return sum(found, Fraction(0))

    def _rounded_cost(self, number: int, rising: BoolArray, group: int) -> tuple[int, int]:
        """Return the least cost of all shares in parts, each term rounded down, and their number."""
        costs, total, terms = self._costs(number), 0, 0
        lifted = set(self._lifted(rising, group))
        for i in np.flatnonzero(rising | (self.rounds.frozen_in < number)).tolist():
            if i in lifted:
                total += costs.in_parts(i, self._most(number, i, group))
            else:
                # The same for all groups of a round, which differ in the tenants that are lifted.
                total += costs.unlifted_in_parts(i, self.share[i], rising=bool(rising[i]))
            terms += len(costs.segments[i])
        return total, terms


@dataclass(frozen=True, eq=False)
class _RoundCosts:
    """Costs of the tenants' shares at the prices of a round.

    Attributes:
        segments: (t') of each workload, the cheapest first; shares: how far each tenant comes.
    """

    segments: list[list[_Segment]]
    shares: ExactShares

    @cached_property
    def _unlifted(self) -> dict[int, int]:
        return {}

    def reached(self, tenant: int, share: Fraction) -> Fraction:
        """Return the part of a rising tenant's share that the round reached."""
        return min(self.shares(tenant)[0], share)

    def unlifted_in_parts(self, tenant: int, share: Fraction, *, rising: bool) -> int:
        """Return the cost of a tenant's share, or of the part that a rising one reached, in parts."""
        if tenant not in self._unlifted:
            left = self.reached(tenant, share) if rising else share
            self._unlifted[tenant] = self.in_parts(tenant, left)
        return self._unlifted[tenant]

    def of_share(self, tenant: int, share: Fraction) -> Fraction:
        """Return the least cost of a share."""
        cost, left = Fraction(0), share
        for price, of, limit in self.segments[tenant]:
            part = left if limit is None else min(left, limit)
            cost += part * Fraction(price, of)
            left -= part
        return cost

    def in_parts(self, tenant: int, share: Fraction) -> int:
        """Return the least cost of a share in parts, that of each workload rounded down."""
        cost, left = 0, share
        for price, of, limit in self.segments[tenant]:
            part = left if limit is None else min(left, limit)
            # Floor division of whole numbers of any length: nothing else is rounded.
            cost += part.numerator * price * PARTS // (part.denominator * of)
            if limit is None:
                break
            left -= part
        return cost


def _by_price(one: _Segment, other: _Segment) -> int:
    """Return a number below, equal to or above 0 as the price of one is that of the other."""
    return one[0] * other[1] - other[0] * one[1]


def _true_columns(table: BoolArray) -> list[list[int]]:
    """Return the columns of each row that are true."""
    row, column = np.nonzero(table)
    edges = np.searchsorted(row, np.arange(len(table) + 1)).tolist()
    columns = column.tolist()
    return [columns[begin:end] for begin, end in pairwise(edges)]


def _whole_floats(values: list[float]) -> tuple[list[int], int]:
    """Return numbers as whole numbers, and their common denominator."""
    ratios = [value.as_integer_ratio() for value in values]
    # All are powers of 2, of which the largest is a multiple of the others.
    of = max(denominator for _, denominator in ratios)
    return [numerator * (of // denominator) for numerator, denominator in ratios], of


def _whole(values: list[Fraction]) -> tuple[list[int], int]:
    """Return fractions as whole numbers, and their common denominator."""
    of = math.lcm(*(value.denominator for value in values))
    return [value.numerator * (of // value.denominator) for value in values], of


def product(left: Sequence[Fraction], right: Sequence[Fraction | int]) -> Fraction:
    """Return the inner product."""
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


def _alone(demand: list[Fraction], servers: Mapping[tuple[Fraction, ...], int]) -> Fraction:
    """Return how many tasks of a demand all servers run.

    Args:
        servers: number of servers of each capacity.
    """
    return sum(
        (
            count * min(has / takes for has, takes in zip(row, demand, strict=True) if takes)
            for row, count in servers.items()
        ),
        Fraction(0),
    )
