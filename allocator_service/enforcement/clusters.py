"""Clusters of a pool with their servers and agents."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from allocator_service.allocation.decided_parts import Vector
from allocator_service.enforcement.models import Agent
from allocator_service.pools.clusters import cluster_of, labelled_clusters
from allocator_service.pools.models import Cluster, Pool
from allocator_service.pools.selectors import resources_of, server_groups


@dataclass(frozen=True)
class ClusterState:
    """A cluster of a pool with its servers, their capacity that decisions use, and its agents."""

    cluster: str
    servers: int
    capacity: Vector
    agents: Sequence[str]
    stale: bool
    left_at: datetime | None


def clusters_of(*, pool: Pool, now: datetime) -> list[ClusterState]:
    """Return the clusters of a pool by name, none if one scheduler has all of its servers."""
    agents: dict[str, list[Agent]] = defaultdict(list)
    for agent in Agent.objects.present().filter(pool=pool).exclude(cluster=""):
        agents[agent.cluster].append(agent)
    if not agents and not labelled_clusters(pool):
        return []
    zeros = [Decimal(0)] * len(resources_of(pool))
    servers, capacity = Counter[str](), dict[str, Vector]()
    for group in server_groups(pool):
        name = cluster_of(group.labels, pool.slug)
        servers[name] += group.count
        held = capacity.setdefault(name, zeros)
        if not group.draining:
            # Vectors lack resources that the pool got after they were stored.
            more = [*group.capacity, *zeros[len(group.capacity) :]]
            capacity[name] = [a + b * group.count for a, b in zip(held, more, strict=True)]
    left = dict(Cluster.objects.filter(pool=pool).values_list("name", "left_at"))
    return [
        ClusterState(
            name,
            servers[name],
            capacity.get(name, zeros),
            [agent.name for agent in agents[name]],
            bool(agents[name]) and all(agent.is_stale(now) for agent in agents[name]),
            left.get(name),
        )
        for name in sorted(capacity.keys() | agents.keys())
    ]
