"""Processor time of database sessions, rows written by table, and bytes of the log."""

from __future__ import annotations

import os
import time
from pathlib import Path

from django.db import connection


def processor_seconds() -> float:
    """Return the time of this process and of its session in the database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchall()[0]
    # From the last parenthesis on, because the name before it may contain spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def rows_by_table() -> dict[str, int]:
    """Return how many rows were inserted, updated and deleted so far, by table."""
    with connection.cursor() as cursor:
        # A session reports its counts with a delay, and reads a snapshot of the others'.
        cursor.execute("SELECT pg_stat_clear_snapshot(), pg_stat_force_next_flush()")
        cursor.execute("SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables")
        return dict(cursor.fetchall())


def log_bytes() -> int:
    """Return the position in the write-ahead log."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
        return int(cursor.fetchall()[0][0])
