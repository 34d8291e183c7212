"""Rating and closing of a month, beside a loop over its entries and a plain sum."""

from __future__ import annotations

import django

from benchmarks.measurement import Row


def measure(*, quick: bool = False) -> list[Row]:
    """Measure rating and closing of a month of 10^6 (quick) or 10^7 entries of 200 tenants."""
    django.setup()
    from benchmarks.billing import months  # it needs Django to be set up

    return months.measure(quick=quick)


def measure_closing(*, quick: bool = False) -> list[Row]:
    """Measure closing a month of 10^5 and 10^6 entries with clusters, beside the same without."""
    django.setup()
    from benchmarks.billing import clusters  # it needs Django to be set up

    return clusters.measure_closing(quick=quick)
