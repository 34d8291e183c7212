"""Clusters that a tenant has to itself, the partitions of ``static`` and dedicated clouds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from policies.arrays import IntArray
from policies.filling.rules import FIRST_FIT
from policies.filling.servers import placement_rule
from policies.filling.static import partition_of
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import each_row_alone
from policies.simulation.cluster import Cluster
from policies.simulation.selection import DEDICATED

OTHERS = "another tenant's"


def own_clusters(problem: Problem, choice: Choice) -> Iterator[Cluster]:
    """Yield each tenant's cluster, in their order.

    Workloads of other tenants cannot run there.
    """
    if choice.policy is DEDICATED:
        shared = Cluster.of(problem, choice)
        random = np.random.default_rng(int(choice.option("seed")))
        count = len(shared.number)
        # Rounded up, as in the paper's dedicated clouds.
        each = min(-(-count // max(problem.t, 1)), count)
        row_of = np.repeat(np.arange(len(shared.servers)), shared.servers)
        for tenant in range(problem.t):
            chosen = np.sort(random.choice(count, each, replace=False))
            yield _only(problem, tenant, _dedicated(shared, row_of, chosen))
        return
    rows, whole, shared = (
        each_row_alone(problem),
        WholeServers.of(problem),
        Cluster.of(problem, choice),
    )
    present = problem.totals > 0
    for tenant in range(problem.t):
        parts = [
            part
            for part in partition_of(problem, whole.capacity, tenant)
            if part.servers and rows.class_of_row[part.row] >= 0
        ]
        own = replace(
            shared,
            rule=FIRST_FIT,
            capacity=np.array([part.room[present] for part in parts]).reshape(
                len(parts), int(present.sum())
            ),
            servers=np.array([part.servers for part in parts], dtype=np.int64),
            rows=np.array([part.row for part in parts], dtype=np.int64),
            number=np.full(sum(part.servers for part in parts), -1),
            allowed=shared.allowed[:, rows.class_of_row[[part.row for part in parts]].astype(int)],
        )
        yield _only(problem, tenant, own)


def _dedicated(shared: Cluster, row_of: IntArray, chosen: IntArray) -> Cluster:
    rows, servers = np.unique(row_of[chosen], return_counts=True)
    return replace(
        shared,
        rule=placement_rule("best-fit", shared.demand.shape[1]),
        capacity=np.ascontiguousarray(shared.capacity[rows]),
        servers=servers.astype(np.int64),
        rows=shared.rows[rows],
        number=shared.number[chosen],
        allowed=shared.allowed[:, rows],
    )


def _only(problem: Problem, tenant: int, cluster: Cluster) -> Cluster:
    reasons = cluster.reasons.copy()
    reasons[(reasons == "") & (problem.workload_tenant != tenant)] = OTHERS
    return replace(cluster, reasons=reasons)
