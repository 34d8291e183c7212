"""Rounding of exact amounts to whole numbers that never exceed a capacity, by largest remainder.

Every amount is rounded down. What that takes off is handed out again, a unit each to the largest
remainders, in the policy's own order where they are equal. Whole amounts stay as they are.
"""

from collections.abc import Sequence
from decimal import Decimal, localcontext

from allocator_service.allocation.decided_parts import (
    EXACT,
)

# The largest relative error of a sum of divisible tasks, which are doubles.
NOISE = Decimal("1e-9")
_HALF = Decimal("0.5")


def whole_limits(
    amounts: Sequence[Decimal], capacity: int, ranks: Sequence[tuple[float, int]]
) -> list[int]:
    """Return the amounts, in the target's units, as whole numbers whose sum is at most `capacity`.

    `ranks` are the tenants' places in the policy's order. No tenant gets a whole unit more or less than
    its amount, unless the amounts themselves, being doubles, add up to more than the capacity. The
    excess is taken from the largest.
    """
    with localcontext(EXACT):
        return _whole_limits(amounts, capacity, ranks)


def _whole_limits(
    amounts: Sequence[Decimal], capacity: int, ranks: Sequence[tuple[float, int]]
) -> list[int]:
    limits = [int(amount) for amount in amounts]
    remainders = [amount - limit for amount, limit in zip(amounts, limits, strict=True)]
    spare = capacity - sum(limits)
    if spare < 0:
        _take_back(limits, -spare)
        return limits
    total = sum(amounts, Decimal(0))
    noise = min(NOISE * max(total, Decimal(1)), _HALF)
    # Doubles that add up to a hair less than a whole number must not lose a unit.
    handed_out = min(int(sum(remainders, Decimal(0)) + noise), spare)
    # Remainders that differ by noise alone count as equal, so that the policy's order decides.
    nearest = [remainder.quantize(NOISE) for remainder in remainders]
    order = sorted(
        (index for index, remainder in enumerate(remainders) if remainder),
        key=lambda index: (-nearest[index], ranks[index]),
    )
    for index in order[:handed_out]:
        limits[index] += 1
    return limits


def _take_back(limits: list[int], excess: int) -> None:
    # From the largest, for which a unit is the smallest part.
    for index in sorted(range(len(limits)), key=lambda index: -limits[index]):
        taken = min(excess, limits[index])
        limits[index] -= taken
        excess -= taken
