"""Fields of documents, which read a value as it is and guess nothing.

``true`` is not a number, ``1.0`` is an integer only for fields that allow it, ``"1_000"`` is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from decimal import Decimal
from typing import Any, ClassVar

from policies.fields.mistakes import Mistakes, mistake
from policies.fields.sources import Source

Schema = dict[str, Any]

_ABSENT: Any = object()
_INTEGER = re.compile(r"-?[0-9]{1,40}", re.ASCII)
# Ends of lines, other controls, and those that turn the direction of what follows: a name that holds
# one reads as another name.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def is_one_line(text: str) -> bool:
    """Return whether a text is one line.

    It has no blanks at its ends, control characters or changes of direction.
    """
    return text == text.strip() and not _CONTROL.search(text)


def is_object(value: Any) -> bool:
    """Return whether a value is a JSON object.

    Dictionaries, the usual case, are recognised without the slower abstract class.
    """
    return type(value) is dict or isinstance(value, Mapping)


class Field:
    """One value of a document.

    Args:
        required: whether the document must have it; not if there is a default.
        default: what a document without it means, or a function that makes it; else None.
        allow_null: whether null is a value of its own.
        missing_code, type_code: of the mistakes that it is not there and that it is of another
            type, if they are not those of other fields.
        description, examples: for readers of the schema.
        source: where :meth:`Document.write` finds the value, by default an attribute of the field's
            own name.
        writable: whether requests have the field too; as a mapping, the options that differ there;
            as a field, the one that they have instead.
    """

    type_name: ClassVar[str] = "a value"

    def __init__(
        self,
        *,
        required: bool | None = None,
        default: Any = _ABSENT,
        allow_null: bool = False,
        missing_code: str = "",
        type_code: str = "field.type",
        description: str = "",
        examples: Sequence[Any] = (),
        source: Source = "",
        writable: bool | Mapping[str, Any] | Field = False,
    ) -> None:
        self.has_default = default is not _ABSENT
        self.required = (not self.has_default) if required is None else required
        self.default = default if self.has_default else None
        self.allow_null, self.description = allow_null, description
        self.missing_code, self.type_code = missing_code, type_code
        self.examples = list(examples)
        self.source, self.writable = source, writable

    def in_requests(self) -> Field:
        """Return the field as requests declare it."""
        if isinstance(self.writable, Field):
            field = copy(self.writable)
            field.source = self.source
            return field
        field = copy(self)
        options = self.writable if isinstance(self.writable, Mapping) else {}
        for option, value in options.items():
            if not hasattr(field, option):
                raise TypeError(f"{type(self).__name__} has no option {option}.")
            setattr(field, option, value)
        if "default" in options:
            field.has_default, field.required = True, False
        return field

    def write(self, value: Any, context: Any) -> Any:  # noqa: ARG002
        """Return the JSON value of a stored value. `context` is what the document is written for."""
        return value

    def exact(self, value: Any, context: Any) -> Any:
        """Return what :meth:`read` reads back as the stored value, where an answer rounds it."""
        return self.write(value, context)

    def read(self, value: Any) -> Any:
        """Return the meaning of a JSON value. Raises Mistakes."""
        raise NotImplementedError

    def read_column(self, values: Sequence[Any]) -> list[Any]:
        """Return the meanings of many values. Raises Mistakes that do not name the value."""
        # Each once. Numbers of two types can be equal, such as 1 and True, and mean different things.
        if set(map(type, values)) in ({str}, {int}):
            meanings = {value: self.read(value) for value in set(values)}
            return [meanings[value] for value in values]
        return list(map(self.read, values))

    def read_text(self, text: str) -> Any:
        """Return the meaning of the text of a cell or of a query parameter. Raises Mistakes."""
        return self.read(text)

    def left_out(self) -> Any:
        """Return the value of a field that is absent."""
        return self.default() if callable(self.default) else self.default

    def describe(self) -> Schema:
        """Return the JSON Schema of the values that ``read`` accepts."""
        raise NotImplementedError

    def wrong_type(self) -> Mistakes:
        """Return the mistake of a value of another type."""
        return mistake(self.type_code, f"Expected {self.type_name}{self.or_null}.")

    @property
    def or_null(self) -> str:
        """The end of what is expected of a field that may be null."""
        return ", or null" if self.allow_null else ""

    def schema(self) -> Schema:
        """Return the JSON Schema of the field with its description, default and null if allowed."""
        schema = self.describe()
        if self.description:
            schema["description"] = self.description
        if self.examples:
            schema["examples"] = self.examples
        if self.has_default and not callable(self.default):
            default = self.default
            schema["default"] = int(default) if isinstance(default, Decimal) else default
        if not self.allow_null:
            return schema
        if "enum" in schema:
            return schema | {"type": ["string", "null"], "enum": [*schema["enum"], None]}
        if isinstance(schema.get("type"), str):
            return schema | {"type": [schema["type"], "null"]}
        return {"oneOf": [schema, {"type": "null"}]}


class BooleanField(Field):
    type_name = "true or false"

    def read(self, value: Any) -> bool:
        # By identity, because 1 == True.
        if value is not True and value is not False:
            raise self.wrong_type()
        return value

    def read_column(self, values: Sequence[Any]) -> list[Any]:
        return list(values) if set(map(type, values)) <= {bool} else super().read_column(values)

    def read_text(self, text: str) -> bool:
        return self.read({"true": True, "false": False}.get(text))

    def describe(self) -> Schema:
        return {"type": "boolean"}


class IntegerField(Field):
    type_name = "a whole number, written without a fraction"

    def __init__(
        self, *, minimum: int, maximum: int, code: str = "field.range", **options: Any
    ) -> None:
        super().__init__(**options)
        self.minimum, self.maximum, self.code = minimum, maximum, code

    def read(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong_type()
        if not self.minimum <= value <= self.maximum:
            raise mistake(
                self.code, f"Expected a whole number from {self.minimum} to {self.maximum}."
            )
        return value

    def read_text(self, text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise self.wrong_type()
        return self.read(int(text))

    def describe(self) -> Schema:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


class NumberField(Field):
    """Any finite JSON number."""

    type_name = "a number"

    def read(self, value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self.wrong_type()
        return Decimal(value)

    def describe(self) -> Schema:
        return {"type": "number"}


class StringField(Field):
    """Any text."""

    type_name = "a string"

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self.wrong_type()
        return value

    def describe(self) -> Schema:
        return {"type": "string"}


class TextField(StringField):
    """One line of text, without blanks at its ends."""

    def __init__(self, *, max_length: int, blank: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.max_length, self.blank = max_length, blank

    def read(self, value: Any) -> str:
        text = super().read(value)
        if not text and not self.blank:
            raise mistake("field.blank", "Expected a text that is not empty.")
        if len(text) > self.max_length:
            raise mistake("field.length", f"Expected at most {self.max_length} characters.")
        if not is_one_line(text):
            raise mistake(
                "field.text",
                "Expected one line without blanks at its ends or characters that control text.",
            )
        return text

    def describe(self) -> Schema:
        return {"type": "string", "minLength": 0 if self.blank else 1, "maxLength": self.max_length}


class PatternField(StringField):
    """A text that a regular expression describes.

    Args:
        expected: the expression in words, for errors.
    """

    def __init__(self, *, pattern: str, code: str, expected: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.pattern, self.code = pattern, code
        self.expected = expected or f"a text that matches {pattern}"
        # `$` would also match before a line's end.
        self._matches = re.compile(pattern.removeprefix("^").removesuffix("$"), re.ASCII).fullmatch

    def read(self, value: Any) -> str:
        text = super().read(value)
        if not self._matches(text):
            raise mistake(self.code, f"Expected {self.expected}.")
        return text

    def describe(self) -> Schema:
        return {"type": "string", "pattern": self.pattern}


class ChoiceField(StringField):
    """One of certain texts."""

    def __init__(
        self, *, choices: Sequence[str], code: str = "field.choice", **options: Any
    ) -> None:
        super().__init__(**options)
        self.choices, self.code = list(choices), code

    def read(self, value: Any) -> str:
        text = super().read(value)
        if text not in self.choices:
            raise mistake(self.code, f"Expected one of: {', '.join(self.choices)}{self.or_null}.")
        return text

    def describe(self) -> Schema:
        return {"type": "string", "enum": self.choices}


class ObjectField(Field):
    """Any object, whose members are not checked."""

    type_name = "an object"

    def read(self, value: Any) -> Any:
        if not is_object(value):
            raise self.wrong_type()
        return value

    def describe(self) -> Schema:
        return {"type": "object", "additionalProperties": True}


class AnyField(Field):
    """Any value, which is not checked."""

    def read(self, value: Any) -> Any:
        return value

    def describe(self) -> Schema:
        return {}


class OneOrMoreField(Field):
    """A value or an array of values.

    Args:
        as_list: whether a single value is read as an array too.
    """

    def __init__(
        self,
        item: Field,
        *,
        max_items: int | None = None,
        as_list: bool = False,
        code: str = "field.count",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.item, self.max_items, self.as_list, self.code = item, max_items, as_list, code

    def read(self, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            one = self.item.read(value)
            return [one] if self.as_list else one
        if not value or (self.max_items is not None and len(value) > self.max_items):
            most = "" if self.max_items is None else f" and at most {self.max_items}"
            raise mistake(self.code, f"Expected at least one value{most}.")
        # All mistakes at once, or a client would have to send the document again for each.
        read, found = [], []
        for index, item in enumerate(value):
            try:
                read.append(self.item.read(item))
            except Mistakes as wrong:
                found += wrong.under(index)
        if found:
            raise Mistakes(found)
        return read

    def describe(self) -> Schema:
        several: Schema = {"type": "array", "items": self.item.describe(), "minItems": 1}
        if self.max_items is not None:
            several["maxItems"] = self.max_items
        return {"oneOf": [self.item.describe(), several]}


class MapField(ObjectField):
    """An object with members of one kind.

    Args:
        names: reads the names of members, if not every name is allowed.
    """

    def __init__(
        self,
        values: Field,
        *,
        names: Field | None = None,
        max_items: int | None = None,
        code: str = "field.count",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.values, self.names, self.max_items, self.code = values, names, max_items, code

    def read(self, value: Any) -> dict[str, Any]:
        members = value if type(value) is dict else super().read(value)
        if self.max_items is not None and len(members) > self.max_items:
            raise mistake(self.code, f"Expected at most {self.max_items} members.")
        read, found = {}, []
        read_name = None if self.names is None else self.names.read
        read_value = self.values.read
        for name, member in members.items():
            try:
                read[name if read_name is None else read_name(name)] = read_value(member)
            except Mistakes as wrong:
                found += wrong.under(name)
        if found:
            raise Mistakes(found)
        return read

    def read_column(self, values: Sequence[Any]) -> list[Any]:
        # Most objects of a long column are empty, such as selectors of servers.
        if set(map(type, values)) <= {dict} and not any(values):
            return [{} for _ in values]
        return super().read_column(values)

    def in_requests(self) -> Field:
        field = super().in_requests()
        if isinstance(field, MapField):
            field.values = self.values.in_requests()
        return field

    def write(self, value: Any, context: Any) -> dict[str, Any]:
        return {name: self.values.write(member, context) for name, member in value.items()}

    def exact(self, value: Any, context: Any) -> dict[str, Any]:
        return {name: self.values.exact(member, context) for name, member in value.items()}

    def describe(self) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self.values.schema()}
        if self.names is not None:
            schema["propertyNames"] = {
                key: value for key, value in self.names.describe().items() if key != "type"
            }
        if self.max_items is not None:
            schema["maxProperties"] = self.max_items
        return schema
