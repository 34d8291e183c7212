"""Validation of a policy's options against its JSON Schema.

It covers the keywords that option schemas use. No schema library is used, because a verifier of
answers has Python and NumPy only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float, Decimal),
    "integer": (int, float, Decimal),
}
_KEYWORDS = {
    "additionalProperties", "default", "description", "enum", "exclusiveMinimum", "maximum",
    "minProperties", "minimum", "not", "properties", "type",
}  # fmt: skip
_LONGEST_SHOWN = 80


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError for a schema with a keyword that is not supported."""
    unknown = sorted(schema.keys() - _KEYWORDS)
    if unknown or set(schema.get("not", {})) - {"required"}:
        raise ValueError(f"an option's schema cannot use {', '.join(unknown) or 'not'}")
    for part in schema.get("properties", {}).values():
        check_schema(part)
    rest = schema.get("additionalProperties", True)
    if isinstance(rest, Mapping):
        check_schema(rest)


def mismatch(schema: Mapping[str, Any], value: Any) -> tuple[str, str] | None:
    """Return the first mismatch of a value as a JSON pointer and a sentence.

    None if the value fits the schema.
    """
    if "enum" in schema and not any(
        value == each and isinstance(value, type(each)) for each in schema["enum"]
    ):
        return "", f"{_shown(value)} is not one of {', '.join(map(_shown, schema['enum']))}"
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        return "", f"{_shown(value)} is not of type {kind}"
    if _is(value, "number"):
        return _outside(schema, value)
    return _of_object(schema, value) if isinstance(value, dict) else None


def _shown(value: Any) -> str:
    """Return a value as JSON text, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    text = str(value) if isinstance(value, Decimal) else text
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if not isinstance(value, _TYPES[kind]):
        return False
    return kind != "integer" or _is_whole(value)


def _is_whole(value: Any) -> bool:
    if isinstance(value, Decimal):  # its remainder is undefined where it has more digits than fit
        return value.is_finite() and value == value.to_integral_value()
    return bool(value % 1 == 0)


def _outside(schema: Mapping[str, Any], value: Any) -> tuple[str, str] | None:
    if not value >= schema.get("minimum", value):
        return "", f"{_shown(value)} is less than the minimum of {schema['minimum']}"
    if not value <= schema.get("maximum", value):
        return "", f"{_shown(value)} is more than the maximum of {schema['maximum']}"
    if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
        return "", f"{_shown(value)} is not more than {schema['exclusiveMinimum']}"
    return None


def _of_object(schema: Mapping[str, Any], value: dict[str, Any]) -> tuple[str, str] | None:
    if len(value) < schema.get("minProperties", 0):
        return "", "it must not be empty"
    excluded = schema.get("not", {}).get("required")
    if excluded and all(name in value for name in excluded):
        return "", f"{' and '.join(excluded)} exclude each other"
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, part in value.items():
        if name not in properties and rest is False:
            return "", f"there is no option {name!r}; there are {', '.join(properties) or 'none'}"
        inner = properties.get(name, rest)
        wrong = mismatch(inner, part) if isinstance(inner, Mapping) else None
        if wrong is not None:
            escaped = name.replace("~", "~0").replace("/", "~1")
            return f"/{escaped}{wrong[0]}", wrong[1]
    return None
