"""Quantities of a pool's resources in forms and on pages of the admin."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from allocator_service.core.display import resource_text
from allocator_service.core.quantities import Resource, decimal_text, vector_from


class QuantitiesField(forms.CharField):
    """Quantities written as `cpu=4 memory=16Gi`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            help_text="Such as cpu=4 memory=16Gi, with the pool's resources.", **kwargs
        )

    def to_python(self, value: Any) -> dict[str, str]:  # type: ignore[override]
        text = super().to_python(value) or ""
        quantities = {}
        for part in text.replace(",", " ").split():
            name, separator, quantity = part.partition("=")
            if not separator or name in quantities:
                raise ValidationError(f"“{part}”: write each resource once, as name=quantity.")
            quantities[name] = quantity
        return quantities


def quantities_text(vector: list[Any], resources: list[Resource]) -> str:
    """Return a stored vector as `QuantitiesField` reads it."""
    named = zip(resources, vector, strict=False)
    return " ".join(f"{resource.name}={decimal_text(amount)}" for resource, amount in named)


def quantities_shown(vector: Sequence[Any], resources: Sequence[Resource]) -> str:
    """Return the amounts of a stored vector for people, such as 4 cores, 16 GiB memory."""
    named = zip(resources, vector, strict=False)
    parts = [resource_text(amount, each) for each, amount in named if amount]
    return ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}", 1) for part in parts) or "nothing"


def quantities_vector(
    quantities: dict[str, str], resources: list[Resource], pointer: str
) -> list[Any]:
    """Return the vector that `QuantitiesField` has read, by the pool's resources."""
    return vector_from(quantities, resources, pointer=pointer)
