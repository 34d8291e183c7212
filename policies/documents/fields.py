"""Reading the fields of documents: a value of the expected type, or an error that says where."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from policies.errors import ProblemError

DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?", re.ASCII)


def check_fields(
    item: Mapping[str, Any], pointer: str, *, required: Sequence[str], optional: Sequence[str] = ()
) -> None:
    """Refuse a document that lacks a required field or has one that is not known."""
    for name in required:
        if name not in item:
            raise ProblemError("field.missing", f"{name!r} is missing", f"{pointer}/{name}")
    for name in item:
        if name not in required and name not in optional:
            known = ", ".join((*required, *optional))
            raise ProblemError(
                "field.unknown",
                f"{name!r} is not known here; there are {known}",
                f"{pointer}/{escaped(name)}",
            )


def as_object(value: Any, pointer: str) -> Mapping[str, Any]:
    """The value as an object."""
    if not isinstance(value, Mapping):
        raise ProblemError("field.type", "this must be an object", pointer)
    return value


def as_list(value: Any, pointer: str) -> Sequence[Any]:
    """The value as an array."""
    if not isinstance(value, list | tuple):
        raise ProblemError("field.type", "this must be an array", pointer)
    return value


def as_text(value: Any, pointer: str) -> str:
    """The value as a string."""
    if not isinstance(value, str):
        raise ProblemError("field.type", "this must be a string", pointer)
    return value


def as_flag(value: Any, pointer: str) -> bool:
    """The value as true or false."""
    if not isinstance(value, bool):
        raise ProblemError("field.type", "this must be true or false", pointer)
    return value


def as_whole(value: Any, pointer: str) -> int:
    """The value as a whole number below 2^53."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProblemError("field.type", "this must be a whole number", pointer)
    if abs(value) >= 2**53:
        raise ProblemError(
            "number.too_large", f"{value} is too large; whole numbers stay below 2^53", pointer
        )
    return value


def as_number(value: Any, pointer: str, what: str) -> float:
    """A JSON number or decimal string; signs, NaN and infinities are refused by the problem."""
    if isinstance(value, str):
        if not DECIMAL.fullmatch(value.removeprefix("-")):
            raise ProblemError(
                f"{what}.not_a_number", f"{value!r} is not a decimal number", pointer
            )
        try:
            return float(Decimal(value))
        except (InvalidOperation, OverflowError) as error:
            raise ProblemError(
                f"{what}.not_a_number", f"{value!r} is not a decimal number", pointer
            ) from error
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ProblemError("field.type", "this must be a number or a decimal string", pointer)
    try:
        return float(value)
    except OverflowError as error:
        raise ProblemError(f"{what}.too_large", f"{what} is too large", pointer) from error


def as_amounts(value: Any, pointer: str, resources: Sequence[str], what: str) -> list[float]:
    """Amounts in the order of ``resources`` from an object keyed by their names; missing is 0."""
    amounts = as_object(value, pointer)
    for name in amounts:
        if name not in resources:
            raise ProblemError(
                f"{what}.unknown_resource",
                f"the pool has no resource {name!r}; it has {', '.join(resources)}",
                f"{pointer}/{escaped(name)}",
            )
    return [as_number(amounts.get(name, 0), f"{pointer}/{name}", what) for name in resources]


def escaped(name: str) -> str:
    """A name as a token of a JSON pointer (RFC 6901)."""
    return str(name).replace("~", "~0").replace("/", "~1")
