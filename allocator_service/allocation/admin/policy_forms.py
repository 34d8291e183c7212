"""Options of policies as fields of a form, one for each option of a policy's schema."""

from collections.abc import Mapping
from functools import partial
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


class _ObjectField(forms.JSONField):
    """Field of a JSON object, which is empty and not `null` without a value."""

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)


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
        if policy in option.policies and cleaned.get(option.field_name) not in (None, "")
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
        widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
        field = _ObjectField(widget=widget, **common)
    else:
        field = forms.CharField(**common)
    show_with(field, option.shown_with)
    return field


def _help_of(option: PolicyOption) -> str:
    """Return the description of an option as a sentence, with the mode and the default."""
    text = str(option.schema.get("description", "")).strip().rstrip(".")
    if ":" not in text.split(" ")[0]:  # the value of a list keeps its spelling
        text = text[:1].upper() + text[1:]
    sentences = [f"{text}."] if text else []
    if option.schema.get("type") == "object":
        sentences += ["A JSON object."]
    if option.mode:
        sentences += [f"Used in the mode {option.mode}."]
    if "default" in option.schema and option.schema.get("type") in ("integer", "number"):
        sentences += [f"Empty: {option.schema['default']}."]
    return " ".join(sentences)


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
