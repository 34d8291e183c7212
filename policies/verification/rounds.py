"""Shares by the rounds of a leximin, in a flat pool and in a tree of groups.

In a flat pool all rising tenants have one level, and their shares are level × weight. In a tree a
round's level is a position on the path on which shares rise (``group_path``), from where the round
before ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.allocation import Allocation, PaidShares, SharePath
from policies.model.certificate import Certificate
from policies.model.policy import ShareDefinition
from policies.model.tolerance import (
    AGREEMENT,
    BUDGET_NOISE,
    LEVEL_TOLERANCE,
    POSITION_ROUNDING,
    SMALLEST_LEVEL_SCALE,
)
from policies.verification.form import Form, form_of
from policies.verification.group_path import GroupPath
from policies.verification.groups import Groups
from policies.verification.prices import (
    Costs,
    bound_on_level,
    budget_rounding,
    level_size,
    rising_in,
    worth,
)
from policies.verification.stated import Stated

# A tenant's share at a round's level, raised with all, and lifted alone.
ExactShares = Callable[[int], tuple[Fraction, Fraction, Fraction]]


@dataclass(frozen=True, eq=False)
class LevelRounds:
    """Rounds of a flat pool.

    Attributes:
        form: its participants; certificate: the rounds, which fit it.
    """

    form: Form
    certificate: Certificate

    @property
    def in_groups(self) -> bool:
        """True if levels are positions on a path."""
        return False

    def restated(self, certificate: Certificate) -> LevelRounds:
        """Return the rounds of a certificate that differs in what it states as proven alone."""
        return replace(self, certificate=certificate)

    @cached_property
    def frozen_in(self) -> IntArray:
        """Round (t',) of each tenant."""
        return self.certificate.frozen_in[self.form.tenants]

    def rising(self, number: int) -> BoolArray:
        """Return the tenants (t',) whose share still rises in a round."""
        return rising_in(self.form, self.certificate.rounds, self.frozen_in, number)

    @cached_property
    def _sizes(self) -> dict[int, float]:
        return {}

    def size(self, number: int) -> float:
        """Return the size that the tolerance of a round's level is relative to."""
        if number not in self._sizes:
            level = self.certificate.rounds[number].level
            self._sizes[number] = level_size(self.form, self.rising(number), level)
        return self._sizes[number]

    @cached_property
    def _reached(self) -> dict[int, FloatArray]:
        return {}

    def reached(self, number: int) -> FloatArray:
        """Return the shares (t',) of rising tenants at a round's level.

        They may exceed the shares of all their tasks.
        """
        if number not in self._reached:
            self._reached[number] = self.at(number, self.certificate.rounds[number].level)
        return self._reached[number]

    def at(self, number: int, level: float) -> FloatArray:  # noqa: ARG002 - of a path it counts
        """Return the shares (t',) of rising tenants at another level."""
        shares: FloatArray = level * self.form.weight
        return shares

    def before_its_path(self, number: int) -> float:  # noqa: ARG002 - of a path it counts
        """Return by how much a round's level is before the position at which the round begins."""
        return 0.0

    def raised(self, number: int) -> FloatArray:
        """Return the shares (t',) if all rise together by the tolerance of a level."""
        return self.lifted(number, LEVEL_TOLERANCE)

    def want_more(self, number: int, margin: float) -> bool:
        """True if a tenant rises beyond the raised shares, more by a part of ``margin``."""
        raised = self.raised(number) * (1 + margin)
        return bool((self.rising(number) & (self.form.cap > raised)).any())

    def lifted(self, number: int, by: float) -> FloatArray:
        """Return the share (t',) of each tenant if it alone is lifted.

        The lift is a part of the size of levels.
        """
        item = self.certificate.rounds[number]
        lifted: FloatArray = (item.level + by * self.size(number)) * self.form.weight
        return lifted

    def frozen_at(self) -> FloatArray:
        """Return the share (t',) at which each tenant was frozen."""
        level = np.array([item.level for item in self.certificate.rounds] or [0.0])
        share = np.minimum(self.form.cap, level[self.frozen_in] * self.form.weight)
        return np.where(self.form.kept, self.form.cap, share)

    def share_scale(self, share: FloatArray) -> FloatArray:
        """Return the size (t',) to which an error in shares (t',) is relative."""
        return np.maximum(share, 1e-3 * AGREEMENT)

    def bound(self, number: int, share: FloatArray) -> float:
        """Return the highest level that a round's prices leave open.

        Args:
            number: of the round; share: (t',) of tenants frozen before.
        """
        before = np.where(self.frozen_in < number, share, 0.0)
        prices = self.certificate.rounds[number].prices
        return bound_on_level(self.form, prices, before, self.rising(number))

    def exactly(self, number: int) -> ExactShares:
        """Return how far a tenant comes in a round, as a function of the tenant."""
        # Fractions of the floats themselves: nothing is rounded on the way.
        level = Fraction(self.certificate.rounds[number].level)
        raised = level + Fraction(LEVEL_TOLERANCE) * Fraction(self.size(number))
        weights = self.form.weight.tolist()

        def shares(tenant: int) -> tuple[Fraction, Fraction, Fraction]:
            weight = Fraction(weights[tenant])
            return level * weight, raised * weight, raised * weight

        return shares


@dataclass(frozen=True, eq=False)
class PathRounds(LevelRounds):
    """Rounds of a pool with groups.

    Attributes:
        groups: the tree; tenants: how many the problem has.
        direction: (t', m) in which proportions tenants use resources.
        walked: paths to trust instead of walking them; none where an answer is verified.
    """

    groups: Groups
    direction: FloatArray
    walked: tuple[SharePath, ...] = ()

    @property
    def in_groups(self) -> bool:
        return True

    def restated(self, certificate: Certificate) -> PathRounds:
        return replace(self, certificate=certificate, walked=tuple(self._paths))

    @cached_property
    def _paths(self) -> Sequence[SharePath]:
        return self.walked or [_OfTenants(path, self.form.tenants) for path in self._walk()]

    def _walk(self) -> list[GroupPath]:
        t, form = self.groups.problem.t, self.form
        direction = np.zeros((t, self.direction.shape[1]))
        direction[form.tenants] = self.direction
        cap, now = np.zeros(t), np.zeros(t)
        cap[form.tenants] = form.cap
        # Kept parts have their shares before the first round.
        now[form.tenants] = np.where(form.kept, form.cap, 0.0)
        paths: list[GroupPath] = []
        for number, item in enumerate(self.certificate.rounds):
            rising = np.zeros(t, dtype=np.bool_)
            rising[form.tenants] = self.rising(number)
            before = None
            if paths and item.stage == self.certificate.rounds[number - 1].stage:
                before = paths[-1]
            paths.append(GroupPath(self.groups, item.stage, direction, now, cap, rising, before))
            now = paths[-1].shares(item.level)
        return paths

    @cached_property
    def _part(self) -> FloatArray:
        late = self.groups.late
        parts = np.where(late, self.groups.parts(late, 1), self.groups.parts(~late, 0))
        return parts[self.form.tenants]

    def size(self, number: int) -> float:
        return max(self.certificate.rounds[number].level, SMALLEST_LEVEL_SCALE)

    def at(self, number: int, level: float) -> FloatArray:
        return self._paths[number].shares(level)

    def before_its_path(self, number: int) -> float:
        return self._paths[number].first - self.certificate.rounds[number].level

    def raised(self, number: int) -> FloatArray:
        level = self.certificate.rounds[number].level
        return self.at(number, level + LEVEL_TOLERANCE * self.size(number))

    def want_more(self, number: int, margin: float) -> bool:
        level = self.certificate.rounds[number].level + LEVEL_TOLERANCE * self.size(number)
        return self._paths[number].last > level * (1 + margin)

    def lifted(self, number: int, by: float) -> FloatArray:
        reached = self.reached(number)
        return reached + by * np.maximum(reached, self._part * self.size(number))

    def frozen_at(self) -> FloatArray:
        share = np.where(self.form.kept, self.form.cap, 0.0)
        for number in range(len(self.certificate.rounds)):
            mine = self.frozen_in == number
            share[mine] = self.reached(number)[mine]
        return np.minimum(self.form.cap, share)

    def share_scale(self, share: FloatArray) -> FloatArray:
        size = max((item.level for item in self.certificate.rounds), default=0.0)
        size = max(size, SMALLEST_LEVEL_SCALE)
        rounding = POSITION_ROUNDING / AGREEMENT * size
        return np.maximum(np.maximum(share, self._part * size), rounding)

    def bound(self, number: int, share: FloatArray) -> float:
        form, prices = self.form, self.certificate.rounds[number].prices
        costs = Costs.at(form, prices)
        all_ = worth(form, prices)
        spent, _ = costs.of_shares(np.where(self.frozen_in < number, share, 0.0))
        # What rounding of the prices hides is added, so that the bound stays one.
        budget = max(all_ - float(spent.sum()), 0.0) + budget_rounding(form, prices)
        path, paid = self._paths[number], costs.paid(self.rising(number))
        level = self.certificate.rounds[number].level
        bound = path.furthest(paid, budget, level)
        if bound < level:
            # Where shares rise at no price, the rounding of what others have decides how far they come.
            further = path.furthest(paid, budget + BUDGET_NOISE * all_, level)
            bound = level if further >= level else bound
        return bound

    def exactly(self, number: int) -> ExactShares:
        # The path is walked once for all tenants: a walk takes time in proportion to their number.
        reached = self.reached(number).tolist()
        raised = self.raised(number).tolist()
        lifted = self.lifted(number, LEVEL_TOLERANCE).tolist()

        def shares(tenant: int) -> tuple[Fraction, Fraction, Fraction]:
            return Fraction(reached[tenant]), Fraction(raised[tenant]), Fraction(lifted[tenant])

        return shares


@dataclass(frozen=True, eq=False)
class _OfTenants:
    """A path of all tenants of a problem, as that of those that take part."""

    path: GroupPath
    tenants: IntArray

    @property
    def first(self) -> float:
        return self.path.first

    @property
    def last(self) -> float:
        return self.path.last

    def shares(self, position: float) -> FloatArray:
        return self.path.shares(position)[self.tenants]

    def furthest(self, paid: PaidShares, budget: float, near: float | None = None) -> float:
        return self.path.furthest(paid._replace(owner=self.tenants[paid.owner]), budget, near)


def rounds_of(
    stated: Stated, form: Form, certificate: Certificate, walked: tuple[SharePath, ...] = ()
) -> LevelRounds:
    """Return the rounds of a certificate that fits.

    Args:
        stated: the problem; form: its participants; walked: paths of the rounds to trust.
    """
    if stated.groups is None:
        return LevelRounds(form, certificate)
    return PathRounds(form, certificate, stated.groups, proportions(stated, form), walked)


def proportions(stated: Stated, form: Form) -> FloatArray:
    """Return the shares of the pool per unit of share (t', m), the largest 1.

    Shape (t', 1) where shares just add up. A tenant's workloads count by their tasks, or alike if
    any has no limit.
    """
    if stated.choice.share is ShareDefinition.ALONE:
        return np.ones((form.t, 1))
    problem, mine = stated.problem, form.workloads
    owner = form.owner[form.kind]
    tasks = problem.tasks[mine]
    endless = np.isin(owner, owner[np.isinf(tasks)])
    dominant = stated.task_shares[mine].max(axis=1, initial=0.0)
    # Without a limit there is no number of tasks to count by.
    times = np.where(endless, 1 / dominant, tasks)
    total = np.zeros((form.t, problem.m))
    np.add.at(total, owner, times[:, None] * stated.task_shares[mine])
    if problem.direction is not None:
        declared = problem.direction[form.tenants]
        total = np.where(np.isnan(declared), total, declared)
    directions: FloatArray = total / total.max(axis=1, initial=0.0)[:, None]
    return directions


def held_by_tenants(stated: Stated, allocation: Allocation) -> tuple[FloatArray, bool]:
    """Return the shares (t, m) that the levels of groups count, and True if their sum counts."""
    problem = stated.problem
    if allocation.history is not None:
        by_sum = stated.choice.policy.share is ShareDefinition.SUM
        return stated.shares(allocation.history.used), by_sum
    if stated.choice.share is ShareDefinition.ALONE:
        return stated.tenant_shares(stated.columns, allocation.tasks)[:, None], False
    held = np.zeros((problem.t, problem.m))
    np.add.at(held, problem.workload_tenant, allocation.tasks[:, None] * stated.task_shares)
    if allocation.certificate is not None and stated.groups is not None:
        form = form_of(stated, stated.places())
        share = grouped_sum(allocation.tasks * stated.dominant, problem.workload_tenant, problem.t)
        held = np.zeros_like(held)
        held[form.tenants] = proportions(stated, form) * share[form.tenants][:, None]
    return held, False
