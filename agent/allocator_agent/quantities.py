"""Exact quantities of pools, of Slurm and of Kubernetes.

Inside the agent an amount is a `Fraction` in the base unit: bytes of memory, one of anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

Amounts = dict[str, Fraction]  # resource of the pool -> amount in the base unit

MEBIBYTE = 2**20
_DIGITS = 12  # as many as the service keeps
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_SMALL = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
_SUFFIXES = {"": Fraction(1), **_SMALL} | {
    suffix: Fraction(factor) for suffix, factor in (*_BINARY.items(), *_DECIMAL.items())
}
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,3}))?([A-Za-z]*)"
)
_BYTE_UNITS = {
    "b": 1,
    **{prefix.lower() + "b": factor for prefix, factor in _BINARY.items()},
    **{prefix.lower() + "b": factor for prefix, factor in _DECIMAL.items()},
}


def unit_factor(resource: str, unit: str) -> Fraction:
    """Return the base units in one unit of a pool's resource. Memory without a unit is in MiB."""
    factor = _BYTE_UNITS.get(unit.strip().lower())
    if factor is not None:
        return Fraction(factor)
    return Fraction(MEBIBYTE) if resource == "memory" else Fraction(1)


def quantity(text: str) -> Fraction:
    """Return a quantity that Kubernetes writes as `500m`, `512Mi`, `2` or `1e3`. Raises `ValueError`."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[3] not in _SUFFIXES:
        raise ValueError(f"{text[:40]!r} is not a quantity such as 500m, 512Mi or 2")
    return Fraction(match[1]) * Fraction(10) ** int(match[2] or 0) * _SUFFIXES[match[3]]


def decimal_text(amount: Fraction, *, up: bool = False) -> str:
    """Return an amount as a plain decimal, rounded to the digits that the service keeps."""
    scaled = amount * 10**_DIGITS
    whole = -(-scaled.numerator // scaled.denominator) if up else int(scaled)
    text = f"{whole // 10**_DIGITS}.{whole % 10**_DIGITS:0{_DIGITS}d}"
    return text.rstrip("0").rstrip(".")


class Units:
    """The units of a pool's resources, with conversions between them and the base units."""

    def __init__(self, resources: Iterable[Mapping[str, str]]) -> None:
        self._factors = {
            item["name"]: unit_factor(item["name"], item.get("unit") or "") for item in resources
        }

    @property
    def names(self) -> list[str]:
        return list(self._factors)

    def to_pool(self, amounts: Amounts, *, up: bool = False) -> dict[str, str]:
        """Return the part of `amounts` that the pool counts, as decimals in its units."""
        return {
            name: decimal_text(amounts[name] / factor, up=up)
            for name, factor in self._factors.items()
            if name in amounts
        }


def added(left: Amounts, right: Amounts) -> Amounts:
    """Return the sum, resource by resource."""
    return {
        name: left.get(name, Fraction(0)) + right.get(name, Fraction(0))
        for name in {**left, **right}
    }
