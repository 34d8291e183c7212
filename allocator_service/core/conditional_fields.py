"""Fields of a form that only some values of its other fields use.

`admin_site/conditional.js` shows a field while it is used. Without scripts all fields are shown.
"""

import json
from collections.abc import Collection, Mapping

from django import forms

Conditions = Mapping[str, Collection[str]]


def show_with(field: forms.Field, conditions: Conditions) -> None:
    """Show a field while every named field has one of the listed values."""
    listed = {name: sorted(values) for name, values in conditions.items()}
    field.widget.attrs["data-shown-with"] = json.dumps(listed)


def offer_with(field: forms.Field, name: str, choices: Mapping[str, Collection[str]]) -> None:
    """Offer the choices of a field that are listed for the value of another field."""
    listed = {value: list(offered) for value, offered in choices.items()}
    field.widget.attrs["data-offered-with"] = json.dumps({"name": name, "choices": listed})


def is_shown(field: forms.Field, values: Mapping[str, object]) -> bool:
    """Return whether a form with these values shows a field."""
    conditions = json.loads(field.widget.attrs.get("data-shown-with", "{}"))
    return all(values.get(name) in listed for name, listed in conditions.items())
