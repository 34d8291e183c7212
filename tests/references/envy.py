"""Envy over all pairs of tenants, one after another."""

from collections.abc import Sequence

import numpy as np

from allocator_service.allocation.reports.envy import TOLERANCE, Bundle, Envy, envy_order


def envy_pairs(bundles: Sequence[Bundle]) -> list[Envy]:
    """Who would have run more with another's bundle, scaled by their weights; the worst first."""
    used = np.array([[float(a) for a in each.used] for each in bundles])
    weight = np.array([each.weight for each in bundles])
    found = []
    for i, each in enumerate(bundles):
        nothing = not any(each.used)
        profile = np.array([float(a) for a in (each.alone if nothing else each.used)])
        needed = profile > 0
        if not (each.requested_more and each.weight and needed.any()):
            continue
        scale = np.divide(each.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        times = (used[:, needed] * scale[:, None] / profile[needed]).min(axis=1)
        times[i] = 0.0
        least = 0.0 if nothing else 1.0
        found += [
            Envy(each.tenant, other.tenant, None if nothing else more)
            for other, more in zip(bundles, times.tolist(), strict=True)
            if more > least + TOLERANCE
        ]
    return sorted(found, key=envy_order)
