"""Quantities of resources as JSON numbers, decimal strings or Kubernetes quantities.

A quantity is at least 0 and below 10¹². A text (`"0.25"`, `"250m"`, `"500Mi"`) has at most 12
fractional digits in the resource's unit; an exact number with more is rounded to 12.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from policies.errors import Mistake
from policies.fields.kinds import Field, ObjectField, Schema
from policies.fields.mistakes import Mistakes, escaped, mistake

FRACTIONAL_DIGITS = 12
LIMIT = Decimal(10) ** 12
MAX_TEXT = 50
_LIMIT = float(LIMIT)
_QUANTUM = Decimal(1).scaleb(-FRACTIONAL_DIGITS)
_WIDE = Context(prec=90)
_NUMBER = re.compile(
    r"([+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?|[+-]?\.[0-9]{1,40})([a-zA-Z]{0,2})", re.ASCII
)
_EXPONENT = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})[eE][+-]?[0-9]{1,3}", re.ASCII
)
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?", re.ASCII)
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
_QUANTITY: Schema = {
    "oneOf": [{"type": "number", "minimum": 0}, {"type": "string", "maxLength": MAX_TEXT}]
}


def checked_quantity(value: object) -> int | float | Decimal | str:
    """Return the value if it may be a quantity in some unit.

    It must be a short text, or a number of at least 0.

    Raises:
        Mistakes: ``quantity.type``, ``quantity.syntax`` or ``quantity.negative``.
    """
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise _no_quantity(value)
        return value
    # A bool is an int in Python, and true would count as 1.
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise mistake(
            "quantity.type",
            "Expected a number, a decimal string or a Kubernetes quantity, not"
            f" {json_type(value)}.",
        )
    # Ordering a decimal NaN raises InvalidOperation; it is refused as not finite later.
    if not (isinstance(value, Decimal) and value.is_nan()) and value < 0:
        raise _negative(value)
    return value


def quantity_from(value: object, unit: str = "") -> Decimal:
    """Return the exact decimal that a client's ``value`` stands for, in ``unit``.

    Raises:
        Mistakes: ``quantity.*``: wrong type, not a number, negative, 10¹² or more, more than 12
            fractional digits in a text, or a suffix that the unit has no conversion for.
    """
    value = checked_quantity(value)
    if isinstance(value, str):
        number = _text(value, unit)
    else:
        # By its shortest text: Decimal(0.1) has 55 digits, which no client meant.
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if not number.is_finite():
            raise mistake("quantity.not_finite", "Expected a finite number.")
        # Larger ones could have more digits than the context, in which quantize would fail.
        if abs(number) < LIMIT:
            number = number.quantize(_QUANTUM, rounding=ROUND_HALF_EVEN, context=_WIDE)
    return _bounded(number, value)


def kubernetes_quantity_from(value: object, unit: str, *, rounding: str) -> Decimal:
    """Return a quantity in ``unit`` as a decimal, with Kubernetes' own meaning.

    Without a suffix a unit of bytes is counted in bytes. A quantity with more than 12 fractional
    digits (``"32829300Ki"`` has 18 in GiB) is rounded there by ``rounding`` of the decimal module.
    That is less than a hundredth of a byte of a GiB. Raises Mistakes as :func:`quantity_from` does.
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise mistake(
            "quantity.type",
            f"Expected a text or a number that is a Kubernetes quantity, not {json_type(value)}.",
        )
    digits, suffix = _split(str(value))
    size = _unit_size(unit, suffix, str(value)) if suffix else _BYTES.get(unit, Decimal(1))
    number = _WIDE.divide(_WIDE.multiply(Decimal(digits), _SUFFIXES[suffix]), size)
    if abs(number) < LIMIT:
        number = number.quantize(_QUANTUM, rounding=rounding, context=_WIDE)
    return _bounded(number, value)


def _bounded(number: Decimal, value: object) -> Decimal:
    if number.is_signed() and number != 0:
        raise _negative(value)
    if number >= LIMIT:
        raise mistake(
            "quantity.too_large",
            f"A quantity is below 10^12; choose a larger unit for {str(value)[:40]}.",
        )
    # Without the sign of -0.
    return abs(number)


def _negative(value: object) -> Mistakes:
    return mistake("quantity.negative", f"A quantity is at least 0; {value} is negative.")


def _split(text: str) -> tuple[str, str]:
    """Return the digits and the suffix of a quantity."""
    match = _NUMBER.fullmatch(text)
    if match and match[2] in _SUFFIXES:
        return match[1], match[2]
    if _EXPONENT.fullmatch(text):
        return text, ""
    raise _no_quantity(text)


def _no_quantity(text: str) -> Mistakes:
    return mistake(
        "quantity.syntax",
        f'"{text[:40]}" is not a quantity; write a decimal such as "0.25" or a Kubernetes quantity'
        f' such as "250m" or "500Mi", of at most {MAX_TEXT} characters.',
    )


def _text(text: str, unit: str) -> Decimal:
    digits, suffix = _split(text)
    number = Decimal(digits)
    if suffix:
        size = _unit_size(unit, suffix, text)
        number = _WIDE.divide(_WIDE.multiply(number, _SUFFIXES[suffix]), size)
    if number.copy_abs() >= LIMIT:
        return number
    rounded = number.quantize(_QUANTUM, rounding=ROUND_HALF_EVEN, context=_WIDE)
    # Digits of a text are meant, unlike the last ones of a float.
    if rounded != number:
        raise mistake(
            "quantity.precision",
            f'"{text[:40]}" has more than {FRACTIONAL_DIGITS} fractional digits'
            + (f" in {unit}." if unit else "."),
        )
    return rounded


def _unit_size(unit: str, suffix: str, text: str) -> Decimal:
    if unit in _BYTES:
        return _BYTES[unit]
    if unit in _COUNTS:
        return Decimal(1)
    raise mistake(
        "quantity.unit",
        f'"{text[:40]}": the suffix {suffix} cannot be converted to the unit "{unit}"; write the number'
        " of units.",
    )


def bytes_in(unit: str) -> Decimal | None:
    """Return the number of bytes in a unit, or None for a unit that does not count bytes."""
    return _BYTES.get(unit)


def is_count(unit: str) -> bool:
    """Return whether a unit counts single things, such as cores, devices, or without a name."""
    return unit in _COUNTS


def json_type(value: object) -> str:
    """Return the JSON name of a value's type, with its article."""
    names = {type(None): "null", bool: "a boolean", list: "an array", dict: "an object"}
    return names.get(type(value), type(value).__name__)


class QuantityField(Field):
    """One quantity, as a double in ``unit``."""

    type_name = "a number, a decimal string or a Kubernetes quantity"

    def __init__(self, *, unit: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.unit = unit

    def read(self, value: Any) -> Any:
        kind = type(value)
        # The usual case, without the slower way through decimals.
        if (kind is float or kind is int) and 0 <= value < _LIMIT:
            return float(value)
        return float(quantity_from(value, self.unit))

    def describe(self) -> Schema:
        return dict(_QUANTITY)


class RealField(Field):
    """A number or decimal string of any precision, as a double.

    Args:
        what: the first part of the codes ``<what>.not_a_number`` and ``<what>.too_large``.
        code, expected: of a number that is not finite or is out of its bounds.
        minimum, maximum, above: bounds; ``above`` is not in itself.
    """

    type_name = "a number or a decimal string"

    def __init__(
        self,
        what: str,
        *,
        code: str,
        expected: str,
        minimum: float = float("-inf"),
        maximum: float = float("inf"),
        above: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.what, self.code, self.expected = what, code, expected
        self.minimum, self.maximum, self.above = minimum, maximum, above

    def read(self, value: Any) -> float:
        if isinstance(value, str):
            if not _DECIMAL.fullmatch(value):
                raise mistake(
                    f"{self.what}.not_a_number", f'"{value[:40]}" is not a decimal number.'
                )
        elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise self.wrong_type()
        try:
            number = float(value)
        except OverflowError as error:
            raise mistake(
                f"{self.what}.too_large", f"Expected {self.expected}, no larger than a double."
            ) from error
        if not self._is_within_bounds(number):
            raise mistake(self.code, f"Expected {self.expected}, not {number:g}.")
        return number

    def read_column(self, values: Sequence[Any]) -> list[Any]:
        if set(map(type, values)) <= {float} and all(map(self._is_within_bounds, values)):
            return list(values)
        return super().read_column(values)

    def _is_within_bounds(self, number: float) -> bool:
        finite = float("-inf") < number < float("inf")
        above = self.above is None or number > self.above
        return finite and above and self.minimum <= number <= self.maximum

    def describe(self) -> Schema:
        number: Schema = {"type": "number"}
        if self.minimum > float("-inf"):
            number["minimum"] = self.minimum
        if self.maximum < float("inf"):
            number["maximum"] = self.maximum
        if self.above is not None:
            number["exclusiveMinimum"] = self.above
        return {"oneOf": [number, {"type": "string", "pattern": f"^{_DECIMAL.pattern}$"}]}


class QuantitiesField(ObjectField):
    """Quantities keyed by resource, read as an object while the resources are not known."""

    type_name = "an object of quantities keyed by resource"

    def read(self, value: Any) -> Any:
        quantities = super().read(value)
        wrong: list[Mistake] = []
        for name, quantity in quantities.items():
            try:
                checked_quantity(quantity)
            except Mistakes as mistakes:
                wrong += mistakes.under(name)
        if wrong:
            raise Mistakes(wrong)
        return quantities

    def describe(self) -> Schema:
        return {
            "type": "object",
            "additionalProperties": dict(_QUANTITY),
            "examples": [{"cpu": 2, "memory": "4Gi"}],
        }


class AmountsField(QuantitiesField):
    """Amounts keyed by resource, as doubles in the order of the resources.

    Args:
        unknown: the code of a name that is no resource.
        zero: the code of nothing but zeros, where that is a mistake.
        empty: the code of an object without a resource, where that is a mistake.
        each: what an amount is, where it is no quantity.
        unnamed: the amount of resources that are not named.
    """

    def __init__(
        self,
        *,
        unknown: str,
        zero: str = "",
        empty: str = "",
        each: Field | None = None,
        unnamed: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.unknown, self.zero, self.empty, self.each = unknown, zero, empty, each
        self.unnamed = unnamed
        self._resources: Mapping[str, Field] | None = None
        self._unnamed: dict[str, float] = {}

    def within(self, units: Mapping[str, str] | None) -> AmountsField:
        """Return the field for resources with these units, in their order.

        The units are None if they are not known.
        """
        bound = copy(self)
        if units is not None:
            bound._resources = {
                name: self.each or QuantityField(unit=unit) for name, unit in units.items()
            }
            bound._unnamed = dict.fromkeys(units, self.unnamed)
        return bound

    def read(self, value: Any) -> tuple[float, ...]:
        amounts = value if type(value) is dict else super().read(value)
        # The mistake in the resources is reported already, and without them no amount can be
        # judged.
        if self._resources is None:
            return ()
        read = self._unnamed.copy()
        found: list[Mistake] = []
        for name, amount in amounts.items():
            field = self._resources.get(name)
            if field is None:
                known = ", ".join(self._resources)
                detail = f'There is no resource "{str(name)[:80]}"; there are: {known}.'
                found.append(Mistake(f"/{escaped(name)}", self.unknown, detail))
                continue
            try:
                read[name] = field.read(amount)
            except Mistakes as wrong:
                found += wrong.under(name)
        if found:
            raise Mistakes(found)
        if self.empty and not amounts:
            raise mistake(self.empty, "Expected at least one resource.")
        if self.zero and not any(read.values()):
            raise mistake(self.zero, "Expected at least one amount above 0.")
        return tuple(read.values())

    def read_column(self, values: Sequence[Any]) -> list[Any]:
        resources = self._resources
        # Plain numbers of known resources, which are nearly all of 10^5 demands.
        if (
            resources is None
            or self.each is not None
            or self.empty
            or set(map(type, values)) != {dict}
            or not set().union(*values) <= resources.keys()
        ):
            return super().read_column(values)
        columns = [[value.get(name, self.unnamed) for value in values] for name in resources]
        for column in columns:
            if not set(map(type, column)) <= {int, float} or not all(
                0 <= amount < _LIMIT for amount in column
            ):
                return super().read_column(values)
        rows = list(zip(*(map(float, column) for column in columns), strict=True))
        return super().read_column(values) if self.zero and not all(map(any, rows)) else rows

    def describe(self) -> Schema:
        if self.each is None:
            return super().describe()
        return {"type": "object", "additionalProperties": self.each.describe()}
