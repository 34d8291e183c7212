"""The bytes that the chain's digests cover, which can be made again from the API's exports.

A block's digest is SHA-256 of its lines, joined by line feeds: a line with the block's number and
the digest before it, the entries' lines in the sealed order, and the decisions' lines in the order
of their runs' ids. An entry's line is that of the NDJSON export without its last member. A block
with digests of documents has format 3. It counts them, and their lines follow in the order of their
ids. docs/chain.md specifies the bytes. Blocks of format 1, which are older, cover texts with the
database's own ids.
"""

from allocator_service.ledger.lookups import is_entry
from allocator_service.ledger.selectors import COLUMNS, instant

FORMAT, FORMAT_WITH_DOCUMENTS = 2, 3


def _line(members: dict[str, str]) -> str:
    """Return the SQL of a JSON object without spaces."""
    selected = ", ".join(f'{value} AS "{name}"' for name, value in members.items())
    return "(SELECT row_to_json(line)::text FROM (SELECT {members}) AS line)".replace(
        "{members}", selected
    )


# Of the seal `s`, the entry `e`, and what the feed joins with them.
ENTRY_LINE = _line({name: value for name, value in COLUMNS.items() if name != "digest"})
# Of the sealed decision `d` and its pool.
DECISION_LINE = _line(
    {
        "run": "d.run_id::text",
        "pool": "pool.slug",
        "generation": "d.generation",
        "effective_from": instant("d.effective_from"),
        "input": "encode(d.input, 'hex')",
        "answer": "encode(d.answer, 'hex')",
    }
)
# Of the sealed digest of a document `f` and its pool.
DOCUMENT_LINE = _line(
    {
        "document": "f.kind",
        "pool": "pool.slug",
        "name": "f.name",
        "sha256": "encode(f.sha256, 'hex')",
    }
)
# Of a block's number and counts, its pool, and the block before it.
_HEAD = {"pool": "pool.slug", "block": "{number}"}
_COUNTS = {"entries": "{entries}", "decisions": "{decisions}"}
_PREVIOUS = {"previous": "encode(previous.digest, 'hex')"}
BLOCK_LINE = _line({**_HEAD, "format": str(FORMAT), **_COUNTS, **_PREVIOUS})
BLOCK_LINE_WITH_DOCUMENTS = _line(
    {
        **_HEAD,
        "format": str(FORMAT_WITH_DOCUMENTS),
        **_COUNTS,
        "digests": "{documents}",
        **_PREVIOUS,
    }
)
FORMAT_1_ENTRY = """
jsonb_build_array(
    s.sequence, e.id, e.pool_id, e.tenant_id, e.server_owner_id, e.workload_id, e.resource, e.unit,
    e.quantity, extract(epoch FROM e.start), extract(epoch FROM e."end"), e.amount, e.kind, e.corrects,
    e.reason, e.source, e.event_id, e.run_id, extract(epoch FROM e.recorded_at))::text
"""


def entries_by(join: str) -> str:
    """Return the FROM clause of sealed entries `s`, with the join to their entries `e`."""
    return f"""
FROM ledger_seal s
{join}
JOIN pool ON pool.id = s.pool_id
JOIN tenant ON tenant.id = s.tenant_id
LEFT JOIN tenant owner ON owner.id = e.server_owner_id
"""


ENTRY_SOURCE = entries_by(f"JOIN ledger_entry e ON {is_entry('e', 's.entry_id', 's.start')}")


def block_digest(*, number: str, entries: str, decisions: str, documents: str) -> str:
    """Return the SQL of a block's digest, from the texts in its `content`."""
    line = f"CASE WHEN {documents} > 0 THEN {BLOCK_LINE_WITH_DOCUMENTS} ELSE {BLOCK_LINE} END"
    values = {"number": number, "entries": entries, "decisions": decisions, "documents": documents}
    for name, value in values.items():
        line = line.replace(f"{{{name}}}", value)
    parts = "content.entry_lines, content.decision_lines, content.document_lines"
    return f"sha256(convert_to(concat_ws(E'\\n', {line}, {parts}), 'UTF8'))"


# The lines of a block, from the common table expressions `entries`, `decisions` and `documents`.
CONTENT = """
content AS (
    SELECT pool_id, block, first, last, COALESCE(entries.count, 0) AS entries,
           COALESCE(decisions.count, 0) AS decisions, COALESCE(documents.count, 0) AS documents,
           entries.lines AS entry_lines, decisions.lines AS decision_lines,
           documents.lines AS document_lines
    FROM entries FULL JOIN decisions USING (pool_id, block)
    FULL JOIN documents USING (pool_id, block))
"""
