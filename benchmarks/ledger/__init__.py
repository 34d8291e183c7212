"""Rates of usage and metering of the ledger, and times to read windows and reports."""

from __future__ import annotations

import django

from benchmarks.measurement import Row


def measure_usage(*, quick: bool = False) -> list[Row]:
    """Measure appended usage beside the naive way, and over HTTP."""
    django.setup()
    from benchmarks.ledger import appending  # it needs Django to be set up

    return appending.measure(quick=quick)


def measure_windows(*, quick: bool = False) -> list[Row]:
    """Measure windows at 10^5 and 10^7 entries beside plain sums. Filling the latter takes long."""
    django.setup()
    from benchmarks.ledger import reading

    return reading.measure(quick=quick)


def measure_reports(*, quick: bool = False) -> list[Row]:
    """Measure reports at 10^5 and 10^7 entries beside plain sums."""
    django.setup()
    from benchmarks.ledger import reporting

    return reporting.measure(quick=quick)


def measure_metering(*, quick: bool = False) -> list[Row]:
    """Measure metering of a pool that decides each minute, beside an entry for every interval."""
    django.setup()
    from benchmarks.ledger import metering

    return metering.measure(quick=quick)
