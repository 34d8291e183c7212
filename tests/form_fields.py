"""Fields of a form as a browser sends them."""

from typing import Any

from django import forms


def untouched(form: forms.BaseForm) -> dict[str, str]:
    """Return the values that a browser sends for a form that nobody has changed."""
    return {name: text for bound in form for name, text in _of_field(bound)}


def _of_field(bound: Any) -> list[tuple[str, str]]:
    value: Any = bound.value()
    if isinstance(bound.field.widget, forms.MultiWidget):
        parts: Any = value if isinstance(value, list) else bound.field.widget.decompress(value)
        return [(f"{bound.html_name}_{n}", str(part or "")) for n, part in enumerate(parts)]
    if isinstance(bound.field, forms.BooleanField):
        return [(bound.html_name, "on")] if value else []
    return [(bound.html_name, "" if value is None else str(value))]
