"""View of a problem that a policy has in a simulation.

It consists of the servers, the amounts that a task takes of them, the order of tenants and the
placement rule. All of it comes from what live decisions use: the scale of whole numbers, the
reasons why a workload cannot run, slots, the cuts of static partitioning, shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray
from policies.errors import PolicyNotApplicableError
from policies.filling.rules import AFFINITY, FIRST_FIT
from policies.filling.servers import placement_rule
from policies.long_term.measures import H_MRF, LT_AF, LT_DRF
from policies.model.policy import Choice, HandOut, ShareDefinition
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.reasons import NO_SERVER_LARGE_ENOUGH
from policies.model.server_classes import allowed_pieces, each_row_alone
from policies.model.share_definition import share_per_task
from policies.proofs.pool_of_tasks import pool_of_tasks, slots_of
from policies.proofs.saturation import filling_reasons
from policies.proofs.stop_reasons import too_large
from policies.simulation.choosing import BY_SHARE
from policies.simulation.placing import EVENEST, ONE_POOL
from policies.simulation.selection import FFMRA

_ORDERS = {
    HandOut.LEAST_ACCUMULATED_DOMINANT: LT_DRF,
    HandOut.LEAST_ACCUMULATED_SUM: LT_AF,
    HandOut.LEAST_SHARING_DEGREE: H_MRF,
}


@dataclass(frozen=True, eq=False)
class Cluster:
    """Servers and tasks in whole numbers, as one policy sees them.

    Attributes:
        choice: the policy.
        order: ``BY_SHARE`` or a constant of ``long_term.measures``; rule: a constant of ``placing``.
        demand: (q, p) of one piece of each kind, or (n, p) of one task.
        capacity: (R, p) of one server of each row, servers: (R,) how many; rows: (R,) of the problem.
        number: (S,) of each server as the problem counts them; -1 for what is not one of them.
        allowed: (q, R) or (n, R), as ``demand``.
        reasons: (n,) why a workload cannot run at all, or the empty string.
    """

    choice: Choice
    order: int
    rule: int
    demand: FloatArray
    capacity: FloatArray
    servers: IntArray
    rows: IntArray
    number: IntArray
    allowed: BoolArray
    reasons: TextArray

    @classmethod
    def of(cls, problem: Problem, choice: Choice) -> Cluster:
        """Return the view of a policy that shares all servers.

        For ``dedicated``, it has the servers that a tenant may be given.

        Raises:
            PolicyNotApplicableError: a selector, under a policy that sees one pool.
            PolicyOptionsError: options that name what the problem does not have.
        """
        policy = choice.policy
        order = BY_SHARE if policy.hands_out is None else _ORDERS.get(policy.hands_out, BY_SHARE)
        if problem.has_selectors and choice.sees_one_pool:
            raise PolicyNotApplicableError(
                "policy.no_placement",
                f"policy {policy.name!r} sees the pool as one server: no server selectors",
            )
        if policy.share is ShareDefinition.SLOTS:
            return _slots(problem, choice)
        if choice.sees_one_pool:
            pool = pool_of_tasks(problem, choice)
            return cls(
                choice, order, ONE_POOL, pool.demand, pool.room[None, :],
                np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64), np.full(1, -1),
                np.ones((problem.n, 1), dtype=np.bool_), pool.reasons,
            )  # fmt: skip
        rows, whole = each_row_alone(problem), WholeServers.of(problem)
        present = problem.totals > 0
        return cls(
            choice, order, _rule(choice, int(present.sum())),
            np.ascontiguousarray(whole.demand[:, present]),
            np.ascontiguousarray(whole.capacity[rows.first_row][:, present]),
            rows.servers, rows.first_row, _numbers(problem, rows.first_row),
            allowed_pieces(problem, rows), filling_reasons(problem, whole, rows),
        )  # fmt: skip

    def shares(self, pool: Problem, slots: float) -> FloatArray:
        """Return the share (n,) that one running task adds to its tenant.

        Args:
            pool: the servers that are there; slots: how many, where slots are what counts.
        """
        policy = self.choice.policy
        if policy.share is ShareDefinition.SLOTS:
            return self.demand[:, 0] / max(slots, 1.0)
        if policy.hands_out is HandOut.FEWEST_REQUESTS:
            return np.ones(pool.n)
        if policy.share is ShareDefinition.SINGLE_RESOURCE:
            name = self.choice.options.get("resource", pool.resources[0])
            return pool.demand_share[:, pool.resources.index(name)]
        if policy.long_term:
            return pool.dominant_share_per_task
        return share_per_task(pool, self.choice)


def _rule(choice: Choice, resources: int) -> int:
    if choice.policy is FFMRA:
        return FIRST_FIT
    if choice.policy.hands_out is HandOut.FEWEST_REQUESTS:
        return EVENEST
    if choice.policy.long_term:
        return AFFINITY
    return placement_rule(choice.option("placement") or "best-fit", resources)


def _slots(problem: Problem, choice: Choice) -> Cluster:
    """Return a cluster in which a task takes slots of the first server that has enough.

    This is Hadoop's scheduler.
    """
    rows = each_row_alone(problem)
    per_server, per_task = slots_of(problem, choice)
    demand, capacity = per_task[:, None], per_server[rows.first_row, None].astype(np.float64)
    reasons = pool_of_tasks(problem, choice).reasons
    # Enough slots in the pool do not help if no single server has as many.
    none = too_large(demand, capacity, rows.allowed, np.arange(rows.count))
    reasons[(reasons == "") & none] = NO_SERVER_LARGE_ENOUGH
    return Cluster(
        choice, BY_SHARE, FIRST_FIT, demand, capacity, rows.servers, rows.first_row,
        _numbers(problem, rows.first_row), rows.allowed, reasons,
    )  # fmt: skip


def _numbers(problem: Problem, rows: IntArray) -> IntArray:
    """Return the numbers (S,) of the servers of some rows, as counted over all rows."""
    first = np.cumsum(problem.server_count) - problem.server_count
    return np.concatenate(
        [np.zeros(0, dtype=np.int64)]
        + [np.arange(first[row], first[row] + problem.server_count[row]) for row in rows.tolist()]
    )
