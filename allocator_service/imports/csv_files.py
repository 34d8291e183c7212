"""CSV files of nodes, workloads, usage and tenants.

The first line is a header of known columns, the separator a comma, the encoding UTF-8.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from django.core.exceptions import ValidationError

from allocator_service.core.errors import FieldError, Unacceptable
from allocator_service.core.quantities import Resource, vector_from
from allocator_service.imports import columns
from allocator_service.imports.checks import (
    check_instant,
    check_labels,
    check_selector,
    check_slug,
    check_text,
    check_title,
    check_weight,
    check_whole_number,
    check_width,
)
from allocator_service.imports.columns import column_names
from allocator_service.imports.reading import check_row_count, errors_of
from allocator_service.imports.rows import (
    NodeFile,
    NodeRow,
    Owner,
    Place,
    RefusedRow,
    Row,
    TenantFile,
    TenantRow,
    TreeFile,
    TreeRow,
    UsageFile,
    UsageRow,
    WorkloadFile,
    WorkloadRow,
)
from allocator_service.pools.limit_forms import limits_parse
from allocator_service.pools.limits import Limit
from allocator_service.pools.models import LARGEST_TIER, OwnServers
from allocator_service.pools.server_services import MAX_SERVERS_PER_REQUEST
from allocator_service.pools.services import check_reclaim_time
from allocator_service.workloads.gangs import MAX_PIECES, Gang, Piece, gang_check
from allocator_service.workloads.models import MAX_PRIORITY, MAX_TASKS

Cells = dict[str, str]
MAX_COLUMNS = 1_000

NODE_COLUMNS = column_names(columns.NODES)
GANG_COLUMNS = ("pieces", "second_pieces", "second_demand.", "per_server", "together", "at_least")
WORKLOAD_COLUMNS = column_names(columns.WORKLOADS)
TENANT_COLUMNS = column_names(columns.TENANTS)
TREE_COLUMNS = column_names(columns.TREE)
NO_LIMIT = "none"
TREE_KINDS = ("group", "member")
USAGE_COLUMNS = ("id", "source", "tenant", "start", "end", "resources.")


def csv_nodes(content: str, resources: Sequence[Resource], owner: Owner) -> NodeFile:
    """Read nodes. Columns are name, contributed_by, count, capacity.* and labels.*.

    Raises `Unacceptable` if the file as a whole is not such a CSV.
    """

    def node(place: Place, cells: Cells) -> NodeRow:
        count = cells.get("count", "")
        labels = check_labels(_family(cells, "labels."), "/labels")
        return NodeRow(
            place,
            check_text(cells["name"], "/name"),
            _owner(cells.get("contributed_by", ""), labels, owner, "/contributed_by"),
            vector_from(_family(cells, "capacity."), resources, pointer="/capacity"),
            labels,
            check_whole_number(count, "/count", minimum=1, maximum=MAX_SERVERS_PER_REQUEST)
            if count
            else 1,
        )

    return NodeFile(_rows(content, NODE_COLUMNS, "capacity.", resources, node))


def csv_workloads(content: str, resources: Sequence[Resource], owner: Owner) -> WorkloadFile:
    """Read workloads. Columns are those of `WORKLOAD_COLUMNS`.

    An empty cell of tasks is no limit. A selector's cell has one value, or several separated by
    `|`. With `pieces`, demands are those of one piece. Raises `Unacceptable` if the file as a whole
    is not such a CSV.
    """

    def workload(place: Place, cells: Cells) -> WorkloadRow:
        tasks, priority = cells.get("tasks", ""), cells.get("priority", "")
        selector = {
            label: values.split("|") for label, values in _family(cells, "selector.").items()
        }
        tenant = _owner(cells.get("tenant", ""), {}, owner, "/tenant")
        if tenant is None:
            raise Unacceptable(
                "Expected a tenant: name it in the row, or by an option of the import.",
                code="field.required",
                pointer="/tenant",
            )
        demand = vector_from(_family(cells, "demand."), resources, pointer="/demand")
        gang = _gang(cells, demand, resources)
        return WorkloadRow(
            place,
            check_text(cells["name"], "/name"),
            tenant,
            gang.demand(resources) if gang is not None and gang.pieces else demand,
            check_whole_number(tasks, "/tasks", minimum=0, maximum=MAX_TASKS) if tasks else None,
            check_whole_number(priority, "/priority", minimum=-MAX_PRIORITY, maximum=MAX_PRIORITY)
            if priority
            else 0,
            check_selector(selector, "/selector"),
            gang,
            _minimum_run(cells.get("minimum_run", "")),
            check_slug(cells["group"], "/group") if cells.get("group") else "",
        )

    return WorkloadFile(_rows(content, WORKLOAD_COLUMNS, "demand.", resources, workload))


def _minimum_run(cell: str) -> str:
    """Return the duration of a cell, which may be empty."""
    check_reclaim_time(cell, pointer="/minimum_run")
    return cell


def _gang(cells: Cells, demand: Sequence[Decimal], resources: Sequence[Resource]) -> Gang | None:
    """Return how tasks start, None if no cell states it. One piece is a single task."""
    stated = {
        name: value for name, value in cells.items() if value and name.startswith(GANG_COLUMNS)
    }
    if not stated:
        return None

    def number(name: str) -> int | None:
        text = stated.get(name, "")
        if not text:
            return None
        return check_whole_number(text, f"/{name}", minimum=1, maximum=MAX_PIECES)

    kinds = [(number("pieces") or 1, demand)]
    second = number("second_pieces")
    second_demand = _family(cells, "second_demand.")
    if second is not None or second_demand:
        pointer = "/second_demand"
        kinds.append((second or 1, vector_from(second_demand, resources, pointer=pointer)))
    names = [resource.name for resource in resources]
    pieces = [
        Piece(count, {name: amount for name, amount in zip(names, vector, strict=True) if amount})
        for count, vector in kinds
    ]
    # So that a file can turn a gang into single tasks again.
    is_single = len(pieces) == 1 and pieces[0].count == 1
    gang = Gang(
        () if is_single else tuple(pieces),
        number("per_server"),
        check_text(stated.get("together", ""), "/together", blank=True),
        number("at_least") or 1,
    )
    gang_check(gang, "")
    return gang


def csv_usage(content: str, resources: Sequence[Resource], owner: Owner, source: str) -> UsageFile:
    """Read usage. Columns are id, tenant, start, end, resources.* and source.

    A row without a source gets `source`. Raises `Unacceptable` if the file as a whole is not such a
    CSV.
    """

    def usage(place: Place, cells: Cells) -> UsageRow:
        tenant = _owner(cells.get("tenant", ""), {}, owner, "/tenant")
        if tenant is None:
            raise Unacceptable(
                "Expected a tenant: name it in the row, or by an option of the import.",
                code="field.required",
                pointer="/tenant",
            )
        return UsageRow(
            place,
            check_text(cells["id"], "/id"),
            tenant,
            check_text(cells.get("source") or source, "/source"),
            vector_from(_family(cells, "resources."), resources, pointer="/resources"),
            check_instant(cells.get("start", ""), "/start"),
            check_instant(cells.get("end", ""), "/end"),
        )

    return UsageFile(_rows(content, USAGE_COLUMNS, "resources.", resources, usage, key="id"))


def csv_tenants(content: str) -> TenantFile:
    """Read tenants. Columns are slug and name; a tenant without a name gets its slug.

    Raises `Unacceptable` if the file as a whole is not such a CSV.
    """

    def tenant(place: Place, cells: Cells) -> TenantRow:
        slug = check_slug(cells["slug"], "/slug")
        return TenantRow(place, slug, check_title(cells.get("name") or slug, "/name"))

    return TenantFile(_rows(content, TENANT_COLUMNS, "", (), tenant, key="slug"))


def csv_tree(content: str) -> TreeFile:
    """Read groups and members. Columns are those of `TREE_COLUMNS`.

    An empty kind is a group, and an empty parent the pool itself. Limits, guarantees and loans are
    written as in the forms of the admin. Raises `Unacceptable` if the file as a whole is not such a CSV.
    """

    def node(place: Place, cells: Cells) -> TreeRow:
        kind = cells.get("kind") or TREE_KINDS[0]
        if kind not in TREE_KINDS:
            raise Unacceptable(
                f'Expected one of {", ".join(TREE_KINDS)}, got "{kind[:40]}".',
                code="field.choice",
                pointer="/kind",
            )
        name, parent = cells.get("name", ""), cells.get("parent", "")
        weight, tier = cells.get("weight", ""), cells.get("tier", "")
        if name and kind == "member":
            raise Unacceptable(
                "A member has the name of its tenant: leave the cell empty.",
                code="field.unknown",
                pointer="/name",
            )
        if cells.get("lend") and kind != "member":
            raise Unacceptable(
                "A group lends no servers: leave the cell empty.",
                code="field.unknown",
                pointer="/lend",
            )
        slug = check_slug(cells["slug"], "/slug")
        return TreeRow(
            place,
            slug,
            slug if kind == "member" else None,
            check_slug(parent, "/parent") if parent else None,
            check_title(name, "/name") if name else None,
            check_weight(weight, "/weight") if weight else None,
            check_whole_number(tier, "/tier", minimum=-LARGEST_TIER, maximum=LARGEST_TIER)
            if tier
            else None,
            limit=_amounts(cells, "limit"),
            guarantee=_amounts(cells, "guarantee"),
            lend=_amounts(cells, "lend"),
            own_servers=_own_servers(cells.get("own_servers", "")),
        )

    return TreeFile(_rows(content, TREE_COLUMNS, "", (), node, key="slug"))


def _amounts(cells: Cells, kind: str) -> list[Limit] | None:
    """Return the amounts of a kind, one on each line of its cell, None for an empty cell."""
    cell = cells.get(kind, "")
    if not cell:
        return None
    try:
        return [] if cell == NO_LIMIT else limits_parse(cell, kind)
    except ValidationError as error:
        raise Unacceptable(error.messages[0], code=f"{kind}.syntax", pointer=f"/{kind}") from error


def _own_servers(cell: str) -> str | None:
    if cell and cell not in OwnServers.values:
        raise Unacceptable(
            f'Expected one of {", ".join(OwnServers.values)}, got "{cell[:40]}".',
            code="field.choice",
            pointer="/own_servers",
        )
    return cell or None


def _rows(
    content: str,
    known: Sequence[str],
    quantities: str,
    resources: Sequence[Resource],
    read: Callable[[Place, Cells], Row],
    *,
    key: str = "name",
) -> list[Row | RefusedRow]:
    lines = _lines(content)
    _, header = next(lines, (Place("line", 1), []))
    _check_header(header, known, quantities, resources, key)
    rows: list[Row | RefusedRow] = []
    for place, values in lines:
        # While rows are read: a file of millions of lines must not fill the memory first.
        check_row_count(len(rows) + 1)
        cells = dict(zip(header, values, strict=False))
        try:
            check_width(values, header)
            rows.append(read(place, cells))
        except Unacceptable as error:
            rows.append(RefusedRow(place, cells.get(key, "")[:80], errors_of(error)))
    return rows


def _lines(content: str) -> Iterator[tuple[Place, list[str]]]:
    """Yield the rows that are not empty, each with its first line."""
    reader = csv.reader(io.StringIO(content.removeprefix("\ufeff"), newline=""), strict=True)
    while True:
        # A quoted cell may span lines, and the reader counts them: the row begins after those read
        # so far.
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
    known: Sequence[str],
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
    # An unknown column is an error, not ignored: a misspelt one would otherwise be a silent zero.
    counted_names = {item.name for item in resources}
    seen: set[str] = set()
    for name in header:
        family, dot, rest = name.partition(".")
        if name in seen:
            errors.append(_header_error(name, "import.column", "occurs twice"))
        elif f"{family}{dot}" not in known or (dot and not rest):
            there = ", ".join(f"{column}*" if column[-1] == "." else column for column in known)
            errors.append(_header_error(name, "import.column", f"is unknown; there are: {there}"))
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


def _family(cells: Cells, prefix: str) -> Cells:
    """Return the cells of a family of columns that are not empty, by the rest of their names."""
    return {
        name.removeprefix(prefix): value
        for name, value in cells.items()
        if name.startswith(prefix) and value
    }


def _owner(cell: str, labels: Cells, owner: Owner, pointer: str) -> str | None:
    named = cell or owner.of(labels)
    return check_slug(named, pointer) if named else None
