"""Fields that several parts of an evaluation document have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from policies.fields import Document, IntegerField, Schema, StringField, mistake

MAX_WHOLE = 2**53 - 1


class WholeField(IntegerField):
    """Whole number that a double holds.

    ``2.0`` is one too, since JSON may have passed through a double.
    """

    def read(self, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is int and self.minimum <= value <= self.maximum:
            return value
        if type(value) is int and abs(value) > MAX_WHOLE:
            raise mistake("number.too_large", "Expected a whole number below 2^53.")
        return super().read(value)


class NameField(StringField):
    """Name, which is any text that is not empty."""

    def __init__(self, code: str, **options: Any) -> None:
        super().__init__(**options)
        self.code = code

    def read(self, value: Any) -> str:
        name = value if type(value) is str else super().read(value)
        if not name:
            raise mistake(self.code, "Expected a name that is not empty.")
        return name

    def read_column(self, values: Sequence[Any]) -> list[Any]:
        if set(map(type, values)) <= {str} and all(values):
            return list(values)
        return super().read_column(values)

    def describe(self) -> Schema:
        return {"type": "string", "minLength": 1}


class ReferenceField(StringField):
    """The name of one of the document's objects, read as its index."""

    kind: ClassVar[str]

    def __init__(self, known: Mapping[str, int] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.known = known

    def read(self, value: Any) -> Any:
        name = value if type(value) is str else super().read(value)
        if self.known is None:
            return -1
        index = self.known.get(name)
        if index is None:
            raise mistake(f"{self.kind}.unknown", f'There is no {self.kind} "{name[:80]}".')
        return index

    def read_column(self, values: Sequence[Any]) -> list[Any]:
        if self.known is not None and set(map(type, values)) <= {str}:
            indices = list(map(self.known.get, values))
            if None not in indices:
                return indices
        return super().read_column(values)


class TenantField(ReferenceField):
    """The name of one of the tenants."""

    kind = "tenant"


class GroupField(ReferenceField):
    """The name of one of the groups."""

    kind = "group"


def dates_refused(kind: str) -> dict[str, tuple[str, str]]:
    """Return the code and detail for each date of an amount, which an evaluation cannot have."""
    reason = "an evaluation is of one instant. State the amounts in force at that instant."
    return {
        name: (f"{kind}.interval", f'"{name}" cannot be given here: {reason}')
        for name in ("from", "to")
    }


class Part(Document):
    """A part of an evaluation document."""

    missing_code = "field.missing"
