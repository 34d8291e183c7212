"""Fields that hold more than one value: objects, quantities, labels, selectors, arrays of texts."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import pointer_token
from api.fields import IdField, Schema, StrictField, TextField
from api.parsers import json_document


class ObjectField(StrictField):
    """Any object; what it may hold is for the domain to say."""

    type_name = "an object"

    def read(self, value: Any, pointer: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong_type(pointer)
        return value

    def read_text(self, text: str, pointer: str) -> dict[str, Any]:
        return self.read(_json_cell(text), pointer)

    def describe(self) -> Schema:
        return {"type": "object", "additionalProperties": True}


class TextsField(StrictField):
    """An array of texts, of certain ones if `choices` are given."""

    type_name = "an array of texts"

    def __init__(self, *, choices: Sequence[str] = (), **options: Any) -> None:
        super().__init__(**options)
        self.choices = list(choices)

    def describe(self) -> Schema:
        items: Schema = {"type": "string"}
        return {"type": "array", "items": items | ({"enum": self.choices} if self.choices else {})}


class IdsField(StrictField):
    """An array of ids."""

    type_name = "an array of ids"

    def __init__(self, *, max_items: int, **options: Any) -> None:
        super().__init__(**options)
        self.max_items = max_items

    def read(self, value: Any, pointer: str) -> list[UUID]:
        if not isinstance(value, list):
            raise self.wrong_type(pointer)
        if len(value) > self.max_items:
            raise Unacceptable(
                f"There are at most {self.max_items} ids.", code="field.count", pointer=pointer
            )
        one = IdField()
        return [one.read(item, f"{pointer}/{position}") for position, item in enumerate(value)]

    def describe(self) -> Schema:
        return {"type": "array", "maxItems": self.max_items, "items": IdField().describe()}


class SchemaField(StrictField):
    """A part of a document that is only described here; what reads it is elsewhere."""

    def __init__(self, *, schema: Schema, **options: Any) -> None:
        super().__init__(**options)
        self.schema = schema

    def describe(self) -> Schema:
        return dict(self.schema)


class QuantitiesField(ObjectField):
    """Quantities keyed by the pool's resources, read once the pool is known."""

    type_name = "an object of quantities keyed by resource"

    def describe(self) -> Schema:
        return {
            "type": "object",
            "additionalProperties": {
                "oneOf": [{"type": "number", "minimum": 0}, {"type": "string", "maxLength": 50}]
            },
            "examples": [{"cpu": 2, "memory": "4Gi"}],
        }


class QuantityField(StrictField):
    """One quantity, read once its unit is known."""

    type_name = "a number, a decimal string or a Kubernetes quantity"

    def read(self, value: Any, pointer: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
            raise self.wrong_type(pointer)
        return value

    def describe(self) -> Schema:
        return {
            "oneOf": [{"type": "number", "minimum": 0}, {"type": "string", "maxLength": 50}],
            "description": self.help_text or "",
        }


class LabelsField(StrictField):
    """Labels of a server: texts keyed by texts."""

    type_name = "an object of texts"
    MAX_LABELS = 64
    MAX_LENGTH = 253

    def read(self, value: Any, pointer: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong_type(pointer)
        if len(value) > self.MAX_LABELS:
            raise Unacceptable(
                f"There are at most {self.MAX_LABELS} labels.", code="labels.count", pointer=pointer
            )
        return {
            _LABEL.read(name, f"{pointer}/{pointer_token(name)}"): self.read_value(
                item, f"{pointer}/{pointer_token(name)}"
            )
            for name, item in value.items()
        }

    def read_text(self, text: str, pointer: str) -> dict[str, Any]:
        return self.read(_json_cell(text), pointer)

    def read_value(self, value: Any, pointer: str) -> Any:
        return _LABEL_VALUE.read(value, pointer)

    def describe(self) -> Schema:
        return {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": self.MAX_LENGTH},
            "propertyNames": {"minLength": 1, "maxLength": self.MAX_LENGTH},
            "maxProperties": self.MAX_LABELS,
        }


class SelectorField(LabelsField):
    """For each label the value, or the values, one of which a server must have."""

    type_name = 'an object such as {"zone": "a"} or {"zone": ["a", "b"]}'
    MAX_VALUES = 100

    def read_value(self, value: Any, pointer: str) -> Any:
        if not isinstance(value, list):
            return super().read_value(value, pointer)
        if not 1 <= len(value) <= self.MAX_VALUES:
            raise Unacceptable(
                f"A selector names 1 to {self.MAX_VALUES} values of a label.",
                code="selector.count",
                pointer=pointer,
            )
        return [_LABEL_VALUE.read(item, f"{pointer}/{index}") for index, item in enumerate(value)]

    def describe(self) -> Schema:
        text = {"type": "string", "maxLength": self.MAX_LENGTH}
        several = {"type": "array", "items": text, "minItems": 1, "maxItems": self.MAX_VALUES}
        return super().describe() | {"additionalProperties": {"oneOf": [text, several]}}


_LABEL = TextField(max_length=LabelsField.MAX_LENGTH)
_LABEL_VALUE = TextField(max_length=LabelsField.MAX_LENGTH, blank=True)


def _json_cell(text: str) -> Any:
    """An object written as JSON in one cell of a CSV, as lists of this service write labels."""
    return json_document(text.encode()) if text.startswith("{") else text
