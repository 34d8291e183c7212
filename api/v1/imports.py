"""Imports of nodes, groups, workloads and usage from files."""

from collections.abc import Callable
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import MAX_ERRORS, DomainError, FieldError, Unacceptable
from allocator_service.imports.kinds import NODES, TREE, USAGE, WORKLOADS, ImportKind
from allocator_service.imports.reading import MAX_ROWS
from allocator_service.imports.rows import ImportChoice, ImportReport, Outcome, Owner, RowReport
from allocator_service.pools.clusters import cluster_return
from allocator_service.pools.selectors import resources_of
from api.auth import OPERATOR, OPERATOR_AND_AGENT
from api.contract import documents
from api.contract.answers import Answer, Body
from api.contract.operations import H, Operation, describe
from api.views import PoolView, writes
from policies.fields import Field, Schema

ITEMS_FROM_0 = "The item of the JSON list, from 0."

LINES_FROM_1 = "The line of the CSV, from 1."


class ContentField(Field):
    """The content of a file, as text or as a JSON object."""

    type_name = "a text or an object"

    def read(self, value: Any) -> str | dict[str, Any]:
        if not isinstance(value, str | dict):
            raise self.wrong_type()
        return value

    def describe(self) -> Schema:
        return {"oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": True}]}


class ImportRequest(documents.Document):
    """The fields of imports of every kind. Subclasses add the owner of the rows."""

    content = ContentField()
    dry_run = documents.BooleanField(
        default=False, description="Report every row and write nothing."
    )
    skip_refused = documents.BooleanField(
        default=False, description="Write the other rows when some are refused, instead of none."
    )
    register_tenants = documents.BooleanField(
        default=False, description="Register unknown tenants."
    )


class NodeImportRequest(ImportRequest):
    format = documents.ChoiceField(choices=NODES.formats, default="csv")
    contributed_by = documents.SlugField(
        required=False, allow_null=True, description="The tenant of nodes that name none."
    )
    owner_label = documents.TextField(
        max_length=253,
        required=False,
        allow_null=True,
        description="The label that names the tenant.",
    )


class WorkloadImportRequest(ImportRequest):
    format = documents.ChoiceField(choices=WORKLOADS.formats, default="csv")
    tenant = documents.SlugField(
        required=False, allow_null=True, description="The tenant of rows that name none."
    )
    tenant_label = documents.TextField(
        max_length=253,
        required=False,
        allow_null=True,
        description="The label that names the tenant.",
    )


class UsageImportRequest(WorkloadImportRequest):
    format = documents.ChoiceField(choices=USAGE.formats, default="csv")
    source = documents.TextField(
        max_length=100,
        required=False,
        allow_null=True,
        description="By default the name of the format.",
    )
    tenant_label = documents.TextField(
        max_length=253,
        required=False,
        allow_null=True,
        description="The label, column (sacct) or field (swf) that names the tenant.",
    )
    begin = documents.TimestampField(
        required=False, allow_null=True, description="swf: when the trace begins."
    )


class GroupImportRequest(ImportRequest):
    format = documents.ChoiceField(choices=TREE.formats, default="csv")
    tenant_label = documents.TextField(
        max_length=253,
        required=False,
        allow_null=True,
        description="sacctmgr: the column that names members, Account (default) or User.",
    )


class FindingDocument(documents.Document):
    pointer = documents.TextField(max_length=2000, blank=True)
    code = documents.TextField(max_length=100)
    detail = documents.TextField(max_length=2000)


def _number_of(kind: str) -> Callable[[RowReport, Any], int | None]:
    """Return the source of a row's number, null in files that count something else."""
    return lambda row, _: row.place.number if row.place.kind == kind else None


class ImportedRowDocument(documents.Document):
    line = documents.IntegerField(
        minimum=1,
        maximum=10**9,
        source=_number_of("line"),
        allow_null=True,
        description=LINES_FROM_1,
    )
    item = documents.IntegerField(
        minimum=0,
        maximum=10**9,
        source=_number_of("item"),
        allow_null=True,
        description=ITEMS_FROM_0,
    )
    name = documents.TextField(max_length=253, blank=True)
    owner = documents.SlugField(allow_null=True)
    outcome = documents.ChoiceField(
        choices=[outcome.value for outcome in Outcome], source="outcome.value"
    )
    detail = documents.TextField(max_length=2000, blank=True)
    errors = documents.ListField(FindingDocument, min_items=0, max_items=100)


class CountsDocument(documents.Document):
    added = documents.IntegerField(minimum=0, maximum=MAX_ROWS)
    changed = documents.IntegerField(minimum=0, maximum=MAX_ROWS)
    unchanged = documents.IntegerField(minimum=0, maximum=MAX_ROWS)
    refused = documents.IntegerField(minimum=0, maximum=MAX_ROWS)
    skipped = documents.IntegerField(minimum=0, maximum=MAX_ROWS)


class ImportDocument(documents.Document):
    dry_run = documents.BooleanField(source=documents.Given("dry_run"))
    written = documents.BooleanField(description="Whether anything changed.")
    generation = documents.GenerationField()
    counts = documents.DocumentField(CountsDocument)
    ignored = documents.texts_field(
        description="Resources of the file that the pool does not count."
    )
    registered = documents.texts_field(
        description="Tenants that were, or in a dry run would be, registered."
    )
    rows = documents.ListField(ImportedRowDocument, min_items=0, max_items=MAX_ROWS)


def imports(request: type[documents.Document], summary: str) -> Callable[[H], H]:
    """POST of a file, which answers what became of every row."""
    return describe(
        Operation(
            "create",
            summary,
            Answer(ImportDocument),
            Body(request),
            headers=("Idempotency-Replayed", "Pool-Generation"),
            problems=(409, 411, 413, 415, 422),
            repeatable=True,
        )
    )


class ImportsView(PoolView):
    """A file of one kind."""

    scopes: ClassVar = {"POST": OPERATOR_AND_AGENT}
    large = True
    kind: ClassVar[ImportKind]

    def imported(self, request: type[documents.Document]) -> Response:
        """Return the report. Raises `Unacceptable` if refused rows prevented the import."""
        fields = self.read(request)
        kind, content, file_format = self.kind, fields.pop("content"), fields.pop("format")
        owner = _owner(fields, kind.slug, kind.label)
        chosen = {
            name: fields.pop(name) for name in ("dry_run", "skip_refused", "register_tenants")
        }
        choice = ImportChoice(**chosen, cluster=self.cluster(None))
        try:
            # Before the write locks the pool: reading a large file takes seconds.
            file = kind.read(content, file_format, resources_of(self.pool), owner, **fields)
        except DomainError as error:
            raise _within_content(error) from error
        if choice.cluster and not choice.dry_run:
            # The agent is back. A decision with its servers is made before it reads one.
            cluster_return(pool=self.pool, name=choice.cluster, now=utc_now())
            # The return counted a change, on an object of its own.
            self.pool.refresh_from_db(fields=["generation"])
        report = kind.write(pool=self.pool, file=file, choice=choice, now=utc_now())
        if report.refused and not choice.dry_run and not choice.skip_refused:
            raise _nothing_written(report)
        return Response(
            ImportDocument.write(report, choice),
            headers={"Pool-Generation": str(report.generation)},
        )


class NodeImportsView(ImportsView):
    kind = NODES

    @imports(NodeImportRequest, "Import nodes from CSV, Kubernetes or Slurm")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Import servers from CSV, from `kubectl get nodes -o json`, or from `scontrol` or `sinfo`
        with `--json`.

        Operators and the pool's agents. Each row is matched with the present server of the same
        contributor and name, and is added, changed or left unchanged: importing the same file twice
        changes nothing. With `dry_run` the answer states what would become of every row, and nothing
        is written. When a row is refused nothing is written either (422 `import.refused`), unless
        `skip_refused` is set. A file has at most 200,000 rows (413 `import.too_many`).
        """
        return self.imported(NodeImportRequest)


class GroupImportsView(ImportsView):
    scopes: ClassVar = {"POST": OPERATOR}
    kind = TREE

    @imports(GroupImportRequest, "Import a tree of groups and members from CSV or Slurm")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Import groups, and the members below them, from CSV or from `sacctmgr --parsable2 show
        association tree`.

        Operators only. Each row is matched by its slug with a present group or member, and is
        added, changed or left unchanged: importing the same file twice changes nothing. Only the
        tree after the import must be one, so rows may be in any order. A row below an unknown or
        refused group is refused, as are cycles and more than 8 levels. With `dry_run` the answer
        has the outcome of every row, and nothing is written. When a row is refused nothing is
        written either (422 `import.refused`), unless `skip_refused` is set. Tenants must exist
        unless `register_tenants` is set.
        """
        return self.imported(GroupImportRequest)


class WorkloadImportsView(ImportsView):
    kind = WORKLOADS

    @imports(WorkloadImportRequest, "Import workloads from CSV or Kubernetes pods")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Import workloads from CSV, from `kubectl get pods -o json`, or from Kueue's workloads.

        Pods that start together are one task of several `pieces`, or single tasks in a pool that cannot
        run gangs.

        Operators and the pool's agents. Each row is matched with the present workload of the same
        tenant and name, and is added, changed or left unchanged: importing the same file twice
        changes nothing. With `dry_run` the answer states what would become of every row, and nothing
        is written. When a row is refused nothing is written either (422 `import.refused`), unless
        `skip_refused` is set. Tenants must exist unless `register_tenants` is set.
        """
        return self.imported(WorkloadImportRequest)


class UsageImportsView(ImportsView):
    kind = USAGE

    @imports(UsageImportRequest, "Import usage from sacct, Kubernetes pods, CSV or a trace")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Import what jobs used into the ledger, from `sacct`, finished Kubernetes pods, CSV or a
        trace in the Standard Workload Format.

        Operators and the pool's agents, for pools with `metering` `reported`; other pools answer
        409 `usage.metering`. Each row is posted once, under the id that its source gave it: files
        that overlap add only what is new, and a row that was posted before with other content is
        refused (`usage.conflict`). `dry_run` writes nothing. A refused row keeps all others from
        being written (422 `import.refused`) unless `skip_refused` is set.
        """
        return self.imported(UsageImportRequest)


def _owner(fields: dict[str, Any], slug: str | None, label: str) -> Owner:
    """Remove the owner of the rows from the fields, and return it."""
    owner = Owner(None if slug is None else fields.pop(slug), fields.pop(label))
    if owner.slug is not None and owner.label is not None:
        raise Unacceptable(
            f'"{slug}" and "{label}" exclude each other.', code="import.owner", pointer=f"/{label}"
        )
    return owner


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
        # All refused rows are in `rows`. The errors are those of any problem, of which a few are
        # enough.
        errors=errors[:MAX_ERRORS],
        extra={
            "counts": report.counts,
            "rows": [ImportedRowDocument.write(row) for row in report.refused],
        },
    )
