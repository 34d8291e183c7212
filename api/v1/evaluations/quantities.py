"""Quantities of an evaluation as pools read them, Kubernetes notation included."""

from collections.abc import Mapping
from typing import Any

from allocator_service.allocation.what_if.evaluations import refuse_oversized
from allocator_service.core.errors import FieldError, Unacceptable
from allocator_service.core.quantities import parse_quantity, pointer_token
from api.documents import MAX_ERRORS

_VECTORS = (("servers", "capacity"), ("workloads", "demand"))


def plain_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with what may be left out filled in and its quantities as exact decimals.

    What is not shaped as expected stays as it is: whoever reads the document refuses it. Raises
    `TooLarge` before anything is converted, and `Unacceptable` for quantities, with the pointers
    of the first 20.
    """
    refuse_oversized(document)
    plain = {"servers": [], "tenants": [], "workloads": [], **document}
    units = _units(plain.get("resources"))
    errors: list[FieldError] = []
    for items, vector in _VECTORS:
        if isinstance(plain[items], list):
            plain[items] = [
                _converted(item, vector, units, f"/{items}/{index}", errors)
                for index, item in enumerate(plain[items])
            ]
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:MAX_ERRORS])
    return plain


def _units(resources: Any) -> dict[str, str]:
    units = {}
    for resource in resources if isinstance(resources, list) else []:
        if isinstance(resource, str):
            units[resource] = ""
        elif isinstance(resource, dict) and isinstance(resource.get("name"), str):
            unit = resource.get("unit", "")
            units[resource["name"]] = unit if isinstance(unit, str) else ""
    return units


def _converted(
    item: Any, vector: str, units: Mapping[str, str], pointer: str, errors: list[FieldError]
) -> Any:
    if not isinstance(item, dict) or not isinstance(item.get(vector), dict):
        return item
    quantities = {}
    for name, quantity in item[vector].items():
        try:
            quantities[name] = parse_quantity(
                quantity, units.get(name, ""), pointer=f"{pointer}/{vector}/{pointer_token(name)}"
            )
        except Unacceptable as error:
            errors.extend(error.errors)
    return {**item, vector: quantities}
