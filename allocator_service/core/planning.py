"""Hints for the database's planner where its statistics mislead it."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def indexes_only() -> Iterator[None]:
    """Make statements of the block find rows by indexes, without compiling them first.

    For statements that touch few rows of large tables, of which the planner expects many: rows came
    faster than statistics, or their number is only known when it runs.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL jit = off")
        yield
        cursor.execute("SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL jit TO DEFAULT")


def without_time_limit() -> None:
    """Lift the time limit of statements until the open transaction ends, for work that is read once."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")


@contextmanager
def hashed() -> Iterator[None]:
    """Make statements of the block group many rows into few by hashing instead of sorting."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SET LOCAL enable_sort = off; SET LOCAL jit = off; SET LOCAL work_mem = '64MB'"
        )
        yield
        cursor.execute(
            "SET LOCAL enable_sort TO DEFAULT; SET LOCAL jit TO DEFAULT;"
            " SET LOCAL work_mem TO DEFAULT"
        )


@contextmanager
def without_helpers() -> Iterator[None]:
    """Make statements of the block start no parallel workers.

    Reading a page is over before the workers have started.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL max_parallel_workers_per_gather = 0")
        yield
        cursor.execute("SET LOCAL max_parallel_workers_per_gather TO DEFAULT")
