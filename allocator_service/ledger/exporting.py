"""Exports of the ledger, formatted by PostgreSQL with the bytes of the feed's pages.

A page and an export use the same expressions for values. An export is a COPY from one snapshot,
whose bytes Python passes on. Where entries are archived, it is a COPY for each group of rows of their
files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from allocator_service.core.spreadsheets import FORMULA_STARTS, NUMBER_PATTERN
from allocator_service.core.streams import SnapshotConnection, Stream
from allocator_service.ledger.archive.files import archive_path, group_ends
from allocator_service.ledger.archive.reading import (
    ENTRIES,
    ArchivedEntries,
    archives_of,
    archives_read,
)
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.selectors import (
    BEGINNING,
    COLUMNS,
    SEALED,
    Place,
    after_place,
    archived_filters,
    place_after,
)
from allocator_service.tenants.models import Tenant

# Texts of clients, which a spreadsheet must not take for formulas (CSV injection).
_WRITTEN = ("unit", "reason", "source", "event_id")
_CELL = """
CASE WHEN left({text}, 1) IN ({starts}) AND {text} !~ '{number}'
     THEN '''' || {text} ELSE NULLIF({text}, '') END
""".replace("{starts}", ", ".join(f"chr({ord(start)})" for start in FORMULA_STARTS)).replace(
    "{number}", NUMBER_PATTERN
)
_DOCUMENT = "(SELECT row_to_json(entry) FROM (SELECT {members}) AS entry)"
# JSON contains no control characters, so with these as quote and delimiter COPY does not escape it.
_OPTIONS = {
    "csv": "FORMAT csv{header}",
    "ndjson": "FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02'",
}
_EXPORT = """
COPY (SELECT {columns} {sealed} AND s.sequence <= %(last)s ORDER BY s.sequence, s.pool_id)
TO STDOUT ({options})
"""
_LAST = """
SELECT sequence, entry_id FROM ledger_seal
WHERE %(caller)s::bigint IS NULL OR tenant_id = %(caller)s
ORDER BY sequence DESC, pool_id DESC LIMIT 1
"""
# Rows are streamed in the order of the index. A sort would first read and store all of them.
_AS_THEY_ARE_READ = (
    "SET LOCAL enable_sort = off; SET LOCAL jit = off;"
    " SET LOCAL max_parallel_workers_per_gather = 0"
)


@dataclass(frozen=True)
class Export:
    """A stream, with the last entry that it may contain.

    A consumer that continues after that entry misses none.
    """

    stream: Stream
    last: UUID | None


def entries_export(
    place: Place,
    *,
    file_format: str,
    columns: Sequence[str],
    caller: Tenant | None,
    owners: Mapping[tuple[int, int], str],
    pool: str | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    condition: str = "",
    conditioned: Mapping[str, Any] | None = None,
    archived: Sequence[Selection] = (Selection(),),
) -> Export:
    """Export the sealed entries after a place in their order.

    Parameters are those of `entries_after`. `file_format` is `csv` or `ndjson`, with one JSON
    document per line. `columns` of the feed are written in the given order. `owners` are the names
    of owners by pool and tenant, for a caller who sees other tenants under pseudonyms. `condition`
    is a further condition on the seals `s` and entries `e`, with its parameters in `conditioned`, and
    `archived` are the selections of archived entries that it includes. Raises `Unavailable` while four
    exports are running, and if the file of an archived entry is missing or altered.
    """
    snapshot = SnapshotConnection()
    try:
        snapshot.run(_AS_THEY_ARE_READ)
        # In the export's snapshot: a consumer that continues after a later entry would miss some.
        row = snapshot.row(_LAST, {"caller": caller and caller.pk})
        filters = archived_filters(pool=pool, tenant=tenant, caller=caller)
        # The snapshot holds the ledger's lock: the files stay the same ones until its end.
        selections = [
            replace(
                each,
                pool=filters.pool,
                tenant=filters.tenant,
                after=max(place.last_passed, each.after or 0),
            )
            for each in archived
        ]
        with snapshot.cursor() as cursor:
            files = [archive_path(each) for each in archives_read(cursor, *selections)]
        last, last_id = row or (0, None)
        steps = _steps(place, last, files, selections)
    # The caller gets no stream that would close the connection.
    except BaseException:
        snapshot.close()
        raise
    parameters: dict[str, Any] = {
        **after_place(place),
        "last": last,
        "pool": pool,
        "tenant": tenant,
        "caller": None if caller is None else caller.pk,
        "kind": kind,
        **(conditioned or {}),
    }
    values = dict(COLUMNS)
    if caller is not None:
        values["server_owner"] = _NAMED
        parameters |= {
            "owner_pools": [of for of, _ in owners],
            "owners": [owner for _, owner in owners],
            "owner_names": list(owners.values()),
        }
    written = {name: values[name] for name in columns}

    def read(opened: SnapshotConnection) -> Iterator[bytes]:
        with opened.cursor() as cursor:
            for source, step in _sources(cursor, steps, files):
                statement = export_statement(
                    written, file_format, condition, header=step is steps[0], source=source
                )
                bounds = {**after_place(step.after), "last": step.last}
                for chunk in opened.copied(statement, {**parameters, **bounds}):
                    # RFC 4180 ends lines with CRLF, and COPY writes LF.
                    yield chunk.replace(b"\n", b"\r\n") if file_format == "csv" else chunk

    return Export(Stream(snapshot, read), last_id)


def lines_export(
    cursor: Any, *, parameters: Mapping[str, Any], condition: str, archived: Sequence[Selection]
) -> Iterator[bytes]:
    """Yield the NDJSON of sealed entries within the open transaction, which holds the ledger's lock.

    `parameters` are those of the statement, `archived` the selections that its condition includes.
    """
    files = [archive_path(archive) for archive in archives_of(*archived)]
    steps = _steps(BEGINNING, parameters["last"], files, archived)
    for source, step in _sources(cursor, steps, files):
        statement = export_statement(COLUMNS, "ndjson", condition, source=source)
        bounds = {**after_place(step.after), "last": step.last}
        with cursor.copy(statement, {**parameters, **bounds}) as copy:
            yield from map(bytes, copy)


@dataclass(frozen=True)
class _Step:
    """The entries of an export after a place through a number. Some may be archived."""

    after: Place
    last: int
    archived: Sequence[Selection] = ()


def _steps(
    place: Place, last: int, files: Sequence[Path], selections: Sequence[Selection]
) -> list[_Step]:
    """Divide an export at the ends of groups of rows, to load few archived entries at once."""
    steps = []
    # A group may end after the export, which then ends within it.
    ends = {min(end, last) for path in files for end in group_ends(path)}
    for end in sorted(end for end in ends if end > place.last_passed):
        archived = [
            replace(
                each,
                after=max(place.last_passed, each.after or 0),
                through=end if each.through is None else min(end, each.through),
            )
            for each in selections
        ]
        steps.append(_Step(place, end, archived))
        place = place_after(end)
    # Also of an export without entries, whose header it writes.
    return [*steps, _Step(place, last)]


def _sources(
    cursor: Any, steps: Sequence[_Step], files: Sequence[Path]
) -> Iterator[tuple[str, _Step]]:
    """Yield the relation that has the entries of each step."""
    relation = ArchivedEntries(cursor) if files else None
    for step in steps:
        if relation is None or not step.archived:
            yield ENTRIES, step
        else:
            relation.fill(files, step.archived)
            yield relation.name, step
    if relation is not None:
        relation.drop()


_NAMED = """
(SELECT named.name
 FROM unnest(%(owner_pools)s::bigint[], %(owners)s::bigint[], %(owner_names)s::text[])
      AS named (pool, owner, name)
 WHERE named.pool = s.pool_id AND named.owner = e.server_owner_id)
"""


def export_statement(
    values: Mapping[str, str],
    file_format: str,
    condition: str = "",
    *,
    header: bool = True,
    source: str = ENTRIES,
) -> str:
    """Return the COPY of sealed entries of `source`, with `values` by column in the given order.

    CSV has a header unless it is continued.
    """
    if file_format == "csv":
        selected = ", ".join(
            f'{_CELL.replace("{text}", value) if name in _WRITTEN else value} AS "{name}"'
            for name, value in values.items()
        )
    else:
        members = ", ".join(f'{value} AS "{name}"' for name, value in values.items())
        selected = _DOCUMENT.replace("{members}", members)
    return (
        _EXPORT.replace("{columns}", selected)
        .replace("{sealed}", (SEALED + condition).replace(ENTRIES, source))
        .replace("{options}", _OPTIONS[file_format])
        .replace("{header}", ", HEADER" if header else "")
    )
