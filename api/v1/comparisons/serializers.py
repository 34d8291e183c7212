"""Comparisons as documents, for OpenAPI; `policies.documents.problem` reads the input."""

from api.documents import DocumentField, ListField, StrictSerializer, document_schema
from api.fields import NumberField, Schema, TextField
from api.structures import ObjectField, QuantitiesField, SchemaField
from api.v1.evaluations.serializers import CertificateDocument
from api.v1.pools.serializers import PolicyFields
from api.v1.runs.serializers import MAX_ROWS, AllocationDocument, PlacementDocument

MAX_POLICIES = 20


_POLICIES: Schema = {
    "type": "array",
    "minItems": 1,
    "maxItems": MAX_POLICIES,
    "items": {"oneOf": [{"type": "string"}, document_schema(PolicyFields)]},
    "examples": [["drf", "asset", {"name": "drfh", "mode": "indivisible"}]],
}
_INPUT: Schema = {
    "type": "object",
    "description": "An evaluation, as `POST /evaluations/` takes it (its policy may be left out and"
    ' is not read), or `{"run": id}`: the stored input of a run that the caller may see whole.',
    "examples": [{"run": "01931f3e-7c2e-7c3b-8a51-6f0a4be7a1c2"}],
}


class ComparisonRequest(StrictSerializer):
    policies = SchemaField(schema=_POLICIES)
    input = SchemaField(schema=_INPUT)


class ColumnError(StrictSerializer):
    code = TextField(max_length=100)
    detail = TextField(max_length=2_000)
    pointer = TextField(max_length=1_000, blank=True)


class ColumnDocument(StrictSerializer):
    policy = DocumentField(PolicyFields)
    error = DocumentField(
        ColumnError, allow_null=True, help_text="Why this policy has no answer; others have theirs."
    )
    seconds = NumberField()
    allocations = ListField(AllocationDocument, min_items=0, max_items=5_000, allow_null=True)
    min_weighted_share = NumberField(allow_null=True)
    mean_weighted_share = NumberField(allow_null=True)
    jain_index = NumberField(allow_null=True)
    utilization = QuantitiesField(allow_null=True)
    objective = NumberField(allow_null=True)
    bound = NumberField(allow_null=True)
    gap = NumberField(allow_null=True)
    sharing_degree = ObjectField(allow_null=True)
    properties = ObjectField(required=False)
    placements = ListField(PlacementDocument, min_items=0, max_items=MAX_ROWS, required=False)
    certificate = DocumentField(CertificateDocument, required=False, allow_null=True)
    schedule = ObjectField(required=False, allow_null=True)
    history = ObjectField(required=False)


class ComparisonDocument(StrictSerializer):
    columns = ListField(ColumnDocument, max_items=MAX_POLICIES)
