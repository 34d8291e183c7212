"""Fields that read a value as it is, never as what it might have meant, and describe themselves.

DRF's own fields turn `"1_000"` into 1000, `1.0` into 1 and `"yes"` into true; these refuse. A field
raises `Unacceptable` with a pointer to the value.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from rest_framework import serializers

from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import Unacceptable
from allocator_service.tenants.models import SLUG_PATTERN

if TYPE_CHECKING:
    _Field = serializers.Field[Any, Any, Any, Any]
else:
    _Field = serializers.Field

Schema = dict[str, Any]

_SLUG = re.compile(SLUG_PATTERN, re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_INTEGER = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,12})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


class StrictField(_Field):
    """A field that reads JSON values (`read`) and, where it can, the text of a cell or parameter."""

    type_name: ClassVar[str] = "value"

    def read(self, value: Any, pointer: str) -> Any:
        raise NotImplementedError

    def read_text(self, text: str, pointer: str) -> Any:
        return self.read(text, pointer)

    def describe(self) -> Schema:
        """The JSON Schema of what the field reads."""
        raise NotImplementedError

    def to_internal_value(self, data: Any) -> Any:
        return self.read(data, "")

    def to_representation(self, value: Any) -> Any:
        return value

    def wrong_type(self, pointer: str) -> Unacceptable:
        return Unacceptable(f"This is {self.type_name}.", code="field.type", pointer=pointer)


class BooleanField(StrictField):
    type_name = "true or false"

    def read(self, value: Any, pointer: str) -> bool:
        if not isinstance(value, bool):
            raise self.wrong_type(pointer)
        return value

    def read_text(self, text: str, pointer: str) -> bool:
        if text not in ("true", "false"):
            raise self.wrong_type(pointer)
        return text == "true"

    def describe(self) -> Schema:
        return {"type": "boolean"}


class IntegerField(StrictField):
    type_name = "a whole number, written without a fraction"

    def __init__(self, *, minimum: int, maximum: int, **options: Any) -> None:
        super().__init__(**options)
        self.minimum, self.maximum = minimum, maximum

    def read(self, value: Any, pointer: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong_type(pointer)
        if not self.minimum <= value <= self.maximum:
            raise Unacceptable(
                f"This is a whole number from {self.minimum} to {self.maximum}.",
                code="field.range",
                pointer=pointer,
            )
        return value

    def read_text(self, text: str, pointer: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise self.wrong_type(pointer)
        return self.read(int(text), pointer)

    def describe(self) -> Schema:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


class NumberField(StrictField):
    """Any finite number; JSON's own, not a text."""

    type_name = "a number"

    def read(self, value: Any, pointer: str) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self.wrong_type(pointer)
        return Decimal(value)

    def describe(self) -> Schema:
        return {"type": "number"}


class TextField(StrictField):
    """One line of text, without blanks at its ends."""

    type_name = "a text"

    def __init__(self, *, max_length: int, blank: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.max_length, self.blank = max_length, blank

    def read(self, value: Any, pointer: str) -> str:
        if not isinstance(value, str):
            raise self.wrong_type(pointer)
        if not value and not self.blank:
            raise Unacceptable("This may not be empty.", code="field.blank", pointer=pointer)
        if len(value) > self.max_length:
            raise Unacceptable(
                f"This has at most {self.max_length} characters.",
                code="field.length",
                pointer=pointer,
            )
        if value != value.strip() or _CONTROL.search(value):
            raise Unacceptable(
                "This is one line without blanks at its ends.", code="field.text", pointer=pointer
            )
        return value

    def describe(self) -> Schema:
        return {
            "type": "string",
            "minLength": 0 if self.blank else 1,
            "maxLength": self.max_length,
        }


class SlugField(StrictField):
    type_name = "a text"

    def read(self, value: Any, pointer: str) -> str:
        if not isinstance(value, str):
            raise self.wrong_type(pointer)
        if not is_slug(value):
            raise Unacceptable(
                "A slug is 1 to 63 lower-case letters, digits and hyphens, no hyphen at the ends.",
                code="slug.syntax",
                pointer=pointer,
            )
        return value

    def describe(self) -> Schema:
        return {"type": "string", "pattern": SLUG_PATTERN}


class PatternField(StrictField):
    """A text that a regular expression describes."""

    type_name = "a text"

    def __init__(self, *, pattern: str, code: str, **options: Any) -> None:
        super().__init__(**options)
        self.pattern, self.code = pattern, code

    def read(self, value: Any, pointer: str) -> str:
        if not isinstance(value, str):
            raise self.wrong_type(pointer)
        # `$` would also match before a line's end.
        if not re.fullmatch(self.pattern.removeprefix("^").removesuffix("$"), value, re.ASCII):
            raise Unacceptable(f"This matches {self.pattern}.", code=self.code, pointer=pointer)
        return value

    def describe(self) -> Schema:
        return {"type": "string", "pattern": self.pattern}


class ChoiceField(StrictField):
    type_name = "a text"

    def __init__(self, *, choices: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self.choices = list(choices)

    def read(self, value: Any, pointer: str) -> str:
        if not isinstance(value, str):
            raise self.wrong_type(pointer)
        if value not in self.choices:
            raise Unacceptable(
                f"This is one of: {', '.join(self.choices)}.", code="field.choice", pointer=pointer
            )
        return value

    def describe(self) -> Schema:
        return {"type": "string", "enum": self.choices}


class TimestampField(StrictField):
    """An instant as RFC 3339 writes it, with its offset."""

    type_name = "a timestamp such as 2026-01-05T00:00:00Z"

    def read(self, value: Any, pointer: str) -> datetime:
        if not isinstance(value, str):
            raise self.wrong_type(pointer)
        try:
            if _TIMESTAMP.fullmatch(value):
                return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # it has the form of a timestamp, and there is no such day or hour
        raise Unacceptable(
            "A timestamp is written as in RFC 3339, with its offset: 2026-01-05T00:00:00Z.",
            code="timestamp.syntax",
            pointer=pointer,
        )

    def describe(self) -> Schema:
        return {"type": "string", "format": "date-time"}


class IdField(StrictField):
    type_name = "an id"

    def read(self, value: Any, pointer: str) -> UUID:
        found = uuid_or_none(value) if isinstance(value, str) else None
        if found is None:
            raise self.wrong_type(pointer)
        return found

    def describe(self) -> Schema:
        return {"type": "string", "format": "uuid"}


class DurationField(StrictField):
    type_name = "a duration such as P7D"

    def read(self, value: Any, pointer: str) -> str:
        parse_duration(value, pointer=pointer)
        return str(value)

    def describe(self) -> Schema:
        return {
            "type": "string",
            "pattern": r"^P(?=.)(\d{1,4}Y)?(\d{1,5}M)?(\d{1,5}W)?(\d{1,6}D)?"
            r"(T(?=.)(\d{1,7}H)?(\d{1,9}M)?(\d{1,10}S)?)?$",
            "examples": ["P7D"],
        }


def is_slug(text: str) -> bool:
    """Whether the text may be the name of a pool or tenant."""
    return _SLUG.fullmatch(text) is not None


def uuid_or_none(text: str) -> UUID | None:
    """The id that a text is in its canonical spelling; None for any other text."""
    return UUID(text) if _UUID.fullmatch(text) else None
