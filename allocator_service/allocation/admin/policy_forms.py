"""Options of policies as fields of a form, one for each option of a policy's schema."""

from collections.abc import Mapping
from functools import partial
from math import isfinite
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from allocator_service.allocation.policies import (
    SECONDS,
    PolicyOption,
    options_offered,
    policy_choose,
)
from allocator_service.core.conditional_fields import show_with
from allocator_service.core.duration_fields import SecondsField
from allocator_service.core.errors import DomainError
from allocator_service.core.line_fields import NumberLinesField, number_text


def option_fields() -> dict[PolicyOption, forms.Field]:
    """Return a field for each option of the policies."""
    return {option: _field_of(option) for option in options_offered()}


def options_read(
    fields: Mapping[PolicyOption, forms.Field], cleaned: Mapping[str, Any], policy: str
) -> dict[str, Any]:
    """Return the options that a form sets for a policy. Empty fields are left to the policy."""
    return {
        option.name: cleaned[option.field_name]
        for option in fields
        if policy in option.policies and cleaned.get(option.field_name) not in (None, "", {})
    }


def _field_of(option: PolicyOption) -> forms.Field:
    """Return the form field that fits the schema of an option."""
    schema = option.schema
    common: dict[str, Any] = {
        "required": False,
        "label": option.name.removesuffix(SECONDS).replace("_", " ").capitalize(),
        "help_text": _help_of(option),
        "validators": [partial(_refuse_unfit, option)],
    }
    field: forms.Field
    if "enum" in schema or schema.get("type") == "boolean":
        values = schema.get("enum", [True, False])
        named = {_value_text(value): value for value in values}
        choices = [("", f"default{_default_text(schema)}"), *((text, text) for text in named)]
        del common[
            "validators"
        ]  # the choices are those of the schema, and validators see their texts
        field = forms.TypedChoiceField(
            choices=choices, coerce=named.__getitem__, empty_value=None, **common
        )
        field.prepare_value = _value_text  # type: ignore[method-assign]
    elif schema.get("type") == "integer" and option.name.endswith(SECONDS):
        field = SecondsField(**common)
    elif schema.get("type") == "integer":
        field = forms.IntegerField(**common)
    elif schema.get("type") == "number":
        field = forms.FloatField(**common)
    elif schema.get("type") == "object":
        del common["validators"]  # each line is validated, and its error names it
        field = NumberLinesField(
            refuse_number=partial(_refuse_number, _schema_of_numbers(schema)),
            example=_line_example(schema),
            nested=_is_nested(schema),
            **common,
        )
    else:
        field = forms.CharField(**common)
    show_with(field, option.shown_with)
    return field


def _help_of(option: PolicyOption) -> str:
    """Return the description of an option as a sentence, with the mode and the default."""
    text = str(option.schema.get("description", "")).strip().rstrip(".")
    if text.startswith("{"):  # the shape of a JSON object, which the form has as lines
        text = text.partition("}: ")[2]
    if ":" not in text.split(" ")[0]:  # the value of a list keeps its spelling
        text = text[:1].upper() + text[1:]
    sentences = [f"{text}."] if text else []
    if option.schema.get("type") == "object":
        sentences += [f"One on each line, as {_line_example(option.schema)}."]
    if option.mode:
        sentences += [f"Used in the mode {option.mode}."]
    if "default" in option.schema and option.schema.get("type") in ("integer", "number"):
        sentences += [f"Empty: {option.schema['default']}."]
    return " ".join(sentences)


def _is_nested(schema: Mapping[str, Any]) -> bool:
    return bool(schema["additionalProperties"].get("type") == "object")


def _schema_of_numbers(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    inner: Mapping[str, Any] = schema["additionalProperties"]
    return _schema_of_numbers(inner) if _is_nested(schema) else inner


def _refuse_number(schema: Mapping[str, Any], number: float) -> None:
    """Raise a form's `ValidationError` for a number outside the limits of a schema."""
    above, least, most = (schema.get(name) for name in ("exclusiveMinimum", "minimum", "maximum"))
    if above is not None and number <= above:
        expected = f"greater than {number_text(above)}"
    elif least is not None and number < least:
        expected = f"of at least {number_text(least)}"
    elif not isfinite(number) or (most is not None and number > most):
        expected = "" if most is None else f"of at most {number_text(most)}"
    else:
        return
    raise ValidationError(f"expected a number {expected}".strip() + f", got {number_text(number)}.")


def _line_example(schema: Mapping[str, Any]) -> str:
    if _is_nested(schema):
        return "tenant.resource=number, such as physics.cpu=2"
    return "resource=number, such as cpu=2"


def _default_text(schema: Mapping[str, Any]) -> str:
    return f": {_value_text(schema['default'])}" if "default" in schema else ""


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _refuse_unfit(option: PolicyOption, value: Any) -> None:
    """Raise a form's `ValidationError` for a value outside the schema of an option."""
    try:
        policy_choose(option.policies[0], None, {option.name: value})
    except DomainError as error:
        raise ValidationError(error.detail) from error
