"""Comparisons as documents; the policies declare and read what they are asked with."""

from api.contract.fields import PoolQuantitiesField
from api.v1.evaluations.serializers import CertificateDocument
from api.v1.runs.serializers import MAX_ROWS, AllocationDocument, PlacementDocument
from policies.fields import (
    Document,
    DocumentField,
    ListField,
    NumberField,
    ObjectField,
    StringField,
    TextField,
)


class ColumnPolicy(Document):
    """As it was asked for: a name or a mode that there is not is an error of its column."""

    name = StringField()
    mode = StringField(required=False, allow_null=True)
    options = ObjectField(required=False)


class ColumnError(Document):
    code = TextField(max_length=100)
    detail = TextField(max_length=2_000)
    pointer = TextField(max_length=1_000, blank=True)


class ColumnDocument(Document):
    policy = DocumentField(ColumnPolicy)
    error = DocumentField(
        ColumnError,
        allow_null=True,
        description="Why this policy has no answer; the others still answer.",
    )
    seconds = NumberField()
    allocations = ListField(AllocationDocument, min_items=0, max_items=5_000, allow_null=True)
    min_weighted_share = NumberField(allow_null=True)
    mean_weighted_share = NumberField(allow_null=True)
    jain_index = NumberField(allow_null=True)
    utilization = PoolQuantitiesField(allow_null=True)
    objective = NumberField(allow_null=True)
    bound = NumberField(allow_null=True)
    gap = NumberField(allow_null=True)
    sharing_degree = ObjectField(allow_null=True)
    properties = ObjectField(required=False)
    placements = ListField(PlacementDocument, min_items=0, max_items=MAX_ROWS, required=False)
    certificate = DocumentField(CertificateDocument, required=False, allow_null=True)
    schedule = ObjectField(required=False, allow_null=True)
    history = ObjectField(required=False)


class ComparisonDocument(Document):
    columns = ListField(ColumnDocument, max_items=20)
