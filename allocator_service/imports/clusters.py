"""Rows of a cluster, which an agent imports whose key is bound to it."""

from dataclasses import replace

from allocator_service.imports.rows import NodeFile, NodeRow, RefusedRow, WorkloadFile, WorkloadRow
from allocator_service.pools.clusters import CLUSTER_LABEL, other_cluster
from allocator_service.pools.models import Pool


def nodes_in_cluster(file: NodeFile, cluster: str) -> NodeFile:
    """Return nodes with the label of their cluster, and refuse those that name another."""
    if not cluster:
        return file
    rows = [_node(row, cluster) if isinstance(row, NodeRow) else row for row in file.rows]
    return replace(file, rows=rows)


def workloads_in_cluster(file: WorkloadFile, cluster: str, pool: Pool) -> WorkloadFile:
    """Return workloads that select their cluster.

    A job runs where it was submitted, unless it names clusters or the policy places nothing.
    """
    if not cluster or not pool.policy_places:
        return file
    rows = [_workload(row, cluster) if isinstance(row, WorkloadRow) else row for row in file.rows]
    return replace(file, rows=rows)


def _node(row: NodeRow, cluster: str) -> NodeRow | RefusedRow:
    named = row.labels.get(CLUSTER_LABEL, cluster)
    if named == cluster:
        return replace(row, labels={**row.labels, CLUSTER_LABEL: cluster})
    error = other_cluster(named, cluster, f"/labels/{CLUSTER_LABEL}")
    return RefusedRow(row.place, row.name, [error])


def _workload(row: WorkloadRow, cluster: str) -> WorkloadRow:
    return replace(row, selector={CLUSTER_LABEL: cluster, **row.selector})
