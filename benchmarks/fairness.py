"""Envy of a fairness report beside a comparison of all pairs of tenants."""

from __future__ import annotations

from decimal import Decimal

import django
import numpy as np

from benchmarks.measurement import Row, best_seconds

TENANTS = 10_000
SHOWN = 100
KINDS = 50


def measure(*, quick: bool = False) -> list[Row]:
    """Return rows of tenants of which no two are alike, and of tenants of a few kinds."""
    django.setup()
    tenants = TENANTS // (10 if quick else 1)
    return [_row(tenants, 10**9, "all different"), _row(tenants, KINDS, f"{KINDS} bundles")]


def _row(tenants: int, values: int, what: str) -> Row:
    from allocator_service.allocation.reports.envy import Bundle, envies_of
    from tests.references.envy import envy_pairs

    random = np.random.default_rng(2)
    part = random.integers(1, values, tenants)
    # Nearly fair: more of the one is less of the other.
    used = np.column_stack(
        [part, values - part + random.integers(0, max(3, values // 30), tenants)]
    ).tolist()
    bundles = [
        Bundle(f"tenant-{i}", [Decimal(a) for a in row], [Decimal(1)] * 2, 1.0, True)
        for i, row in enumerate(used)
    ]
    peer_seconds, pairs = best_seconds(lambda: bundles, envy_pairs, repeat=1)
    seconds, found = best_seconds(
        lambda: bundles, lambda each: envies_of(each, most=SHOWN), repeat=3
    )
    if found is None or (found.count, list(found.worst)) != (len(pairs), pairs[:SHOWN]):
        raise RuntimeError("the two sides of the benchmark differ")
    return Row(
        name="envy of a report",
        sizes=f"{tenants:,} tenants, {what}",
        our_value=seconds,
        peer="all pairs, a tenant at a time",
        peer_value=peer_seconds,
        agreement=0.0,
        goal=10.0,
        notes=f"{len(pairs):,} pairs, the worst {SHOWN} the same",
    )
