"""Imports: nodes, workloads and usage out of files, told first (`dry_run`) and then written."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError, FieldError, Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.formats import read_nodes, read_usage, read_workloads
from allocator_service.imports.nodes import nodes_import
from allocator_service.imports.rows import (
    ImportChoice,
    ImportReport,
    NodeFile,
    Owner,
    UsageFile,
    WorkloadFile,
)
from allocator_service.imports.usage import usage_import
from allocator_service.imports.workloads import workloads_import
from allocator_service.pools.selectors import resources_of
from api.auth import OPERATOR
from api.describing import H, Operation, described
from api.documents import MAX_ERRORS, StrictSerializer
from api.v1.imports.serializers import (
    ImportDocument,
    NodeImportRequest,
    UsageImportRequest,
    WorkloadImportRequest,
    import_document,
    row_document,
)
from api.views import PoolView, writes


def imports(request: type[StrictSerializer], summary: str) -> Callable[[H], H]:
    """POST of a file, which answers what became of every row."""
    return described(
        Operation(
            "create",
            summary,
            ImportDocument,
            request,
            headers=("Idempotency-Replayed", "Pool-Generation"),
            problems=(409, 411, 413, 415, 422),
            claims=True,
        )
    )


class ImportsView(PoolView):
    """A file of one kind; subclasses name its fields and call what reads and imports it."""

    scopes: ClassVar = {"POST": OPERATOR}
    large = True
    slug_field: ClassVar[str] = "tenant"
    label_field: ClassVar[str] = "tenant_label"

    def read_file(
        self, fields: Mapping[str, Any], resources: Sequence[Resource], owner: Owner
    ) -> Any:
        """The rows of the file."""
        raise NotImplementedError

    def import_file(self, file: Any, choice: ImportChoice) -> ImportReport:
        """Import the rows."""
        raise NotImplementedError

    def imported(self, fields: Mapping[str, Any]) -> Response:
        """The report; raises `Unacceptable` when refused rows kept all others from being written."""
        owner = _owner(fields, self.slug_field, self.label_field)
        choice = ImportChoice(fields["dry_run"], fields["skip_refused"], fields["register_tenants"])
        resources = resources_of(self.pool)
        try:
            file = self.read_file(fields, resources, owner)
        except DomainError as error:
            raise _within_content(error) from error
        report = self.import_file(file, choice)
        if report.refused and not choice.dry_run and not choice.skip_refused:
            raise _nothing_written(report)
        return Response(
            import_document(report, dry_run=choice.dry_run),
            headers={"Pool-Generation": str(report.generation)},
        )


class NodeImportsView(ImportsView):
    slug_field, label_field = "contributed_by", "owner_label"

    @imports(NodeImportRequest, "Import nodes from CSV, Kubernetes or Slurm")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        return self.imported(self.read(NodeImportRequest))

    def read_file(
        self, fields: Mapping[str, Any], resources: Sequence[Resource], owner: Owner
    ) -> NodeFile:
        return read_nodes(fields["content"], fields["format"], resources, owner)

    def import_file(self, file: NodeFile, choice: ImportChoice) -> ImportReport:
        return nodes_import(pool=self.pool, file=file, choice=choice, now=utc_now())


class WorkloadImportsView(ImportsView):
    @imports(WorkloadImportRequest, "Import workloads from CSV or Kubernetes pods")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        return self.imported(self.read(WorkloadImportRequest))

    def read_file(
        self, fields: Mapping[str, Any], resources: Sequence[Resource], owner: Owner
    ) -> WorkloadFile:
        return read_workloads(fields["content"], fields["format"], resources, owner)

    def import_file(self, file: WorkloadFile, choice: ImportChoice) -> ImportReport:
        return workloads_import(pool=self.pool, file=file, choice=choice, now=utc_now())


class UsageImportsView(ImportsView):
    @imports(UsageImportRequest, "Import usage from sacct, Kubernetes pods, CSV or a trace")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        return self.imported(self.read(UsageImportRequest))

    def read_file(
        self, fields: Mapping[str, Any], resources: Sequence[Resource], owner: Owner
    ) -> UsageFile:
        return read_usage(
            fields["content"],
            fields["format"],
            resources,
            owner,
            source=fields["source"],
            begin=fields["begin"],
        )

    def import_file(self, file: UsageFile, choice: ImportChoice) -> ImportReport:
        return usage_import(pool=self.pool, file=file, choice=choice, now=utc_now())


def _owner(fields: Mapping[str, Any], slug: str, label: str) -> Owner:
    if fields[slug] is not None and fields[label] is not None:
        raise Unacceptable(
            f'"{slug}" and "{label}" exclude each other.', code="import.owner", pointer=f"/{label}"
        )
    return Owner(fields[slug], fields[label])


def _within_content(error: DomainError) -> DomainError:
    """The error with its pointers below /content, where they are not there yet."""
    if all(item.pointer.startswith("/content") for item in error.errors) and error.errors:
        return error
    return error.under("/content")


def _nothing_written(report: ImportReport) -> Unacceptable:
    errors = [
        FieldError("/content", item.code, f"{str(row.place).capitalize()}: {item.detail}")
        for row in report.refused
        for item in row.errors
    ]
    return Unacceptable(
        f"{len(report.refused)} of {len(report.rows)} rows are refused and nothing was written:"
        " correct them, or send skip_refused.",
        code="import.refused",
        errors=errors[:MAX_ERRORS],
        extra={"counts": report.counts, "rows": [row_document(row) for row in report.refused]},
    )
