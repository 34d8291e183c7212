"""Kinds of imports, with the formats and the reader of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.csv_files import csv_nodes, csv_tree, csv_usage, csv_workloads
from allocator_service.imports.kubernetes import kubernetes_nodes, kubernetes_usage
from allocator_service.imports.kubernetes_workloads import kubernetes_workloads
from allocator_service.imports.nodes import nodes_import
from allocator_service.imports.rows import (
    ImportReport,
    NodeFile,
    Owner,
    TreeFile,
    UsageFile,
    WorkloadFile,
)
from allocator_service.imports.sacct import sacct_usage
from allocator_service.imports.slurm import slurm_nodes
from allocator_service.imports.slurm_jobs import slurm_workloads
from allocator_service.imports.slurm_tree import slurm_tree
from allocator_service.imports.swf import swf_usage
from allocator_service.imports.trees import tree_import
from allocator_service.imports.usage import usage_import
from allocator_service.imports.workloads import workloads_import

NODE_FORMATS = ("csv", "kubernetes", "slurm")
WORKLOAD_FORMATS = ("csv", "kubernetes", "slurm")
TREE_FORMATS = ("csv", "sacctmgr")
USAGE_FORMATS = ("csv", "sacct", "kubernetes", "swf")


def read_nodes(
    content: str | dict[str, Any], file_format: str, resources: Sequence[Resource], owner: Owner
) -> NodeFile:
    """Read nodes, with quantities in the units of `resources`.

    Errors of a row are in the row. Raises `Unacceptable` if the content as a whole is not of the
    format.
    """
    if file_format == "csv":
        return csv_nodes(_text(content), resources, owner)
    reader = kubernetes_nodes if file_format == "kubernetes" else slurm_nodes
    return reader(content, resources, owner)


def read_workloads(
    content: str | dict[str, Any], file_format: str, resources: Sequence[Resource], owner: Owner
) -> WorkloadFile:
    """Read workloads. Errors are reported as by `read_nodes`."""
    if file_format == "csv":
        return csv_workloads(_text(content), resources, owner)
    reader = kubernetes_workloads if file_format == "kubernetes" else slurm_workloads
    return reader(content, resources, owner)


def read_usage(
    content: str | dict[str, Any],
    file_format: str,
    resources: Sequence[Resource],
    owner: Owner,
    *,
    source: str | None = None,
    begin: datetime | None = None,
) -> UsageFile:
    """Read usage. Errors are reported as by `read_nodes`.

    `source` names the source of the events and defaults to the name of the format. `begin` is the
    start of a trace.
    """
    event_source = source or file_format
    if file_format == "kubernetes":
        return kubernetes_usage(content, resources, owner, event_source)
    if file_format == "swf":
        return swf_usage(_text(content), resources, owner, event_source, begin)
    reader = csv_usage if file_format == "csv" else sacct_usage
    return reader(_text(content), resources, owner, event_source)


def read_tree(
    content: str | dict[str, Any],
    file_format: str,
    resources: Sequence[Resource],
    owner: Owner,
) -> TreeFile:
    """Read groups and members. Errors are reported as by `read_nodes`."""
    if file_format == "csv":
        return csv_tree(_text(content))
    return slurm_tree(_text(content), resources, owner)


def _text(content: str | dict[str, Any]) -> str:
    if not isinstance(content, str):
        raise Unacceptable("Expected the content as text.", code="import.csv")
    return content


@dataclass(frozen=True)
class ImportKind:
    """The formats, the reader and the writer of one kind of rows.

    `slug` and `label` are the names of the options that assign rows to a tenant. `slug` is None where
    no tenant can own all rows.
    """

    formats: Sequence[str]
    read: Callable[..., Any]
    write: Callable[..., ImportReport]
    slug: str | None = "tenant"
    label: str = "tenant_label"


NODES = ImportKind(NODE_FORMATS, read_nodes, nodes_import, "contributed_by", "owner_label")
WORKLOADS = ImportKind(WORKLOAD_FORMATS, read_workloads, workloads_import)
TREE = ImportKind(TREE_FORMATS, read_tree, tree_import, slug=None)
USAGE = ImportKind(USAGE_FORMATS, read_usage, usage_import)
