"""Deliveries whose acknowledgement, when it fails, resets the connection to the broker.

kombu sends the acknowledgement before it frees the delivery's place in the prefetch window, and logs an
error instead of raising it. Each failed one took a place for good, until the worker took no more
messages though it was connected and idle (docs/adr/0008). A new connection has a new window. The message
comes again, which is harmless because tasks are idempotent.
"""

from typing import Any

from celery.app.task import Task
from celery.worker.request import Request
from kombu.asynchronous import get_event_loop


class ReconnectingRequest(Request):
    """A delivery as the worker's main process sees it."""

    _connection_errors: tuple[type[BaseException], ...]

    def acknowledge(self) -> None:
        """Acknowledge the message to the broker."""
        errors, self._connection_errors = self._connection_errors, ()
        try:
            super().acknowledge()
        except errors as error:
            self._reset(error)
        finally:
            self._connection_errors = errors

    def reject(self, requeue: bool = False) -> None:
        """Reject the message, and leave it undone."""
        errors, self._connection_errors = self._connection_errors, ()
        try:
            super().reject(requeue)
        except errors as error:
            self._reset(error)
        finally:
            self._connection_errors = errors

    def _reset(self, error: BaseException) -> None:
        """Raise the error in the worker's loop, which connects anew, as after any lost connection."""
        self.acknowledged = True
        loop = get_event_loop()
        if loop is not None:
            loop.call_soon(_fail, error)  # type: ignore[no-untyped-call]


def _fail(error: BaseException) -> None:
    raise error


class ReconnectingTask(Task):
    """The base of every task."""

    Request: Any = f"{ReconnectingRequest.__module__}:{ReconnectingRequest.__qualname__}"
