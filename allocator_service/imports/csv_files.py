"""CSV files of nodes, workloads and usage: a header of known columns, one row a line, UTF-8, commas."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence

from allocator_service.core.errors import FieldError, Unacceptable
from allocator_service.core.quantities import Resource, vector_from
from allocator_service.imports.checks import (
    checked_instant,
    checked_labels,
    checked_selector,
    checked_slug,
    checked_text,
    checked_title,
    refuse_other_width,
    whole_number,
)
from allocator_service.imports.reading import findings_of, refuse_too_many
from allocator_service.imports.rows import (
    NodeFile,
    NodeRow,
    Owner,
    Place,
    RefusedRow,
    Row,
    TenantFile,
    TenantRow,
    UsageFile,
    UsageRow,
    WorkloadFile,
    WorkloadRow,
)
from allocator_service.pools.server_services import MAX_SERVERS_PER_REQUEST
from allocator_service.workloads.models import MAX_PRIORITY, MAX_TASKS

Cells = dict[str, str]
MAX_COLUMNS = 1_000

NODE_COLUMNS = ("name", "contributed_by", "count", "capacity.", "labels.")
WORKLOAD_COLUMNS = ("tenant", "name", "tasks", "priority", "demand.", "selector.")
TENANT_COLUMNS = ("slug", "name")
USAGE_COLUMNS = ("id", "source", "tenant", "start", "end", "resources.")


def csv_nodes(content: str, resources: Sequence[Resource], owner: Owner) -> NodeFile:
    """The nodes of a CSV with the columns name, contributed_by, count, capacity.*, labels.*.

    Raises `Unacceptable` for a file that is no such CSV as a whole.
    """

    def node(place: Place, cells: Cells) -> NodeRow:
        count = cells.get("count", "")
        labels = checked_labels(_below(cells, "labels."), "/labels")
        return NodeRow(
            place,
            checked_text(cells["name"], "/name"),
            _owner(cells.get("contributed_by", ""), labels, owner, "/contributed_by"),
            vector_from(_below(cells, "capacity."), resources, pointer="/capacity"),
            labels,
            whole_number(count, "/count", minimum=1, maximum=MAX_SERVERS_PER_REQUEST)
            if count
            else 1,
        )

    return NodeFile(_rows(content, NODE_COLUMNS, "capacity.", resources, node))


def csv_workloads(content: str, resources: Sequence[Resource], owner: Owner) -> WorkloadFile:
    """The workloads of a CSV: tenant, name, demand.*, tasks (empty: no limit), priority, selector.*.

    A selector's cell names one value, or several with `|` between them. Raises `Unacceptable` for
    a file that is no such CSV as a whole.
    """

    def workload(place: Place, cells: Cells) -> WorkloadRow:
        tasks, priority = cells.get("tasks", ""), cells.get("priority", "")
        selector = {
            label: values.split("|") for label, values in _below(cells, "selector.").items()
        }
        tenant = _owner(cells.get("tenant", ""), {}, owner, "/tenant")
        if tenant is None:
            raise Unacceptable(
                "The row does not name a tenant.", code="field.required", pointer="/tenant"
            )
        return WorkloadRow(
            place,
            checked_text(cells["name"], "/name"),
            tenant,
            vector_from(_below(cells, "demand."), resources, pointer="/demand"),
            whole_number(tasks, "/tasks", minimum=0, maximum=MAX_TASKS) if tasks else None,
            whole_number(priority, "/priority", minimum=-MAX_PRIORITY, maximum=MAX_PRIORITY)
            if priority
            else 0,
            checked_selector(selector, "/selector"),
        )

    return WorkloadFile(_rows(content, WORKLOAD_COLUMNS, "demand.", resources, workload))


def csv_usage(content: str, resources: Sequence[Resource], owner: Owner, source: str) -> UsageFile:
    """The usage of a CSV: id, tenant, start, end, resources.*, source (else the one given).

    Raises `Unacceptable` for a file that is no such CSV as a whole.
    """

    def usage(place: Place, cells: Cells) -> UsageRow:
        tenant = _owner(cells.get("tenant", ""), {}, owner, "/tenant")
        if tenant is None:
            raise Unacceptable(
                "The row does not name a tenant.", code="field.required", pointer="/tenant"
            )
        return UsageRow(
            place,
            checked_text(cells["id"], "/id"),
            tenant,
            checked_text(cells.get("source") or source, "/source"),
            vector_from(_below(cells, "resources."), resources, pointer="/resources"),
            checked_instant(cells.get("start", ""), "/start"),
            checked_instant(cells.get("end", ""), "/end"),
        )

    return UsageFile(_rows(content, USAGE_COLUMNS, "resources.", resources, usage, key="id"))


def csv_tenants(content: str) -> TenantFile:
    """The tenants of a CSV with the columns slug and, if you like, name (else the slug).

    Raises `Unacceptable` for a file that is no such CSV as a whole.
    """

    def tenant(place: Place, cells: Cells) -> TenantRow:
        slug = checked_slug(cells["slug"], "/slug")
        return TenantRow(place, slug, checked_title(cells.get("name") or slug, "/name"))

    return TenantFile(_rows(content, TENANT_COLUMNS, "", (), tenant, key="slug"))


def _rows(
    content: str,
    columns: Sequence[str],
    quantities: str,
    resources: Sequence[Resource],
    read: Callable[[Place, Cells], Row],
    *,
    key: str = "name",
) -> list[Row | RefusedRow]:
    lines = _lines(content)
    _, header = next(lines, (Place("line", 1), []))
    _check_header(header, columns, quantities, resources, key)
    rows: list[Row | RefusedRow] = []
    for place, values in lines:
        refuse_too_many(len(rows) + 1)
        cells = dict(zip(header, values, strict=False))
        try:
            refuse_other_width(values, header)
            rows.append(read(place, cells))
        except Unacceptable as error:
            rows.append(RefusedRow(place, cells.get(key, "")[:80], findings_of(error)))
    return rows


def _lines(content: str) -> Iterator[tuple[Place, list[str]]]:
    """The rows that are not empty, each with the line it begins on."""
    reader = csv.reader(io.StringIO(content.removeprefix("\ufeff"), newline=""), strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Unacceptable(
                f"Line {reader.line_num} is not CSV: {error}.", code="import.csv"
            ) from error
        if values:
            yield Place("line", begins), [value.strip() for value in values]


def _check_header(
    header: Sequence[str],
    columns: Sequence[str],
    quantities: str,
    resources: Sequence[Resource],
    key: str,
) -> None:
    if len(header) > MAX_COLUMNS:
        raise Unacceptable(
            f"Expected at most {MAX_COLUMNS} columns, got {len(header)} in line 1.",
            code="import.column",
        )
    errors = []
    counted_names = {item.name for item in resources}
    seen: set[str] = set()
    for name in header:
        family, dot, rest = name.partition(".")
        if name in seen:
            errors.append(_header_error(name, "import.column", "is there twice"))
        elif f"{family}{dot}" not in columns or (dot and not rest):
            known = ", ".join(f"{column}*" if column[-1] == "." else column for column in columns)
            errors.append(_header_error(name, "import.column", f"is unknown; there are: {known}"))
        elif f"{family}{dot}" == quantities and rest not in counted_names:
            counted = ", ".join(item.name for item in resources)
            errors.append(
                _header_error(name, "resource.unknown", f"is not counted; the pool has: {counted}")
            )
        seen.add(name)
    if key not in header:
        errors.append(_header_error(key, "import.column", "is missing"))
    if not any(name.startswith(quantities) for name in header):
        errors.append(_header_error(f"{quantities}*", "import.column", "is missing"))
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors)


def _header_error(name: str, code: str, what: str) -> FieldError:
    return FieldError("/content", code, f'Line 1: the column "{name[:80]}" {what}.')


def _below(cells: Cells, prefix: str) -> Cells:
    """The cells of a family of columns that are not empty, by the rest of their names."""
    return {
        name.removeprefix(prefix): value
        for name, value in cells.items()
        if name.startswith(prefix) and value
    }


def _owner(cell: str, labels: Cells, owner: Owner, pointer: str) -> str | None:
    named = cell or owner.of(labels)
    return checked_slug(named, pointer) if named else None
