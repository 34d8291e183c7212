"""The ledger: how fast usage is taken and metered, and what windows and reports cost to read."""

from __future__ import annotations

import django

from benchmarks.measurement import Row


def measure_usage(*, quick: bool = False) -> list[Row]:
    """Usage appended beside the naive way, and posted over HTTP."""
    django.setup()
    from benchmarks.ledger import appending  # it needs Django to be set up

    return appending.measure(quick=quick)


def measure_windows(*, quick: bool = False) -> list[Row]:
    """Windows at 10^5 and 10^7 entries beside plain sums; to fill in the latter takes long."""
    django.setup()
    from benchmarks.ledger import reading

    return reading.measure(quick=quick)


def measure_reports(*, quick: bool = False) -> list[Row]:
    """Reports at 10^5 and 10^7 entries beside plain sums."""
    django.setup()
    from benchmarks.ledger import reporting

    return reporting.measure(quick=quick)


def measure_metering(*, quick: bool = False) -> list[Row]:
    """Metering of a pool that decides each minute, beside an entry for every interval."""
    django.setup()
    from benchmarks.ledger import metering

    return metering.measure(quick=quick)
