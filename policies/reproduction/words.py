"""Numbers as the tables print them."""

from __future__ import annotations

from policies.simulation import Spread


def percent(value: float) -> str:
    """One decimal; a dash where there is no number."""
    return "–" if value != value else f"{100 * value:.1f} %"


def spread(found: Spread, *place: int) -> str:
    """The mean of one measurement in per cent, and from what to what it was over the seeds.

    A dash where a seed gave no number.
    """
    mean, least, most = (float(part[place]) for part in (found.mean, found.least, found.most))
    if found.count == 1 or least == most or mean != mean:
        return percent(mean)
    return f"{percent(mean)} ({100 * least:.1f} to {100 * most:.1f})"
