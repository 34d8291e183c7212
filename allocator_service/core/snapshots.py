"""Several statements that read one state of the database.

The state of dropped tables is the present one: a month of the ledger that is archived after the snapshot
was taken would be gone for its readers. A snapshot therefore begins with the ledger's lock, for which
archiving waits. Its transaction is READ ONLY unless months are archived, whose readers copy them to
temporary tables.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import connection, transaction

LEDGER_LOCK = "LOCK TABLE ONLY ledger_entry IN ACCESS SHARE MODE"
# The lock comes first: LOCK takes no snapshot, and the SELECT takes the transaction's.
BEGIN_SNAPSHOT = """
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
{lock};
SELECT set_config('transaction_read_only', 'on', true) WHERE NOT EXISTS (SELECT FROM ledger_archive)
""".replace("{lock}", LEDGER_LOCK)


# The alias of the connection: another server may have archived months.
_nothing_archived_on: ContextVar[str | None] = ContextVar("nothing_archived_on", default=None)


def has_nothing_archived() -> bool:
    """Return whether `one_snapshot` runs on the connection and found no archived month."""
    return _nothing_archived_on.get() == connection.alias


@contextmanager
def one_snapshot() -> Iterator[None]:
    """Run the block's statements, which must not write, on the data committed when it began.

    Within an open transaction they see its snapshot.
    """
    if connection.in_atomic_block:
        with transaction.atomic():
            yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(BEGIN_SNAPSHOT)
        while cursor.nextset():
            pass
        nothing = cursor.fetchone() is not None
        found = _nothing_archived_on.set(connection.alias if nothing else None)
        try:
            yield
        finally:
            _nothing_archived_on.reset(found)
