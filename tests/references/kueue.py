"""Kueue's own division of capacity, in proportion to the quotas of specs (KEP-12382)."""

from collections.abc import Mapping
from fractions import Fraction
from math import floor


def proportional(nominal: Mapping[str, int], capacity: int) -> dict[str, int]:
    """Return what each queue has of a capacity: largest remainders of the proportions."""
    total = sum(nominal.values())
    exact = {name: Fraction(amount * capacity, total) for name, amount in nominal.items()}
    whole = {name: floor(amount) for name, amount in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (whole[name] - exact[name], name))
    for name in by_remainder[: capacity - sum(whole.values())]:
        whole[name] += 1
    return whole
