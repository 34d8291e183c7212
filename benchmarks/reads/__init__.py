"""Processor time of reads in a web process."""

from __future__ import annotations

import os

import django

from benchmarks.measurement import Row


def measure(*, quick: bool = False) -> list[Row]:
    """Measure responses to clients that already have them, in a web process with its own settings."""
    os.environ["ALLOCATOR_PROCESS"] = "web"
    # The load is one key's; its limit is not what is measured.
    os.environ |= {"THROTTLE_RATE": "100000", "THROTTLE_BURST": "1000000"}
    django.setup()
    from benchmarks.reads import known  # it needs Django to be set up

    return known.measure(quick=quick)
