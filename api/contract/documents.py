"""Documents of bodies and answers, with every kind of field that they are declared of."""

from collections.abc import Mapping, Sequence
from typing import Any

from allocator_service.core.errors import Unacceptable, refusal
from api.contract.fields import (
    DurationField,
    GenerationField,
    IdField,
    LabelsField,
    LimitedByField,
    NamedQuantitiesField,
    PoolQuantitiesField,
    PoolQuantityField,
    SchemaField,
    SelectorField,
    SlugField,
    StoredListField,
    TimestampField,
    VectorField,
    VersionField,
    WeightField,
    ids_field,
    pool_field,
    texts_field,
)
from api.contract.money import CurrencyField, DecimalField, MoneyField, PriceField
from policies.fields import (
    BooleanField,
    ChoiceField,
    Document,
    DocumentField,
    Given,
    IntegerField,
    ListField,
    MapField,
    Mistakes,
    NumberField,
    ObjectField,
    PatternField,
    RealField,
    StringField,
    TextField,
    read_items,
)

# What resources declare documents of: `from api.contract import documents`, as models in Django.
__all__ = [
    "BooleanField",
    "ChoiceField",
    "CurrencyField",
    "DecimalField",
    "Document",
    "DocumentField",
    "DurationField",
    "GenerationField",
    "Given",
    "IdField",
    "IntegerField",
    "LabelsField",
    "LimitedByField",
    "ListField",
    "MapField",
    "MoneyField",
    "NamedQuantitiesField",
    "NoFields",
    "NumberField",
    "ObjectField",
    "PatternField",
    "PoolQuantitiesField",
    "PoolQuantityField",
    "PriceField",
    "RealField",
    "SchemaField",
    "SelectorField",
    "SlugField",
    "StoredListField",
    "StringField",
    "TextField",
    "TimestampField",
    "VectorField",
    "VersionField",
    "WeightField",
    "ids_field",
    "merge_patch",
    "pool_field",
    "read_document",
    "read_documents",
    "refuse_changed",
    "texts_field",
]


class NoFields(Document):
    """The body of an action, which is empty or `{}`."""


def read_document(document: type[Document], value: Any) -> dict[str, Any]:
    """Return the value of every field, with defaults.

    Raises `Unreadable` for names that are no field, `Unacceptable` for values and for what is missing,
    with everything that is wrong (at most 20).
    """
    try:
        return document.read(value)
    except Mistakes as wrong:
        raise refusal(wrong.found) from None


def read_documents(
    document: type[Document], items: Sequence[Any], *, cells: bool = False
) -> list[dict[str, Any]]:
    """Read every item of an array, `cells` from the texts of a CSV. Raises as `read_document`."""
    try:
        return read_items(document, items, cells=cells)
    except Mistakes as wrong:
        raise refusal(wrong.found) from None


def refuse_changed(
    current: Mapping[str, Any], changed: Mapping[str, Any], names: Sequence[str]
) -> None:
    """Refuse a change of fields that are set at creation. A field may be sent with its present value."""
    for name in names:
        if changed[name] != current[name]:
            raise Unacceptable(
                f'"{name}" is set when the object is created and cannot change.',
                code="field.immutable",
                pointer=f"/{name}",
            )


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target after a merge patch (RFC 7396), in which null removes a member."""
    if not isinstance(patch, dict):
        # An array is replaced as a whole too (RFC 7396, section 2).
        return patch
    # What is no object counts as an empty one, so that nulls within the patch are left out of it.
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
