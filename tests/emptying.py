"""Empties the database after a test that commits, like Django's `flush` in a fraction of its time.

`flush` truncates every table, full or not, and makes all permissions and roles anew. Here what
migrations filled stays, unless a test has changed it, and rows are deleted where they are few.

Truncating is expensive with any number of rows. PostgreSQL writes a new file for the table, for each of
its indexes, and for those of every table that refers to it. Afterwards it reads their catalog entries
and plans its statements anew.

Deleting leaves pages without rows. Their statistics would mislead the planner about the next rows, so
autovacuum leaves the tables alone, and a table that a test has analyzed is truncated.
"""

from functools import cache

from django.core.management import call_command
from django.db import connection, transaction
from django.test import TransactionTestCase

from tests import migrated

FILLED = ("django_content_type", "auth_permission", "auth_group", "auth_group_permissions")
KEPT = (*FILLED, "django_migrations")
# Tables that are larger are truncated: that is faster, and few pages without rows stay to be read.
FEW_BYTES = 128 * 1024
_filled = ""  # the digest of what migrations filled


# What stores rows, partitions included.
_STORED = (
    "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r'"
    f" AND relnamespace = current_schema()::regnamespace AND relname NOT IN {KEPT}"
)


@cache
def _questions() -> tuple[str, str, str]:
    """Return queries for the tables to truncate, for those with rows, and for the digest."""
    large = f"{_STORED} AND (reltuples >= 0 OR pg_relation_size(oid) > {FEW_BYTES})"
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    quoted = [connection.ops.quote_name(name) for name in names if name not in KEPT]
    full = " UNION ALL ".join(
        f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in quoted
    )
    rows = " UNION ALL ".join(
        f"SELECT '{name} ' || r::text AS row FROM {name} r" for name in FILLED
    )
    return large, full, f"SELECT md5(string_agg(row, ',' ORDER BY row)) FROM ({rows}) AS filled"


def _digest() -> str:
    with connection.cursor() as cursor:
        cursor.execute(_questions()[2])
        ((digest,),) = cursor.fetchall()
    return str(digest)


def empty(_: TransactionTestCase | None = None) -> None:
    """Leave nothing but what migrations filled."""
    global _filled
    with connection.cursor() as cursor:
        cursor.execute(_questions()[0])
        large = [name for (name,) in cursor.fetchall()]
        cursor.execute(_questions()[1])
        full = [name for (name,) in cursor.fetchall()]
        if large or (full and not migrated.has_own_server()):
            cursor.execute(f"TRUNCATE {', '.join({*large, *full})} CASCADE")
        elif full:
            with transaction.atomic():
                # Without triggers, which refuse deletions or check foreign keys: all tables are emptied.
                cursor.execute("SET LOCAL session_replication_role = replica")
                cursor.execute("; ".join(f"DELETE FROM {name}" for name in full))
    if _digest() != _filled:
        call_command("flush", verbosity=0, interactive=False, reset_sequences=False)
        _filled = _digest()  # other ids


def empty_quickly() -> None:
    """Take this way from now on, with a database as migrations leave it."""
    global _filled
    _filled = _digest()
    with connection.cursor() as cursor:
        cursor.execute(_STORED)
        for (name,) in cursor.fetchall():
            cursor.execute(f"ALTER TABLE {name} SET (autovacuum_enabled = false)")
    TransactionTestCase._fixture_teardown = empty  # type: ignore[attr-defined]
