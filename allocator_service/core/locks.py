"""Advisory locks with the registry of their namespaces.

Order when several are taken: the namespaces as listed, then ascending key. Row locks come after.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, unique

from django.db import connection, transaction

from allocator_service.core.own_connections import own_connection


@unique
class Lock(IntEnum):
    """Namespaces of advisory locks, in the order in which they may be taken."""

    IDEMPOTENCY = 1
    API_KEY_NAME = 2
    PERSON = 8
    RECOMPUTE = 3
    METERING = 13
    SIMULATION = 10
    BACKTEST = 9
    COMPARISON = 11
    MAIL = 12
    LEDGER_ARCHIVE = 16
    WEBHOOK = 14
    POOL_MOVE = 15
    EVENT_SEAL = 4
    BILLING = 7
    LEDGER_SEAL = 5
    LEDGER_EXPORT = 6


def lock_key(namespace: Lock, name: str) -> int:
    """Return the number by which PostgreSQL identifies the lock."""
    # PostgreSQL's keys of advisory locks are signed numbers of 64 bits.
    digest = hashlib.blake2b(f"{namespace.value}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def lock_in_transaction(namespace: Lock, name: str) -> None:
    """Wait for the lock and hold it until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key(namespace, name)])


def share_in_transaction(namespace: Lock, name: str) -> None:
    """Wait for the end of an exclusive lock, and share the lock until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", [lock_key(namespace, name)])


def try_lock_in_transaction(namespace: Lock, name: str) -> bool:
    """Take the lock until the transaction ends, unless it is held."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [lock_key(namespace, name)])
        row = cursor.fetchone()
    return bool(row and row[0])


@contextmanager
def lock_for_block(namespace: Lock, name: str) -> Iterator[None]:
    """Wait for the lock and hold it until the block ends, within the surrounding transaction."""
    key = [lock_key(namespace, name)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", key)
        try:
            with transaction.atomic():  # a failed statement is undone before the lock is released
                yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", key)


@contextmanager
def try_lock_across_transactions(namespace: Lock, name: str) -> Iterator[bool]:
    """Hold the lock on a separate connection while the block runs several transactions.

    Yields whether it was taken. A killed holder's connection closes, and PostgreSQL releases the lock at
    that moment: no lease has to expire. The holder's own connection may be cut while it works, so its
    writes must be fenced as well (`core.jobs.Claim.fence`).
    """
    with own_connection() as holder, holder.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [lock_key(namespace, name)])
        row = cursor.fetchone()
        yield bool(row and row[0])
