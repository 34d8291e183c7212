"""A thread that shows that a worker's main process is alive, also while its children are busy."""

import threading
import time
from collections.abc import Callable
from datetime import datetime

import structlog
from django.db import DatabaseError, InterfaceError, connection

from allocator_service.core.clock import utc_now

BEAT_SECONDS = 10.0

log = structlog.get_logger(__name__)


def beat_on(record: Callable[[datetime], None]) -> None:
    """Call `record` with the time every ten seconds, as long as the process lives."""
    threading.Thread(target=_beat, args=[record], name="heartbeat", daemon=True).start()


def _beat(record: Callable[[datetime], None]) -> None:
    while True:
        try:
            record(utc_now())
        except (DatabaseError, InterfaceError) as error:
            log.warning("heartbeat_not_recorded", error=str(error))
        finally:
            connection.close()  # children that are forked meanwhile must not share it
        time.sleep(BEAT_SECONDS)
