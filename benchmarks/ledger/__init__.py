"""The ledger: what a window costs to read, and how fast usage is taken."""

from __future__ import annotations

import django

from benchmarks.measurement import Row


def measure(*, quick: bool = False) -> list[Row]:
    """Windows at 10^5 and 10^7 entries beside plain sums; usage appended beside the naive way."""
    django.setup()
    from benchmarks.ledger import appending, reading  # they need Django to be set up

    return [*appending.measure(quick=quick), *reading.measure(quick=quick)]
