"""What the relay publishes for apps that it does not know: tasks, and which rows of theirs are due.

A row in PostgreSQL is the job; a message only carries its id. Such tasks have a queue of their own.
Who writes such a row wakes the relay, which otherwise looks for them once a second.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from celery import Task
from django.db import connection

JOBS_CHANNEL = "allocator_jobs"
# The queue of simulations of whole traces, which has workers of its own: their ALLOCATOR_PROCESS.
BACKTESTS = "backtests"


class Due(Protocol):
    """Claims the publication of at most `limit` rows.

    `idle`: no message waits in the queue, so that what was published a while ago and is not done was
    lost, or is being done.
    """

    def __call__(self, *, now: datetime, limit: int, idle: bool) -> Sequence[UUID]: ...


class Published(NamedTuple):
    """A task with a queue of its own, and its rows."""

    task: Task
    due: Due


_published: list[Published] = []


def published(task: Task, due: Due) -> None:
    """Have the relay publish the rows that `due` claims."""
    _published.append(Published(task, due))


def relay_wake() -> None:
    """Have the relay look for such rows as soon as this transaction is committed."""
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {JOBS_CHANNEL}")


def all_published() -> Sequence[Published]:
    """Everything that apps have said."""
    return tuple(_published)
