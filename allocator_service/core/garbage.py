"""Garbage collection of a process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# With Python's own threshold, 700, a third of a decision for 10,000 members is looking for cycles that
# its documents of plain dicts and lists do not have.
THRESHOLD = 50_000


def collect_rarely() -> None:
    """Look for cycles less often, and never among what the process has loaded until now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD)


@contextmanager
def pause_collection() -> Iterator[None]:
    """Look for no cycles during the block, so that its result is not delayed by the search."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
