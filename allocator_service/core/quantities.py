"""Quantities of countable resources, as exact decimals and as vectors.

`policies.fields` defines quantities. A vector lists them in the order of the pool's resources. Omitted
entries at its end are 0.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from allocator_service.core.errors import FieldError, Unacceptable, refusal
from policies.fields import (
    FRACTIONAL_DIGITS,
    LIMIT,
    Mistakes,
    bytes_in,
    is_count,
    json_type,
    kubernetes_quantity_from,
    quantity_from,
)
from policies.fields import escaped as pointer_token

__all__ = [
    "EXACT_DIGITS",
    "FRACTIONAL_DIGITS",
    "LIMIT",
    "Resource",
    "bytes_in",
    "decimal_text",
    "is_count",
    "json_number",
    "parse_kubernetes",
    "parse_quantity",
    "plain_decimal",
    "pointer_token",
    "vector_from",
    "vector_to_document",
]

# Bounded: an exponent can make a decimal that no arithmetic takes, or a text that fills the memory.
_PLAIN = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?", re.ASCII)
EXACT_DIGITS = 120
"""Digits of the decimal contexts in which sums of quantities × time × prices are exact."""


@dataclass(frozen=True)
class Resource:
    """A countable resource of a pool, with the unit of its quantities."""

    name: str
    unit: str = ""


def parse_quantity(value: object, unit: str = "", *, pointer: str = "") -> Decimal:
    """Return the exact decimal that a client's `value` stands for, in `unit`.

    Raises `Unacceptable` with `quantity.*` codes, as `policies.fields.quantity_from` has them.
    """
    try:
        return quantity_from(value, unit)
    except Mistakes as wrong:
        raise refusal(wrong.found, pointer) from None


def parse_kubernetes(value: object, unit: str, *, rounding: str, pointer: str = "") -> Decimal:
    """Return the exact decimal of a quantity in Kubernetes' notation, whose plain numbers are bytes."""
    try:
        return kubernetes_quantity_from(value, unit, rounding=rounding)
    except Mistakes as wrong:
        raise refusal(wrong.found, pointer) from None


def vector_from(value: object, resources: Sequence[Resource], *, pointer: str) -> list[Decimal]:
    """Return the vector, in the order of `resources`, of an object keyed by resource names.

    Raises `Unacceptable` for all wrong entries at once: unknown resources and bad quantities.
    """
    if not isinstance(value, Mapping):
        raise Unacceptable(
            f"Expected an object of quantities by resource name, not {json_type(value)}.",
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
    """Return the quantities as JSON numbers keyed by resource, with every resource of the pool."""
    return {
        resource.name: json_number(vector[index]) if index < len(vector) else 0
        for index, resource in enumerate(resources)
    }


def json_number(value: Decimal) -> int | float:
    """Return the decimal as a JSON number, without a fraction if it is whole."""
    whole = int(value)
    return whole if whole == value else float(value)


def plain_decimal(text: str) -> Decimal | None:
    """Return the decimal of a text of plain digits, otherwise None."""
    return Decimal(text) if _PLAIN.fullmatch(text) else None


def decimal_text(value: Decimal) -> str:
    """Return the shortest plain decimal notation, without exponent and trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
