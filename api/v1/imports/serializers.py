"""Imports as documents."""

from typing import Any

from allocator_service.imports.kinds import NODES, TREE, USAGE, WORKLOADS
from allocator_service.imports.reading import MAX_ROWS
from allocator_service.imports.rows import ImportReport, Outcome, RowReport
from api.contract.fields import (
    GenerationField,
    SlugField,
    TimestampField,
    texts_field,
)
from policies.fields import (
    BooleanField,
    ChoiceField,
    Document,
    DocumentField,
    Field,
    IntegerField,
    ListField,
    Schema,
    TextField,
)

ITEMS_FROM_0 = "The item of the JSON list, from 0."
LINES_FROM_1 = "The line of the CSV, from 1."


class ContentField(Field):
    """A file's content: its text, or the object that its JSON is."""

    type_name = "a text or an object"

    def read(self, value: Any) -> str | dict[str, Any]:
        if not isinstance(value, str | dict):
            raise self.wrong_type()
        return value

    def describe(self) -> Schema:
        return {"oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": True}]}


class ImportRequest(Document):
    """What the imports of every kind are asked with; subclasses say whose the rows are."""

    content = ContentField()
    dry_run = BooleanField(default=False, description="Report every row and write nothing.")
    skip_refused = BooleanField(
        default=False, description="Write the other rows when some are refused, instead of none."
    )
    register_tenants = BooleanField(default=False, description="Register unknown tenants.")


class NodeImportRequest(ImportRequest):
    format = ChoiceField(choices=NODES.formats, default="csv")
    contributed_by = SlugField(
        required=False, allow_null=True, description="The tenant of nodes that name none."
    )
    owner_label = TextField(
        max_length=253,
        required=False,
        allow_null=True,
        description="The label that names the tenant.",
    )


class WorkloadImportRequest(ImportRequest):
    format = ChoiceField(choices=WORKLOADS.formats, default="csv")
    tenant = SlugField(
        required=False, allow_null=True, description="The tenant of rows that name none."
    )
    tenant_label = TextField(
        max_length=253,
        required=False,
        allow_null=True,
        description="The label that names the tenant.",
    )


class UsageImportRequest(WorkloadImportRequest):
    format = ChoiceField(choices=USAGE.formats, default="csv")
    source = TextField(
        max_length=100,
        required=False,
        allow_null=True,
        description="By default the name of the format.",
    )
    tenant_label = TextField(
        max_length=253,
        required=False,
        allow_null=True,
        description="The label, column (sacct) or field (swf) that names the tenant.",
    )
    begin = TimestampField(
        required=False, allow_null=True, description="swf: when the trace begins."
    )


class GroupImportRequest(ImportRequest):
    format = ChoiceField(choices=TREE.formats, default="csv")
    tenant_label = TextField(
        max_length=253,
        required=False,
        allow_null=True,
        description="sacctmgr: the column that names members, Account (default) or User.",
    )


class FindingDocument(Document):
    pointer = TextField(max_length=2000, blank=True)
    code = TextField(max_length=100)
    detail = TextField(max_length=2000)


class ImportedRowDocument(Document):
    line = IntegerField(minimum=1, maximum=10**9, allow_null=True, description=LINES_FROM_1)
    item = IntegerField(minimum=0, maximum=10**9, allow_null=True, description=ITEMS_FROM_0)
    name = TextField(max_length=253, blank=True)
    owner = SlugField(allow_null=True)
    outcome = ChoiceField(choices=[outcome.value for outcome in Outcome])
    detail = TextField(max_length=2000, blank=True)
    errors = ListField(FindingDocument, min_items=0, max_items=100)


class CountsDocument(Document):
    added = IntegerField(minimum=0, maximum=MAX_ROWS)
    changed = IntegerField(minimum=0, maximum=MAX_ROWS)
    unchanged = IntegerField(minimum=0, maximum=MAX_ROWS)
    refused = IntegerField(minimum=0, maximum=MAX_ROWS)
    skipped = IntegerField(minimum=0, maximum=MAX_ROWS)


class ImportDocument(Document):
    dry_run = BooleanField()
    written = BooleanField(description="Whether anything changed.")
    generation = GenerationField()
    counts = DocumentField(CountsDocument)
    ignored = texts_field(description="Resources of the file that the pool does not count.")
    registered = texts_field(description="Tenants that were, or in a dry run would be, registered.")
    rows = ListField(ImportedRowDocument, min_items=0, max_items=MAX_ROWS)


def import_document(report: ImportReport, *, dry_run: bool) -> dict[str, Any]:
    """The answer to an import, or to its dry run."""
    return {
        "dry_run": dry_run,
        "written": report.written,
        "generation": report.generation,
        "counts": report.counts,
        "ignored": list(report.ignored),
        "registered": list(report.registered),
        "rows": [row_document(row) for row in report.rows],
    }


def row_document(row: RowReport) -> dict[str, Any]:
    """What became of one row."""
    return {
        "line": row.place.number if row.place.kind == "line" else None,
        "item": row.place.number if row.place.kind == "item" else None,
        "name": row.name,
        "owner": row.owner,
        "outcome": row.outcome.value,
        "detail": row.detail,
        "errors": [
            {"pointer": error.pointer, "code": error.code, "detail": error.detail}
            for error in row.errors
        ],
    }
