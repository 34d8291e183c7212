"""The rows of an archive in temporary tables, their checks, and their insertion under new keys."""

import hashlib
import zlib
from typing import Any

import orjson
from django.db import connection
from django.db.models import ForeignKey
from psycopg import sql

from allocator_service.allocation.stored_placements import owners_replaced
from allocator_service.core.errors import Unacceptable
from allocator_service.transfers.archive import ArchiveReader
from allocator_service.transfers.tables import MOVED_KEYS, OF_SLUG, TABLES, Table, table_of

DOCUMENTS_AT_ONCE = 20
LARGEST_KEY = 10**12
_TABLES = {table.name: table for table in TABLES}
_PUBLISH = """
UPDATE billing_plan p SET state = i.state, number = i.number, published_at = i.published_at
FROM incoming_billing_plan i WHERE i.id = p.id AND i.state <> 'draft'
"""
# Keys under which the audit and digests that were sealed elsewhere name the pool's objects.
_FORMER = """
INSERT INTO core_former_key (pool, object_type, key, former, until)
SELECT %(slug)s, '{kind}', k.key, k.former, %(closed_at)s FROM {keys} k
"""
# Rows that no foreign key holds together.
_LOOSE = {
    "the pool of the header": "SELECT count(*) <> 1 OR min(slug) <> %(slug)s FROM incoming_pool",
    "an entry for each number": """
        SELECT (SELECT count(*) FROM incoming_ledger_seal)
               <> (SELECT count(*) FROM incoming_ledger_entry)
            OR EXISTS (SELECT FROM incoming_ledger_seal s WHERE NOT EXISTS (
                SELECT FROM incoming_ledger_entry e WHERE e.id = s.entry_id AND e.start = s.start))""",
    # Entries that get numbers up to a larger one here would be neither in the totals nor on a statement.
    "the entries that its totals and closed months count": """
        SELECT COALESCE(GREATEST(
            (SELECT max(GREATEST(through, owner_through)) FROM incoming_ledger_totals_cursor),
            (SELECT max(through) FROM incoming_billing_late_cursor),
            (SELECT max(sequence) FROM incoming_billing_closing)), 0)
            > (SELECT COALESCE(max(sequence), 0) FROM incoming_ledger_seal)""",
    "a number for each event": """
        SELECT (SELECT count(*) FROM incoming_core_event_seal)
               <> (SELECT count(*) FROM incoming_core_event)""",
    "a key for each stored answer": """
        SELECT EXISTS (SELECT FROM incoming_core_idempotency_claim c WHERE NOT EXISTS (
            SELECT FROM incoming_api_key k WHERE k.id = c.holder))""",
    "a group for each key and right": """
        SELECT EXISTS (SELECT FROM incoming_api_key k WHERE k."group" IS NOT NULL
                       AND NOT EXISTS (SELECT FROM incoming_pool_group g WHERE g.id = k."group"))
            OR EXISTS (SELECT FROM incoming_group_grant k WHERE k.pool_group IS NOT NULL
                       AND NOT EXISTS (SELECT FROM incoming_pool_group g WHERE g.id = k.pool_group))""",
    "keys without tenants": "SELECT EXISTS (SELECT FROM incoming_api_key WHERE tenant_id IS NOT NULL)",
}


def load_rows(reader: ArchiveReader) -> None:
    """Read all rows of an archive into temporary tables, which last as long as the transaction."""
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(
                # With defaults, for columns that the tables keep for the release before.
                f"CREATE TEMPORARY TABLE {table.incoming} (LIKE {table.name} INCLUDING DEFAULTS)"
                " ON COMMIT DROP"
            )
        for rows in reader.read_rows():
            known = _TABLES.get(rows.table)
            if known is None:
                raise _altered(f"has rows of {rows.table}, which is not a table of pools")
            statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
                sql.Identifier(known.incoming),
                sql.SQL(", ").join(map(sql.Identifier, known.columns)),
            )
            # In chunks: a row may be as large as a document of a long ledger's month.
            with connection.wrap_database_errors, cursor.copy(statement) as copy:
                for chunk in rows.chunks:
                    copy.write(chunk)
        # The planner knows nothing of a table that was just filled, and would loop over its rows.
        for table in TABLES:
            cursor.execute(f"ANALYZE {table.incoming}")


def check_rows(*, slug: str) -> None:
    """Raise `Unacceptable` for rows that refer to anything outside of the archive's pool."""
    with connection.cursor() as cursor:

        def found(statement: str) -> Any:
            cursor.execute(statement, {"slug": slug})
            return cursor.fetchall()[0][0]

        for what, statement in _LOOSE.items():
            if found(statement):
                raise _altered(f"lacks {what}")
        for table in TABLES:
            for column, target in table.references():
                if found(_without(table, f't."{column}"', target)):
                    raise _altered(f"has rows of {table.name} whose {column} is not in it")
            if table.keys and found(_without(table, "o.key", table_of("tenants.Tenant"))):
                raise _altered(f"has rows of {table.name} that name tenants which are not in it")
            if table.where == OF_SLUG and found(
                f"SELECT count(*) FROM {table.incoming} WHERE pool IS DISTINCT FROM %(slug)s"
            ):
                raise _altered(f"has rows of {table.name} that are of another pool")
    _refuse_inputs()


def _without(table: Table, key: str, target: Table) -> str:
    """Return the SQL that counts the rows whose key has no row of the target in the archive."""
    named = f", LATERAL ({table.keys}) AS o (key)" if key == "o.key" else ""
    return (
        f"SELECT count(*) FROM {table.incoming} t{named} WHERE {key} IS NOT NULL AND NOT EXISTS ("
        f'SELECT FROM {target.incoming} r WHERE r."{target.key}" = {key})'
    )


def _refuse_inputs() -> None:
    """Raise `Unacceptable` for an input of a run that has another digest than it states.

    Pools share equal inputs: a wrong one would become the input of others.
    """
    with connection.chunked_cursor() as cursor:
        cursor.execute(
            "SELECT digest, document, workload_ids FROM incoming_run_snapshot WHERE document IS NOT NULL"
        )
        while rows := cursor.fetchmany(DOCUMENTS_AT_ONCE):
            for digest, document, workload_ids in rows:
                try:
                    read = orjson.loads(zlib.decompress(document))
                except (zlib.error, orjson.JSONDecodeError) as error:
                    raise _altered(f"has an input {digest[:12]} that cannot be read") from error
                written = orjson.dumps(read, option=orjson.OPT_SORT_KEYS)
                content = b"[%b,%b]" % (written, orjson.dumps(workload_ids))
                if hashlib.sha256(content).hexdigest() != digest:
                    raise _altered(f"has an input {digest[:12]} with another digest")


def choose_keys() -> None:
    """Choose the keys of this installation for the rows of `MOVED_KEYS`, except tenants."""
    with connection.cursor() as cursor:
        for label, keys in MOVED_KEYS.items():
            table = table_of(label)
            if label != "tenants.Tenant":
                # In the order of the former keys, which some readers order by.
                cursor.execute(f"""
                    CREATE TEMPORARY TABLE {keys} ON COMMIT DROP AS
                    SELECT id AS former, nextval(pg_get_serial_sequence('{table.name}', 'id')) AS key,
                           true AS is_new
                    FROM (SELECT id FROM {table.incoming} ORDER BY id) AS incoming""")
            cursor.execute(f"CREATE UNIQUE INDEX ON {keys} (former)")
            cursor.execute(f"ANALYZE {keys}")


def advance_commitment_keys() -> None:
    """Let new commitments have keys above all former ones, which documents go on using."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT GREATEST((SELECT max(former) FROM key_of_commitment),
                            (SELECT max(former) FROM incoming_core_former_key
                             WHERE object_type = 'commitment'))""")
        largest = cursor.fetchall()[0][0]
        if largest is None:
            return
        if largest > LARGEST_KEY:
            raise _altered(f"has a commitment {largest}, which no installation counts to")
        counter = "pg_get_serial_sequence('billing_commitment', 'id')"
        cursor.execute(f"SELECT setval({counter}, GREATEST(nextval({counter}), %s))", [largest])


def replace_owners() -> None:
    """Replace the keys of owners in placements, which are compressed documents."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT former, key FROM key_of_tenant")
        keys = dict(cursor.fetchall())
        cursor.execute("SELECT run_id FROM incoming_run_placement_document ORDER BY run_id")
        runs = [run for (run,) in cursor.fetchall()]
        for first in range(0, len(runs), DOCUMENTS_AT_ONCE):
            cursor.execute(
                "SELECT run_id, document FROM incoming_run_placement_document WHERE run_id = ANY(%s)",
                [runs[first : first + DOCUMENTS_AT_ONCE]],
            )
            for run, document in cursor.fetchall():
                try:
                    replaced = owners_replaced(bytes(document), keys)
                except (ValueError, TypeError, LookupError, zlib.error) as error:
                    raise _altered(f"has placements of run {run} that cannot be read") from error
                if replaced != document:
                    cursor.execute(
                        "UPDATE incoming_run_placement_document SET document = %s WHERE run_id = %s",
                        [replaced, run],
                    )


def insert_rows(*, parameters: dict[str, Any], sealed_events: bool) -> None:
    """Insert the rows of the archive, or the numbers of its events alone, with keys of this database.

    The numbers of events depend on those that are here. They come last, under their sealer's lock.
    """
    with connection.cursor() as cursor:
        for table in TABLES:
            if (table.label == "core.EventSeal") == sealed_events:
                cursor.execute(_insertion(table), parameters)
        if sealed_events:
            return
        cursor.execute(_PUBLISH)
        for label, keys in MOVED_KEYS.items():
            kind = str(table_of(label).model._meta.model_name)
            cursor.execute(_FORMER.format(kind=kind, keys=keys), parameters)


def _insertion(table: Table) -> str:
    own = MOVED_KEYS.get(table.label, "")
    joins = [f"JOIN {own} own ON own.former = t.{table.key}"] if own else []
    values = {}
    for column, each in zip(table.columns, table.fields, strict=True):
        if column in table.values:
            values[column] = table.values[column]
        elif column == table.key and own:
            values[column] = "own.key"
        elif column == table.key and table.counts_rows:
            continue  # the database counts it
        elif keys := _keys_of(each):
            joins.append(f'LEFT JOIN {keys} k_{column} ON k_{column}.former = t."{column}"')
            values[column] = f"k_{column}.key"
        else:
            values[column] = f't."{column}"'
    columns = ", ".join(f'"{name}"' for name in values)
    where = " WHERE own.is_new" if own else ""
    order = f" ORDER BY t.{table.key}" if table.counts_rows else ""
    return (
        f"INSERT INTO {table.name} ({columns}) SELECT {', '.join(values.values())}"
        f" FROM {table.incoming} t {' '.join(joins)}{where}{order} {table.conflict}"
    )


def _keys_of(each: Any) -> str:
    """Return the table of the keys that replace those of a column, empty for keys that stay."""
    if not isinstance(each, ForeignKey):
        return ""
    return MOVED_KEYS.get(str(each.related_model._meta.label), "")


def _altered(what: str) -> Unacceptable:
    return Unacceptable(f"The archive {what}: it was altered.", code="archive.altered")
