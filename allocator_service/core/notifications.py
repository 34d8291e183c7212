"""Notifications of PostgreSQL, which wake processes that wait for rows."""

import psycopg
from django.db import connection

# A trigger notifies it when events are committed (migration 0004). Reports of usage do not: transactions
# that notify commit one after the other.
PENDING_CHANNEL = "allocator_pending"
EVENTS_CHANNEL = "allocator_events"
DELIVERIES_CHANNEL = "allocator_deliveries"


def notify(channel: str, payload: str = "") -> None:
    """Wake the processes that listen to a channel as soon as the transaction is committed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [channel, payload])


class Listener:
    """Notifications for the thread that uses it, received in the session of its database connection.

    Psycopg keeps those that arrive during other statements, so that none is lost between two waits.
    """

    def __init__(self, *channels: str) -> None:
        self._channels = channels
        self._session: psycopg.Connection | None = None

    def prepare(self) -> None:
        """Listen, and discard the notifications that have been received.

        Call it before reading the rows: those that were notified until now can be read. Without it
        notifications would accumulate in a process that is too busy to wait.
        """
        for _ in self._listening_session().notifies(timeout=0):
            pass

    def wait(self, seconds: float) -> None:
        """Wait for a notification, which may have arrived since `prepare`."""
        for _ in self._listening_session().notifies(timeout=seconds, stop_after=1):
            pass

    def _listening_session(self) -> psycopg.Connection:
        connection.ensure_connection()
        session: psycopg.Connection = connection.connection
        # Another one after the database was lost.
        if session is not self._session:
            for channel in self._channels:
                session.execute(f"LISTEN {channel}")
            self._session = session
        return session
