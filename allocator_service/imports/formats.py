"""Which formats a file may have, and what reads each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.csv_files import csv_nodes, csv_usage, csv_workloads
from allocator_service.imports.kubernetes import kubernetes_nodes, kubernetes_workloads
from allocator_service.imports.kubernetes_usage import kubernetes_usage
from allocator_service.imports.rows import NodeFile, Owner, UsageFile, WorkloadFile
from allocator_service.imports.sacct import sacct_usage
from allocator_service.imports.slurm import slurm_nodes
from allocator_service.imports.swf import swf_usage

NODE_FORMATS = ("csv", "kubernetes", "slurm")
WORKLOAD_FORMATS = ("csv", "kubernetes")
USAGE_FORMATS = ("csv", "sacct", "kubernetes", "swf")


def read_nodes(
    content: str | dict[str, Any], file_format: str, resources: Sequence[Resource], owner: Owner
) -> NodeFile:
    """The nodes in `content`, quantities in the units of `resources`.

    Raises `Unacceptable` for content that is not of the format as a whole; what is wrong with a row
    stands at the row.
    """
    if file_format == "csv":
        return csv_nodes(_text(content), resources, owner)
    reader = kubernetes_nodes if file_format == "kubernetes" else slurm_nodes
    return reader(content, resources, owner)


def read_workloads(
    content: str | dict[str, Any], file_format: str, resources: Sequence[Resource], owner: Owner
) -> WorkloadFile:
    """The workloads in `content`; otherwise as `read_nodes`."""
    if file_format == "csv":
        return csv_workloads(_text(content), resources, owner)
    return kubernetes_workloads(content, resources, owner)


def read_usage(
    content: str | dict[str, Any],
    file_format: str,
    resources: Sequence[Resource],
    owner: Owner,
    *,
    source: str | None = None,
    begin: datetime | None = None,
) -> UsageFile:
    """The usage in `content`; otherwise as `read_nodes`.

    `source` is who tells, the name of the format unless given; `begin` is when a trace begins.
    """
    told_by = source or file_format
    if file_format == "kubernetes":
        return kubernetes_usage(content, resources, owner, told_by)
    if file_format == "swf":
        return swf_usage(_text(content), resources, owner, told_by, begin)
    reader = csv_usage if file_format == "csv" else sacct_usage
    return reader(_text(content), resources, owner, told_by)


def _text(content: str | dict[str, Any]) -> str:
    if not isinstance(content, str):
        raise Unacceptable("Expected the content as text.", code="import.csv")
    return content
