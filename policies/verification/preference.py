"""Checks of the choice among a tenant's workloads where its shares leave it open.

Higher priority goes first, then the older workload. Share of a workload is out of order if a
preferred one could have it instead, on the same servers in its place or on any others with room.
This is checked for each placement of each tenant with several workloads, without moving the tasks
of other tenants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.allocation import Allocation
from policies.model.policy import Proof
from policies.model.tolerance import AGREEMENT, LEVEL_TOLERANCE, PREFERRED
from policies.verification.checks import Check, check
from policies.verification.form import Form
from policies.verification.market import with_room
from policies.verification.slots import Slots
from policies.verification.stated import Stated

# Demands that differ by less, relative, are the same but for rounding.
ALIKE = 1e-14


def check_preference(stated: Stated, form: Form, allocation: Allocation) -> Check:
    """Check that no share of divisible tasks could run as a preferred workload of its tenant."""
    problem = stated.problem
    detail = "no tasks run in the place of those of a preferred workload of the tenant"
    if len(form.workloads) == form.t:
        return Check("preferred_first", True, detail, 0.0)
    if allocation.policy.proof is Proof.NASH_PRODUCT:
        form = with_room(form, form.shares_of(allocation.tasks))
    shares = _Shares.of(stated, form, allocation)
    deviation = np.zeros(problem.n)
    for tenant in np.flatnonzero(np.bincount(shares.owner, minlength=form.t) > 1).tolist():
        mine = np.flatnonzero(shares.owner == tenant)
        order = np.lexsort((shares.workload[mine], -problem.priority[shares.workload[mine]]))
        for q, part in shares.out_of_order(mine[order]):
            deviation[shares.workload[q]] = max(deviation[shares.workload[q]], part)
    return check("preferred_first", deviation, PREFERRED, detail, problem.workload_names)


@dataclass(frozen=True, eq=False)
class _Limit:
    """One resource of one limit.

    Attributes:
        use: (q,) of each workload, per unit of share; where: (K,) places on which it counts.
        left: (1,) share of the pool.
    """

    use: FloatArray
    where: BoolArray
    left: FloatArray


def _limits(
    form: Form, demand: FloatArray, workload: IntArray, place: IntArray, part: FloatArray
) -> list[_Limit]:
    """Return what limits leave beside shares ``part`` (p,) of workloads (p,) on places (p,)."""
    found = []
    for counted, where, amount in form.limits:
        mine = counted[form.kind]
        for resource in np.flatnonzero(amount < np.inf).tolist():
            use = np.where(mine, demand[:, resource], 0.0)
            left = float(amount[resource] - (part * use[workload] * where[place]).sum())
            left = left if left > LEVEL_TOLERANCE * amount[resource] else 0.0
            found.append(_Limit(use, where, np.array([left])))
    return found


@dataclass(frozen=True, eq=False)
class _Shares:
    """Shares of workloads by places, and what these have left.

    Attributes:
        workload: (q,) of the problem; owner: (q,) tenant, as a position in the form's.
        demand: (q, m) of one unit of share; allowed: (q, K); limit: (q,) share of all tasks.
        share: (q,) of each workload; left: (K, m) shares of the pool.
        placed: by workload (q), the places that it runs on and its shares there.
        limits: what limits leave, of each resource that one names.
    """

    workload: IntArray
    owner: IntArray
    demand: FloatArray
    allowed: BoolArray
    limit: FloatArray
    share: FloatArray
    left: FloatArray
    placed: list[list[tuple[int, float]]]
    limits: list[_Limit]

    @classmethod
    def of(cls, stated: Stated, form: Form, allocation: Allocation) -> _Shares:
        workload = form.workloads
        demand, per_task = form.demand[form.kind], form.per_task[workload]
        at = np.full(stated.problem.n, -1, dtype=np.int64)
        at[workload] = np.arange(len(workload))
        share = allocation.tasks[workload] * per_task
        if stated.choice.sees_one_pool:
            q, place, part = np.arange(len(workload)), np.zeros(len(workload), np.int64), share
        else:
            q, place = at[allocation.placement_piece], allocation.placement_class
            part = allocation.placement_tasks * form.per_task[allocation.placement_piece]
        left = form.capacity.copy()
        np.subtract.at(left, place, part[:, None] * demand[q])
        # Levels within their tolerance leave that much of what is full: no room, even for small shares.
        left[left <= LEVEL_TOLERANCE * form.capacity] = 0.0
        placed: list[list[tuple[int, float]]] = [[] for _ in range(len(workload))]
        for of, where, amount in zip(q.tolist(), place.tolist(), part.tolist(), strict=True):
            if amount > 0:
                placed[of].append((where, amount))
        return cls(
            limits=_limits(form, demand, q, place, part),
            workload=workload,
            owner=form.owner[form.kind],
            demand=demand,
            allowed=form.allowed[form.kind],
            limit=stated.problem.tasks[workload] * per_task,
            share=share,
            left=left,
            placed=placed,
        )

    def out_of_order(self, order: IntArray) -> list[tuple[int, float]]:
        """Workloads that run in the place of a preferred one, with the part of both that is.

        Args:
            order: (p,) workloads of one tenant, the preferred ones first.
        """
        limit, share = self.limit[order], self.share[order]
        wanting = np.flatnonzero(share < limit * (1 - AGREEMENT))
        found: list[tuple[int, float]] = []
        if not len(wanting):
            return found
        elsewhere = self._room_anywhere(order[wanting])
        for position in range(int(wanting[0]) + 1, len(order)):
            before = wanting[: int(np.searchsorted(wanting, position))]
            for place, amount in self.placed[int(order[position])]:
                room = np.where(
                    self.allowed[order[before], place],
                    self._room_in_place(order[before], int(order[position]), place),
                    0.0,
                )
                room = np.maximum(room, elsewhere[: len(before)])
                moved = np.minimum(np.minimum(room, amount), limit[before] - share[before])
                part = float(moved.max(initial=0.0)) / float(share.sum())
                if part > 0:
                    found.append((int(order[position]), part))
        return found

    def _room_in_place(self, before: IntArray, position: int, place: int) -> FloatArray:
        """Return the most share (p,) of each that fits on a place instead of another workload's."""
        room = _room(self.left[place], _more(self.demand[before], self.demand[position]))
        for limit in self.limits:
            if limit.where[place]:
                more = _more(limit.use[before, None], limit.use[position, None])
                room = np.minimum(room, _room(limit.left, more))
        return room

    def _room_anywhere(self, workloads: IntArray) -> FloatArray:
        """Return the most share (p,) of each that fits on one of its places, as it is."""
        most = np.zeros(len(workloads))
        for place in range(len(self.left)):
            room = _room(self.left[place], self.demand[workloads])
            for limit in self.limits:
                if limit.where[place]:
                    room = np.minimum(room, _room(limit.left, limit.use[workloads, None]))
            most = np.where(self.allowed[workloads, place], np.maximum(most, room), most)
        return most


def _more(needed: FloatArray, freed: FloatArray) -> FloatArray:
    """Return the excess (p, m) of ``needed`` over ``freed`` (m,), without rounding of equal amounts."""
    more = needed - freed
    more[more <= ALIKE * needed] = 0.0
    return more


def _room(left: FloatArray, needs: FloatArray) -> FloatArray:
    """Return how much share (p,) fits into what is ``left`` (m,), of which one unit ``needs`` (p, m)."""
    parts = np.full(needs.shape, np.inf)
    np.divide(np.broadcast_to(left, needs.shape), needs, out=parts, where=needs > 0)
    room: FloatArray = parts.min(axis=1, initial=np.inf)
    return room


def check_preference_in_slots(
    slots: Slots, names: tuple[str, ...], tasks: IntArray, priority: IntArray
) -> Check:
    """Check that in no slot a task runs in the place of one that is alike and preferred.

    Args:
        slots: what may run; names: of the problem's workloads.
        tasks: (s, n) of each slot; priority: (n,).
    """
    alike: dict[tuple[int, bytes, bytes], list[int]] = {}
    for q in np.lexsort((slots.workloads, -priority[slots.workloads])).tolist():
        key = (int(slots.owner[q]), slots.demand[q].tobytes(), slots.allowed[q].tobytes())
        alike.setdefault(key, []).append(q)
    wrong = np.zeros(len(priority))
    for group in alike.values():
        for position in range(1, len(group)):
            last, before = slots.workloads[group[position]], group[:position]
            short = tasks[:, slots.workloads[before]] < slots.limit[before]
            wrong[last] = float(((tasks[:, last] > 0) & short.any(axis=1)).sum())
    detail = "in no slot a task runs in the place of one that is alike and preferred"
    return check("preferred_first", wrong, 0.0, detail, names)
