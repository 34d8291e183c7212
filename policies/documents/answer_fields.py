"""Declarations of the fields of an answer.

Every value is read with its type, or rejected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from policies.arrays import FloatArray
from policies.documents.request_fields import MAX_WHOLE, WholeField
from policies.errors import MAX_MISTAKES, ProblemError
from policies.fields import (
    AnyField,
    BooleanField,
    ChoiceField,
    Document,
    DocumentField,
    Field,
    ListField,
    MapField,
    ObjectField,
    Schema,
    StringField,
    mistake,
)
from policies.fields.mistakes import Mistakes


class FiniteField(Field):
    """JSON number that float64 holds, which excludes strings, infinity and NaN."""

    type_name = "a number"

    def read(self, value: Any) -> float:
        if type(value) is float and -math.inf < value < math.inf:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong_type()
        # Integers of JSON may have any length.
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise mistake("field.range", f"Expected a finite number, not {str(value)[:40]}.")
        return number

    def describe(self) -> Schema:
        return {"type": "number"}


class NullField(Field):
    """Field that must be null, because the problem cannot show whether a value is true."""

    type_name = "null"

    def read(self, value: Any) -> None:
        if value is not None:
            raise self.wrong_type()

    def describe(self) -> Schema:
        return {"type": "null"}


class NumbersField(Field):
    """Arrays of finite numbers, of so many dimensions at most, as one array.

    Args:
        dimensions: how deep arrays are within each other.
    """

    type_name = "an array of numbers"

    def __init__(self, dimensions: int, **options: Any) -> None:
        super().__init__(**options)
        self.dimensions = dimensions

    def read(self, value: Any) -> FloatArray:
        if not isinstance(value, list):
            raise self.wrong_type()
        flat: list[Any] = value
        for _ in range(self.dimensions - 1):
            if flat and all(type(item) is list for item in flat):
                flat = [number for item in flat for number in item]
        # NumPy would read true as 1 and "1" as a number.
        if not {type(number) for number in flat} <= {int, float}:
            raise self.wrong_type()
        try:
            numbers = np.array(value, dtype=np.float64)
        except (OverflowError, ValueError) as error:
            raise mistake(
                "field.range", "Expected rows of equal length and finite numbers."
            ) from error
        if not np.isfinite(numbers).all():
            raise mistake("field.range", "Expected finite numbers.")
        return numbers

    def describe(self) -> Schema:
        return {"type": "array"}


def _count(minimum: int = 0, **options: Any) -> WholeField:
    return WholeField(minimum=minimum, maximum=MAX_WHOLE, **options)


def _optional(field: type[Field], **options: Any) -> Field:
    return field(required=False, **options)


def _amounts() -> Field:
    return MapField(FiniteField(), required=False)


class _Part(Document):
    missing_code = "field.missing"


class NamedWorkload(_Part):
    id = NullField(required=False)
    name = StringField()


class AllocationRow(_Part):
    tenant = StringField()
    workload = DocumentField(NamedWorkload)
    tasks = FiniteField()
    resources = _amounts()
    dominant_resource = _optional(StringField)
    dominant_share = _optional(FiniteField)
    weighted_share = _optional(FiniteField, allow_null=True)
    limited_by = StringField()
    floor = _optional(FiniteField)
    floor_met = _optional(FiniteField)


class Summary(_Part):
    tenants = _count(required=False)
    workloads = _count(required=False)
    servers = _count(required=False)
    server_classes = _count(required=False)
    min_weighted_share = _optional(FiniteField, allow_null=True)
    mean_weighted_share = _optional(FiniteField, allow_null=True)
    jain_index = _optional(FiniteField, allow_null=True)
    utilization = _amounts()
    objective = FiniteField(allow_null=True)
    bound = FiniteField(allow_null=True)
    gap = FiniteField(allow_null=True)
    moved_tasks = _count(required=False, allow_null=True)
    stopped = _optional(ChoiceField, choices=["work", "time"])
    guarantees_unmet = ListField(ObjectField(), min_items=0, required=False)


class GroupRow(_Part):
    name = StringField()
    level = _optional(FiniteField, allow_null=True)
    resources = _amounts()
    frozen_in = WholeField(minimum=0, maximum=MAX_WHOLE, required=False, allow_null=True)


class ServerRange(_Part):
    count = _count(1)
    first = StringField()
    last = _optional(StringField)
    capacity = _amounts()
    labels = MapField(StringField(), required=False)


class PlacementRow(_Part):
    tenant = StringField()
    workload = DocumentField(NamedWorkload)
    tasks = _optional(FiniteField)
    pieces = _count(required=False)
    kind = WholeField(minimum=0, maximum=1, default=0)
    resources = _amounts()
    server = _optional(StringField)
    servers = DocumentField(ServerRange, required=False)


class RoundDocument(_Part):
    stage = WholeField(minimum=0, maximum=1)
    level = FiniteField()
    bound = FiniteField()
    prices = NumbersField(2)
    proven = BooleanField(default=True)
    mix_prices = NumbersField(2, required=False, allow_null=True)


class CertificateDocument(_Part):
    rounds = ListField(RoundDocument, min_items=0)
    frozen_in = ListField(WholeField(minimum=-1, maximum=MAX_WHOLE), min_items=0)
    divisible_prices = NumbersField(2, required=False, allow_null=True)
    servers = ListField(ListField(StringField()), min_items=0, required=False)


class OnServer(_Part):
    server = StringField()
    tasks = _count(1)


class SlotRow(_Part):
    tenant = StringField()
    workload = StringField()
    tasks = _count(1)
    servers = ListField(OnServer, required=False)


class SlotDocument(_Part):
    fraction = FiniteField()
    allocations = ListField(SlotRow, min_items=0)


class ScheduleDocument(_Part):
    objective = FiniteField(allow_null=True)
    bound = FiniteField(allow_null=True)
    lp_bound = FiniteField(allow_null=True)
    gap = FiniteField(allow_null=True)
    order_proven = BooleanField(default=True)
    slots = ListField(SlotDocument, min_items=0)


class NamedPolicy(_Part):
    name = StringField()
    mode = _optional(StringField, allow_null=True)
    options = ObjectField(required=False, allow_null=True)


class FloorsDocument(_Part):
    """Answers of the steps, each of which is read once its problem is known."""

    pools = ListField(AnyField(), min_items=0)
    raised = ObjectField()
    rest = ObjectField()


class AnswerDocument(_Part):
    """Fields of an answer.

    A check of their own rejects explanations and properties.
    """

    policy = DocumentField(NamedPolicy, required=False, allow_null=True)
    allocations = ListField(AllocationRow, min_items=0)
    summary = DocumentField(Summary)
    groups = ListField(GroupRow, min_items=0, required=False)
    placements = ListField(PlacementRow, min_items=0, required=False, allow_null=True)
    certificate = DocumentField(CertificateDocument, required=False, allow_null=True)
    schedule = DocumentField(ScheduleDocument, required=False, allow_null=True)
    floors = DocumentField(FloorsDocument, required=False, allow_null=True)
    history = ObjectField(required=False)
    explanations = AnyField(required=False)
    properties = AnyField(required=False)


def read_fields(
    kind: type[Document], document: Any, code: str, name: str = ""
) -> Mapping[str, Any]:
    """Return the fields of a document.

    Args:
        kind: what it is; document: a JSON value.
        code: of the error; name: of the part of an answer that the document is.

    Raises:
        ProblemError: it has other fields, or a value that its field rejects.
    """
    try:
        return kind.read(document)
    except Mistakes as wrong:
        found = wrong.under(name) if name else list(wrong.found)
    found = [replace(each, code=code) for each in found[:MAX_MISTAKES]]
    raise ProblemError(code, found[0].detail, found[0].pointer, found)
