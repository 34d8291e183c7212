"""Fields of forms with a name and a value on each line."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, Generic, TypeVar

from django import forms
from django.core.exceptions import ValidationError

from allocator_service.core.quantities import decimal_text

_QUOTED = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*', re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_SHOWN = 40  # characters of a name in an error
_LONGEST_NUMBER = 40

V = TypeVar("V")


class ValueLinesField(forms.CharField, Generic[V]):
    """Values by name, one on each line. Subclasses read and write a value."""

    example = "name=value"

    def __init__(self, **kwargs: Any) -> None:
        widget = forms.Textarea(attrs={"rows": 4, "cols": 60, "spellcheck": "false"})
        super().__init__(**{"required": False, "widget": widget, **kwargs})

    def prepare_value(self, value: Any) -> Any:
        return self.text_of(value) if isinstance(value, Mapping) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return self.text_of(initial or {}) != self.text_of(self.to_python(data))
        except ValidationError:
            return True

    def to_python(self, value: Any) -> dict[str, Any]:  # type: ignore[override]
        text = super().to_python(value) or ""
        # Other characters that end lines are refused as parts of a name or a value.
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        values: dict[str, V] = {}
        errors = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                name, read = self._read_line(line)
            except ValidationError as error:
                errors += [f"Line {number}: {message}" for message in error.messages]
                continue
            if name in values:
                errors.append(f"Line {number}: the name “{short(name)}” is used twice.")
            values[name] = read
        if errors:
            raise ValidationError(errors)
        return self.document_of(values)

    def text_of(self, document: Mapping[str, Any]) -> str:
        """Return values as `to_python` reads them."""
        return "\n".join(
            f"{written(name, '=')}={self.value_text(value)}"
            for name, value in self.values_of(document)
        )

    def document_of(self, values: dict[str, V]) -> dict[str, Any]:
        """Return the values of all lines as they are stored."""
        return values

    def values_of(self, document: Mapping[str, Any]) -> Iterable[tuple[str, V]]:
        """Return the names and values of the lines of a stored document."""
        return document.items()

    def value_of(self, text: str) -> V:
        raise NotImplementedError

    def value_text(self, value: V) -> str:
        raise NotImplementedError

    def refuse(self, name: str, value: V) -> None:
        """Raise `ValidationError` for a line that is not accepted."""
        raise NotImplementedError

    def _read_line(self, line: str) -> tuple[str, V]:
        before, end = text_before("=", line, 0)
        if end == len(line):
            raise ValidationError(f"expected {self.example}, got “{short(line)}”.")
        name, value = unquoted(before), self.value_of(line[end + 1 :].strip())
        if not name:
            expected = self.example.partition(",")[0]
            raise ValidationError(f"the name before “=” is empty. Expected {expected}.")
        self.refuse(name, value)
        return name, value


class NumberLinesField(ValueLinesField[int | float]):
    """Numbers by name, one on each line.

    `nested` ones have names of two parts, such as physics.cpu, and are stored as objects by the first
    part. `refuse_number` raises `ValidationError` for a number that is not accepted.
    """

    def __init__(
        self,
        *,
        refuse_number: Callable[[float], None],
        example: str,
        nested: bool = False,
        **kwargs: Any,
    ) -> None:
        self.example, self._nested, self._refuse_number = example, nested, refuse_number
        super().__init__(**kwargs)

    def document_of(self, values: dict[str, int | float]) -> dict[str, Any]:
        if not self._nested:
            return values
        document: dict[str, Any] = {}
        for name, value in values.items():
            first, _, rest = name.partition(".")
            document.setdefault(first, {})[rest] = value
        return document

    def values_of(self, document: Mapping[str, Any]) -> Iterable[tuple[str, int | float]]:
        if not self._nested:
            return document.items()
        return [
            (f"{first}.{rest}", value)
            for first, row in document.items()
            for rest, value in row.items()
        ]

    def value_of(self, text: str) -> int | float:
        if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_NUMBER:
            raise ValidationError(f"expected a number after “=”, got “{short(text)}”.")
        number = float(text)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number

    def value_text(self, value: int | float) -> str:
        return number_text(value)

    def refuse(self, name: str, value: int | float) -> None:
        first, _, rest = name.partition(".")
        if self._nested and not (first and rest):
            raise ValidationError(f"expected {self.example}, got the name “{short(name)}”.")
        self._refuse_number(value)


def number_text(number: float) -> str:
    """Return a number exactly, without an exponent."""
    exact = isinstance(number, float) and isfinite(number)
    return decimal_text(Decimal(repr(number))) if exact else str(number)


def text_before(separator: str, text: str, start: int) -> tuple[str, int]:
    """Return the text before a separator outside of quotes, with the place where it ends."""
    quoted = _QUOTED.match(text, start)
    if quoted and text[quoted.end() : quoted.end() + 1] in (separator, ""):
        return quoted[1], quoted.end()
    end = text.find(separator, start)
    end = len(text) if end < 0 else end
    return text[start:end].strip(), end


def unquoted(text: str) -> str:
    """Return a name or a value without its quotes."""
    if not text.startswith('"'):
        return text
    try:
        read = str(json.loads(text, strict=False))
        read.encode()  # escapes can write halves of characters
    except ValueError as error:
        raise ValidationError(
            f'expected a text between double quotes, such as "a=b", got “{short(text)}”.'
        ) from error
    return read


def written(text: str, separator: str) -> str:
    """Return a name or a value, in quotes where it would be read as something else."""
    if text.strip() == text and not text.startswith('"') and not (separator and separator in text):
        return text
    return json.dumps(text, ensure_ascii=False)


def short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
