"""Which formats a file may have, and what reads each."""

from collections.abc import Sequence
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.csv_files import csv_nodes, csv_workloads
from allocator_service.imports.kubernetes import kubernetes_nodes, kubernetes_workloads
from allocator_service.imports.rows import NodeFile, Owner, WorkloadFile
from allocator_service.imports.slurm import slurm_nodes

NODE_FORMATS = ("csv", "kubernetes", "slurm")
WORKLOAD_FORMATS = ("csv", "kubernetes")


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


def _text(content: str | dict[str, Any]) -> str:
    if not isinstance(content, str):
        raise Unacceptable("The content of a CSV is a text.", code="import.csv")
    return content
