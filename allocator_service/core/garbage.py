"""Garbage collection of a process."""

from __future__ import annotations

import gc

# With Python's own threshold, 700, a third of a decision for 10,000 members is looking for cycles that
# its documents of plain dicts and lists do not have.
THRESHOLD = 50_000


def collect_rarely() -> None:
    """Look for cycles less often, and never among what the process has loaded until now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD)
