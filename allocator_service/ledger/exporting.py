"""Exports of the ledger, formatted by PostgreSQL with the bytes of the feed's pages.

A page and an export use the same expressions for values. An export is a COPY from one snapshot,
whose bytes Python passes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from allocator_service.core.spreadsheets import FORMULA_STARTS, NUMBER_PATTERN
from allocator_service.core.streams import SnapshotConnection, Stream
from allocator_service.ledger.selectors import COLUMNS, SEALED
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
    "csv": "FORMAT csv, HEADER",
    "ndjson": "FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02'",
}
_EXPORT = """
COPY (SELECT {columns} {sealed} AND s.sequence <= %(last)s ORDER BY s.sequence)
TO STDOUT ({options})
"""
_LAST = """
SELECT sequence, entry_id FROM ledger_seal
WHERE %(caller)s::bigint IS NULL OR tenant_id = %(caller)s
ORDER BY sequence DESC LIMIT 1
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
    position: int,
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
) -> Export:
    """Export the sealed entries after a number in their order.

    Parameters are those of `entries_after`. `file_format` is `csv` or `ndjson`, with one JSON
    document per line. `columns` of the feed are written in the given order. `owners` are the names
    of owners by pool and tenant, for a caller who sees other tenants under pseudonyms. `condition`
    is a further condition on the seals `s` and entries `e`, with its parameters in `conditioned`.
    Raises `Unavailable` while four exports are running.
    """
    snapshot = SnapshotConnection()
    try:
        snapshot.run(_AS_THEY_ARE_READ)
        # In the export's snapshot: a consumer that continues after a later entry would miss some.
        row = snapshot.row(_LAST, {"caller": caller and caller.pk})
    # The caller gets no stream that would close the connection.
    except BaseException:
        snapshot.close()
        raise
    last, last_id = row or (0, None)
    parameters: dict[str, Any] = {
        "after": position,
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
    statement = export_statement({name: values[name] for name in columns}, file_format, condition)

    def read(opened: SnapshotConnection) -> Iterator[bytes]:
        for chunk in opened.copied(statement, parameters):
            # RFC 4180 ends lines with CRLF, and COPY writes LF.
            yield chunk.replace(b"\n", b"\r\n") if file_format == "csv" else chunk

    return Export(Stream(snapshot, read), last_id)


_NAMED = """
(SELECT named.name
 FROM unnest(%(owner_pools)s::bigint[], %(owners)s::bigint[], %(owner_names)s::text[])
      AS named (pool, owner, name)
 WHERE named.pool = s.pool_id AND named.owner = e.server_owner_id)
"""


def export_statement(values: Mapping[str, str], file_format: str, condition: str = "") -> str:
    """Return the COPY of sealed entries, with `values` by column in the given order."""
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
        .replace("{sealed}", SEALED + condition)
        .replace("{options}", _OPTIONS[file_format])
    )
