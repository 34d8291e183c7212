"""What may be imported: of each kind its formats, what reads a file and what writes its rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from allocator_service.imports.formats import (
    NODE_FORMATS,
    USAGE_FORMATS,
    WORKLOAD_FORMATS,
    read_nodes,
    read_usage,
    read_workloads,
)
from allocator_service.imports.nodes import nodes_import
from allocator_service.imports.rows import ImportReport
from allocator_service.imports.usage import usage_import
from allocator_service.imports.workloads import workloads_import


@dataclass(frozen=True)
class ImportKind:
    """A kind of rows; `slug` and `label` name what says whose the rows are."""

    formats: Sequence[str]
    read: Callable[..., Any]
    write: Callable[..., ImportReport]
    slug: str = "tenant"
    label: str = "tenant_label"


NODES = ImportKind(NODE_FORMATS, read_nodes, nodes_import, "contributed_by", "owner_label")
WORKLOADS = ImportKind(WORKLOAD_FORMATS, read_workloads, workloads_import)
USAGE = ImportKind(USAGE_FORMATS, read_usage, usage_import)
