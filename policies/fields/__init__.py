"""Documents whose fields are declared once, to be read, written and described.

A declaration has the name, kind, bounds, default and description of a field. From it come the
reading of a JSON value, with a JSON pointer to each mistake, and the value's JSON Schema.
"""

from policies.fields.documents import ColumnsField, Document, DocumentField, ListField, read_items
from policies.fields.kinds import (
    AnyField,
    BooleanField,
    ChoiceField,
    Field,
    IntegerField,
    MapField,
    NumberField,
    ObjectField,
    OneOrMoreField,
    PatternField,
    Schema,
    StringField,
    TextField,
    is_object,
    is_one_line,
)
from policies.fields.mistakes import Mistakes, escaped, mistake
from policies.fields.quantities import (
    FRACTIONAL_DIGITS,
    LIMIT,
    AmountsField,
    QuantitiesField,
    QuantityField,
    RealField,
    bytes_in,
    checked_quantity,
    is_count,
    json_type,
    kubernetes_quantity_from,
    quantity_from,
)
from policies.fields.sources import Given

__all__ = [
    "FRACTIONAL_DIGITS",
    "LIMIT",
    "AmountsField",
    "AnyField",
    "BooleanField",
    "ChoiceField",
    "ColumnsField",
    "Document",
    "DocumentField",
    "Field",
    "Given",
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
    "bytes_in",
    "checked_quantity",
    "escaped",
    "is_count",
    "is_object",
    "is_one_line",
    "json_type",
    "kubernetes_quantity_from",
    "mistake",
    "quantity_from",
    "read_items",
]
