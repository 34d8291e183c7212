"""Imports as documents."""

from typing import Any

from allocator_service.imports.formats import NODE_FORMATS, USAGE_FORMATS, WORKLOAD_FORMATS
from allocator_service.imports.reading import MAX_ROWS
from allocator_service.imports.rows import ImportReport, Outcome, RowReport
from api.documents import DocumentField, ListField, StrictSerializer
from api.fields import (
    BooleanField,
    ChoiceField,
    IntegerField,
    Schema,
    SlugField,
    StrictField,
    TextField,
    TimestampField,
)
from api.structures import TextsField
from api.v1.pools.serializers import MAX_GENERATION

ITEMS_FROM_0 = "The item of the JSON list, from 0."
LINES_FROM_1 = "The line of the CSV, from 1."
SKIP = "Write the other rows when some are refused, instead of none."
REGISTER = "Register the tenants that are not there yet."


class ContentField(StrictField):
    """A file's content: its text, or the object that its JSON is."""

    type_name = "a text or an object"

    def read(self, value: Any, pointer: str) -> str | dict[str, Any]:
        if not isinstance(value, str | dict):
            raise self.wrong_type(pointer)
        return value

    def describe(self) -> Schema:
        return {"oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": True}]}


class NodeImportRequest(StrictSerializer):
    format = ChoiceField(choices=NODE_FORMATS, default="csv")
    content = ContentField()
    contributed_by = SlugField(
        required=False, allow_null=True, help_text="Whose the nodes are that do not say."
    )
    owner_label = TextField(
        max_length=253, required=False, allow_null=True, help_text="The label that names whose."
    )
    dry_run = BooleanField(default=False)
    skip_refused = BooleanField(default=False, help_text=SKIP)
    register_tenants = BooleanField(default=False, help_text=REGISTER)


class WorkloadImportRequest(StrictSerializer):
    format = ChoiceField(choices=WORKLOAD_FORMATS, default="csv")
    content = ContentField()
    tenant = SlugField(
        required=False, allow_null=True, help_text="Whose the workloads are that do not say."
    )
    tenant_label = TextField(
        max_length=253, required=False, allow_null=True, help_text="The label that names whose."
    )
    dry_run = BooleanField(default=False)
    skip_refused = BooleanField(default=False, help_text=SKIP)
    register_tenants = BooleanField(default=False, help_text=REGISTER)


class UsageImportRequest(StrictSerializer):
    format = ChoiceField(choices=USAGE_FORMATS, default="csv")
    content = ContentField()
    # The metaclass takes fields off the class: `source` does not hide that of DRF's fields.
    source = TextField(  # type: ignore[assignment]
        max_length=100, required=False, allow_null=True, help_text="The format's unless given."
    )
    begin = TimestampField(required=False, allow_null=True, help_text="swf: when the trace begins.")
    tenant = SlugField(
        required=False, allow_null=True, help_text="Whose the usage is that does not say."
    )
    tenant_label = TextField(
        max_length=253,
        required=False,
        allow_null=True,
        help_text="The label, column (sacct) or field (swf) that names whose.",
    )
    dry_run = BooleanField(default=False)
    skip_refused = BooleanField(default=False, help_text=SKIP)
    register_tenants = BooleanField(default=False, help_text=REGISTER)


class FindingDocument(StrictSerializer):
    pointer = TextField(max_length=2000, blank=True)
    code = TextField(max_length=100)
    detail = TextField(max_length=2000)


class ImportedRowDocument(StrictSerializer):
    line = IntegerField(minimum=1, maximum=10**9, allow_null=True, help_text=LINES_FROM_1)
    item = IntegerField(minimum=0, maximum=10**9, allow_null=True, help_text=ITEMS_FROM_0)
    name = TextField(max_length=253, blank=True)
    owner = SlugField(allow_null=True)
    outcome = ChoiceField(choices=[outcome.value for outcome in Outcome])
    detail = TextField(max_length=2000, blank=True)
    errors = ListField(FindingDocument, min_items=0, max_items=100)  # type: ignore[assignment]


class CountsDocument(StrictSerializer):
    added = IntegerField(minimum=0, maximum=MAX_ROWS)
    changed = IntegerField(minimum=0, maximum=MAX_ROWS)
    unchanged = IntegerField(minimum=0, maximum=MAX_ROWS)
    refused = IntegerField(minimum=0, maximum=MAX_ROWS)
    skipped = IntegerField(minimum=0, maximum=MAX_ROWS)


class ImportDocument(StrictSerializer):
    dry_run = BooleanField()
    written = BooleanField(help_text="Whether anything changed.")
    generation = IntegerField(minimum=0, maximum=MAX_GENERATION)
    counts = DocumentField(CountsDocument)
    ignored = TextsField(help_text="Resources of the file that the pool does not count.")
    registered = TextsField(help_text="Tenants that were, or in a dry run would be, registered.")
    rows = ListField(ImportedRowDocument, min_items=0, max_items=MAX_ROWS)


def import_document(report: ImportReport, *, dry_run: bool) -> dict[str, Any]:
    """The answer to an import that was told or done."""
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
