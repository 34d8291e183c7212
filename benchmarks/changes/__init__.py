"""Time from one change of a pool to its decision, and the rows written for it."""

from __future__ import annotations

import django

from benchmarks.measurement import Row


def measure(*, quick: bool = False) -> list[Row]:
    """Measure a change of one workload of many, through the running service."""
    django.setup()
    from benchmarks.changes import one_change  # it needs Django to be set up

    return one_change.measure(quick=quick)
