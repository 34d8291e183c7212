"""Quantities of countable resources: exact decimals in, vectors in a pool's own order, back out.

A quantity is a JSON number, a decimal string or a Kubernetes quantity (`"250m"`, `"500Mi"`), at
least 0 and below 10¹², with at most 12 fractional digits. A vector lists them in the order of the
pool's resources; what it leaves out at its end is 0.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Any

from allocator_service.core.errors import FieldError, Unacceptable

FRACTIONAL_DIGITS = 12
LIMIT = Decimal(10) ** 12
_QUANTUM = Decimal(1).scaleb(-FRACTIONAL_DIGITS)
_WIDE = Context(prec=90)
_NUMBER = re.compile(
    r"([+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?|[+-]?\.[0-9]{1,40})([a-zA-Z]{0,2})", re.ASCII
)
_EXPONENT = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})[eE][+-]?[0-9]{1,3}", re.ASCII
)
_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12, "P": Decimal(10) ** 15, "E": Decimal(10) ** 18,
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_BYTES = {
    "byte": Decimal(1), "bytes": Decimal(1), "B": Decimal(1),
    "kB": Decimal(10) ** 3, "MB": Decimal(10) ** 6, "GB": Decimal(10) ** 9,
    "TB": Decimal(10) ** 12, "PB": Decimal(10) ** 15,
    "KiB": Decimal(2**10), "MiB": Decimal(2**20), "GiB": Decimal(2**30),
    "TiB": Decimal(2**40), "PiB": Decimal(2**50),
}  # fmt: skip
_COUNTS = {"", "core", "cores", "count", "cpu", "gpu", "gpus"}


@dataclass(frozen=True)
class Resource:
    """A countable resource of a pool: its name, the unit its quantities are in."""

    name: str
    unit: str = ""


def parse_quantity(value: object, unit: str = "", *, pointer: str = "") -> Decimal:
    """The exact decimal that a client's `value` stands for, in `unit`.

    Raises `Unacceptable` with `quantity.*` codes: wrong type, not a number, negative, 10¹² or more,
    more than 12 fractional digits in a string, or a suffix that the unit has no conversion for.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise Unacceptable(
            f"A quantity is a number, a decimal string or a Kubernetes quantity, not {_kind(value)}.",
            code="quantity.type",
            pointer=pointer,
        )
    number = (
        _parse_text(value, unit, pointer)
        if isinstance(value, str)
        else _parse_number(value, pointer)
    )
    return _bounded(number, value, pointer)


def parse_kubernetes(value: object, unit: str, *, rounding: str, pointer: str = "") -> Decimal:
    """The decimal, in `unit`, of a quantity as Kubernetes itself means it.

    Without a suffix a unit of bytes is counted in bytes. What has more than 12 fractional digits
    (`"32829300Ki"` has 18 in GiB) is rounded there as `rounding` of the decimal module says: less
    than a hundredth of a byte of a GiB. Raises `Unacceptable` as `parse_quantity` does.
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise Unacceptable(
            f"A Kubernetes quantity is a text or a number, not {_kind(value)}.",
            code="quantity.type",
            pointer=pointer,
        )
    digits, suffix = _split_text(str(value), pointer)
    size = _unit_size(unit, suffix, str(value), pointer) if suffix else _BYTES.get(unit, Decimal(1))
    with localcontext(prec=90):
        number = Decimal(digits) * _SUFFIXES[suffix] / size
        if abs(number) < LIMIT:
            number = number.quantize(_QUANTUM, rounding=rounding)
    return _bounded(number, value, pointer)


def _bounded(number: Decimal, value: object, pointer: str) -> Decimal:
    if number.is_signed() and number != 0:
        raise Unacceptable(
            f"A quantity is at least 0; {value} is negative.",
            code="quantity.negative",
            pointer=pointer,
        )
    if number >= LIMIT:
        raise Unacceptable(
            f"A quantity is below 10^12; choose a larger unit for {str(value)[:40]}.",
            code="quantity.too_large",
            pointer=pointer,
        )
    return abs(number)


def _parse_number(value: float | Decimal, pointer: str) -> Decimal:
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise Unacceptable(
            "A quantity is a finite number.", code="quantity.not_finite", pointer=pointer
        )
    if abs(number) >= LIMIT:
        return number
    with localcontext(prec=60):
        return number.quantize(_QUANTUM, rounding=ROUND_HALF_EVEN)


def _split_text(text: str, pointer: str) -> tuple[str, str]:
    """The digits and the suffix of a quantity."""
    match = _NUMBER.fullmatch(text)
    if match and match[2] in _SUFFIXES:
        return match[1], match[2]
    if _EXPONENT.fullmatch(text):
        return text, ""
    raise Unacceptable(
        f'"{text[:40]}" is not a quantity; write a decimal such as "0.25" or a Kubernetes quantity'
        ' such as "250m" or "500Mi".',
        code="quantity.syntax",
        pointer=pointer,
    )


def _parse_text(text: str, unit: str, pointer: str) -> Decimal:
    digits, suffix = _split_text(text, pointer)
    number = Decimal(digits)
    if suffix:
        size = _unit_size(unit, suffix, text, pointer)
        number = _WIDE.divide(_WIDE.multiply(number, _SUFFIXES[suffix]), size)
    if number.copy_abs() >= LIMIT:
        return number
    rounded = number.quantize(_QUANTUM, rounding=ROUND_HALF_EVEN, context=_WIDE)
    if rounded != number:
        raise Unacceptable(
            f'"{text[:40]}" has more than {FRACTIONAL_DIGITS} fractional digits'
            + (f" in {unit}." if unit else "."),
            code="quantity.precision",
            pointer=pointer,
        )
    return rounded


def _unit_size(unit: str, suffix: str, text: str, pointer: str) -> Decimal:
    if unit in _BYTES:
        return _BYTES[unit]
    if unit in _COUNTS:
        return Decimal(1)
    raise Unacceptable(
        f'"{text[:40]}": the suffix {suffix} cannot be converted to the unit "{unit}"; write the number'
        " of units.",
        code="quantity.unit",
        pointer=pointer,
    )


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", list: "an array", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def vector_from(value: object, resources: Sequence[Resource], *, pointer: str) -> list[Decimal]:
    """The vector, in the order of `resources`, of an object keyed by resource names.

    Raises `Unacceptable` naming every entry that is wrong: an unknown resource, a bad quantity.
    """
    if not isinstance(value, Mapping):
        raise Unacceptable(
            f"Quantities are an object keyed by resource names, not {_kind(value)}.",
            code="vector.type",
            pointer=pointer,
        )
    position = {resource.name: index for index, resource in enumerate(resources)}
    vector = [Decimal(0)] * len(resources)
    errors: list[FieldError] = []
    for name, quantity in value.items():
        where = f"{pointer}/{pointer_token(name)}"
        if name not in position:
            known = ", ".join(position) or "none"
            errors.append(
                FieldError(
                    where,
                    "resource.unknown",
                    f'The pool has no resource "{name[:80]}"; it has: {known}.',
                )
            )
            continue
        try:
            index = position[name]
            vector[index] = parse_quantity(quantity, resources[index].unit, pointer=where)
        except Unacceptable as error:
            errors.extend(error.errors)
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors)
    return vector


def vector_to_document(vector: Sequence[Decimal], resources: Sequence[Resource]) -> dict[str, Any]:
    """The quantities as JSON numbers keyed by resource, every resource of the pool named."""
    return {
        resource.name: json_number(vector[index]) if index < len(vector) else 0
        for index, resource in enumerate(resources)
    }


def json_number(value: Decimal) -> int | float:
    """The decimal as a JSON number: whole numbers without a fraction."""
    whole = int(value)
    return whole if whole == value else float(value)


def decimal_text(value: Decimal) -> str:
    """The shortest plain decimal notation, without exponent and trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def pointer_token(name: str) -> str:
    """A name as a token of a JSON pointer (RFC 6901)."""
    return name[:200].replace("~", "~0").replace("/", "~1")
