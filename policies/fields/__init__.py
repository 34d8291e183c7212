"""Documents whose fields are declared once: read with every mistake in its place, and described.

A declaration says the name, kind, bounds, default and description of a field. From it come the
reading of a JSON value, with a JSON pointer to each mistake, and the value's JSON Schema.
"""

from policies.fields.documents import Document, DocumentField, ListField, read_items
from policies.fields.kinds import (
    AnyField,
    BooleanField,
    ChoiceField,
    Field,
    IntegerField,
    MapField,
    Mistakes,
    NumberField,
    ObjectField,
    OneOrMoreField,
    PatternField,
    Schema,
    StringField,
    TextField,
    escaped,
    is_object,
    is_one_line,
    mistake,
)
from policies.fields.quantities import (
    FRACTIONAL_DIGITS,
    LIMIT,
    AmountsField,
    QuantitiesField,
    QuantityField,
    RealField,
    json_type,
    kubernetes_quantity_from,
    quantity_from,
)

__all__ = [
    "FRACTIONAL_DIGITS",
    "LIMIT",
    "AmountsField",
    "AnyField",
    "BooleanField",
    "ChoiceField",
    "Document",
    "DocumentField",
    "Field",
    "IntegerField",
    "ListField",
    "MapField",
    "Mistakes",
    "NumberField",
    "ObjectField",
    "OneOrMoreField",
    "PatternField",
    "QuantitiesField",
    "QuantityField",
    "RealField",
    "Schema",
    "StringField",
    "TextField",
    "escaped",
    "is_object",
    "is_one_line",
    "json_type",
    "kubernetes_quantity_from",
    "mistake",
    "quantity_from",
    "read_items",
]
