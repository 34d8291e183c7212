"""Imports: nodes and workloads out of files, told first (`dry_run`) and then written."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError, FieldError, Unacceptable
from allocator_service.imports.formats import read_nodes, read_workloads
from allocator_service.imports.nodes import nodes_import
from allocator_service.imports.rows import ImportChoice, ImportReport, Owner
from allocator_service.imports.workloads import workloads_import
from allocator_service.pools.selectors import resources_of
from api.auth import OPERATOR
from api.describing import Operation, described
from api.documents import MAX_ERRORS
from api.v1.imports.serializers import (
    ImportDocument,
    NodeImportRequest,
    WorkloadImportRequest,
    import_document,
    row_document,
)
from api.views import PoolView, writes


class ImportsView(PoolView):
    scopes: ClassVar = {"POST": OPERATOR}
    large = True

    def answer(self, report: ImportReport, choice: ImportChoice) -> Response:
        """The report; raises `Unacceptable` when refused rows kept all others from being written."""
        if report.refused and not choice.dry_run and not choice.skip_refused:
            raise _nothing_written(report)
        return Response(
            import_document(report, dry_run=choice.dry_run),
            headers={"Pool-Generation": str(report.generation)},
        )


class NodeImportsView(ImportsView):
    @described(
        Operation(
            "create",
            "Import nodes from CSV, Kubernetes or Slurm",
            ImportDocument,
            NodeImportRequest,
            headers=("Idempotency-Replayed", "Pool-Generation"),
            problems=(409, 411, 413, 415, 422),
            claims=True,
        )
    )
    @writes
    def post(self, request: Request, pool: str) -> Response:
        fields = self.read(NodeImportRequest)
        owner, choice = _owner(fields, "contributed_by", "owner_label"), _choice(fields)
        target = self.pool
        try:
            file = read_nodes(fields["content"], fields["format"], resources_of(target), owner)
        except DomainError as error:
            raise _within_content(error) from error
        return self.answer(
            nodes_import(pool=target, file=file, choice=choice, now=utc_now()), choice
        )


class WorkloadImportsView(ImportsView):
    @described(
        Operation(
            "create",
            "Import workloads from CSV or Kubernetes pods",
            ImportDocument,
            WorkloadImportRequest,
            headers=("Idempotency-Replayed", "Pool-Generation"),
            problems=(409, 411, 413, 415, 422),
            claims=True,
        )
    )
    @writes
    def post(self, request: Request, pool: str) -> Response:
        fields = self.read(WorkloadImportRequest)
        owner, choice = _owner(fields, "tenant", "tenant_label"), _choice(fields)
        target = self.pool
        try:
            file = read_workloads(fields["content"], fields["format"], resources_of(target), owner)
        except DomainError as error:
            raise _within_content(error) from error
        return self.answer(
            workloads_import(pool=target, file=file, choice=choice, now=utc_now()), choice
        )


def _owner(fields: Mapping[str, Any], slug: str, label: str) -> Owner:
    if fields[slug] is not None and fields[label] is not None:
        raise Unacceptable(
            f'"{slug}" and "{label}" exclude each other.', code="import.owner", pointer=f"/{label}"
        )
    return Owner(fields[slug], fields[label])


def _choice(fields: Mapping[str, Any]) -> ImportChoice:
    return ImportChoice(fields["dry_run"], fields["skip_refused"], fields["register_tenants"])


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
