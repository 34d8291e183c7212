"""Rows of a cluster, which an agent imports whose key is bound to it."""

from collections.abc import Collection
from dataclasses import replace

from allocator_service.core.errors import FieldError
from allocator_service.imports.rows import NodeFile, NodeRow, WorkloadFile, WorkloadRow
from allocator_service.pools.clusters import (
    CLUSTER_LABEL,
    cluster_of,
    clusters_selected,
    other_cluster,
)
from allocator_service.pools.models import Pool, Server
from allocator_service.workloads.models import Workload


def nodes_in_cluster(file: NodeFile, cluster: str) -> NodeFile:
    """Return nodes with the label of the cluster, unless they have one."""
    if not cluster:
        return file
    rows = [
        # The row's own label stays, so that another cluster is refused instead of renamed.
        replace(row, labels={CLUSTER_LABEL: cluster, **row.labels})
        if isinstance(row, NodeRow)
        else row
        for row in file.rows
    ]
    return replace(file, rows=rows)


def workloads_in_cluster(file: WorkloadFile, cluster: str, pool: Pool) -> WorkloadFile:
    """Return workloads that select the cluster, unless they select any.

    A policy that places nothing takes no selectors.
    """
    if not cluster or not pool.policy_places:
        return file
    rows = [
        replace(row, selector={CLUSTER_LABEL: cluster, **row.selector})
        if isinstance(row, WorkloadRow)
        else row
        for row in file.rows
    ]
    return replace(file, rows=rows)


def node_elsewhere(
    row: NodeRow, present: Collection[Server], cluster: str, pool: Pool, *, has_clusters: bool
) -> FieldError | None:
    """Return the error of a node, or of a present server of its name, in another cluster.

    While no server has a cluster, the first agent that is bound to one adopts those without.
    """
    if not cluster:
        return None
    if (named := cluster_of(row.labels, cluster)) != cluster:
        return other_cluster(named, cluster, f"/labels/{CLUSTER_LABEL}")
    unnamed = pool.slug if has_clusters else cluster
    others = {cluster_of(server.labels, unnamed) for server in present} - {cluster}
    return other_cluster(min(others), cluster, "/name") if others else None


def workload_elsewhere(
    row: WorkloadRow, present: Workload | None, cluster: str
) -> FieldError | None:
    """Return the error of a workload that selects, or selected, other clusters only."""
    selectors = [row.selector, {} if present is None else present.server_selector]
    for selector in selectors if cluster else ():
        named = clusters_selected(selector)
        if named is not None and cluster not in named:
            return other_cluster(" or ".join(named), cluster, "/selector")
    return None
