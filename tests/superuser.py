"""What somebody with every right could do to the database, behind the service's back."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

DECISIONS = (
    "run", "run_allocation", "run_placement_document", "run_placement", "run_server_class",
    "run_certificate", "run_floors", "run_schedule", "run_step",
)  # fmt: skip


@transaction.atomic
def as_superuser(statement: str, *parameters: int | str) -> None:
    """Run an UPDATE or DELETE without the table's triggers, which keep published rows as they are."""
    words = statement.split()
    table = words[words.index("FROM") + 1] if words[0] == "DELETE" else words[1]
    with unprotected(table), connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@contextmanager
def unprotected(*tables: str) -> Iterator[None]:
    """Tables whose rows anybody may change meanwhile."""
    _switch("DISABLE", tables)
    try:
        yield
    finally:
        _switch("ENABLE", tables)


def _switch(how: str, tables: tuple[str, ...]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what waits for a commit bars ALTER TABLE
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} {how} TRIGGER USER")


@contextmanager
def unconstrained(table: str, constraint: str) -> Iterator[None]:
    """A table whose rows need not keep a constraint meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE conrelid = %s::regclass AND conname = %s",
            [table, constraint],
        )
        (definition,) = cursor.fetchall()[0]
        cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {constraint} {definition}")
