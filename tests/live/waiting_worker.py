"""The worker's application with a task that waits, for tests that freeze what it works with."""

import os
import time
from pathlib import Path

from kombu.transport import redis

import policies
from allocator_service.celery import app

# Nothing is computed here: to load the compiled kernels takes every start three seconds.
policies.warm_compiled = lambda: None

if os.environ.get("DEAF"):
    # As after failed acknowledgements: connected, idle, and the prefetch window full for good.
    redis.QoS.can_consume = lambda _: False  # type: ignore[method-assign]


@app.task(name="tests.wait")
def wait(begun: str, until: str) -> None:
    """Show that it has begun, and end when the file `until` exists."""
    Path(begun).touch()
    while not Path(until).exists():
        time.sleep(0.02)
