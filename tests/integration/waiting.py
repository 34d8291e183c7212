"""Loops of other threads that wait for notifications, for longer than their tests do."""

import time
from collections.abc import Callable

import pytest

from allocator_service.core.notifications import Listener

# A loop that is not woken does nothing for so long, and a test fails before.
IDLE_SECONDS = 60.0


def until(holds: Callable[[], object], seconds: float = IDLE_SECONDS / 2) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def recorded_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each wait for notifications, added when it begins."""
    waits: list[float] = []
    wait = Listener.wait

    def recorded(listener: Listener, seconds: float) -> None:
        waits.append(seconds)
        wait(listener, seconds)

    monkeypatch.setattr(Listener, "wait", recorded)
    return waits
