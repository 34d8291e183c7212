"""Evaluations as documents: for OpenAPI. The policies read them (`policies.documents.problem`)."""

from allocator_service.pools.models import RESOURCE_NAME_PATTERN
from api.documents import DocumentField, ListField, StrictSerializer, document_schema
from api.fields import BooleanField, ChoiceField, IntegerField, NumberField, Schema, TextField
from api.structures import (
    LabelsField,
    ObjectField,
    QuantitiesField,
    SchemaField,
    SelectorField,
    TextsField,
)
from api.v1.pools.serializers import PolicyFields, ResourceFields
from api.v1.runs.serializers import (
    MAX_ROWS,
    AllocationDocument,
    PlacementDocument,
    SummaryDocument,
)

MAX_WHOLE = 2**53 - 1
_RESOURCES: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {
        "oneOf": [
            {"type": "string", "pattern": RESOURCE_NAME_PATTERN},
            document_schema(ResourceFields),
        ]
    },
    "examples": [["cpu", "memory"]],
}
_NAME: Schema = {"type": "string"}
_OF_CLASSES: Schema = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "number"}},
}
_PRICES: Schema = {
    "anyOf": [_OF_CLASSES, {"type": "array", "items": {"type": "number"}}],
    "description": "Per server class, per resource: in shares of the pool. Of tda: per tenant.",
}
_DIVISIBLE_PRICES: Schema = {
    **_OF_CLASSES,
    "description": "Of tda: what proves the bound of divisible tasks, per server class, per resource.",
}
_INDICES: Schema = {
    "type": "array",
    "items": {"type": "integer", "minimum": -1},
    "description": "Per tenant the round in which its share was frozen; -1: it has nothing to run.",
}


class EvaluationServer(StrictSerializer):
    name = TextField(max_length=253, required=False)
    capacity = QuantitiesField()
    count = IntegerField(minimum=1, maximum=10**6, default=1)
    labels = LabelsField(default=dict)
    contributed_by = TextField(max_length=253, required=False, allow_null=True)
    draining = BooleanField(default=False, help_text="Contributed, but no capacity.")


class EvaluationTenant(StrictSerializer):
    name = TextField(max_length=253)
    weight = NumberField(required=False)
    best_effort = BooleanField(default=False)
    owed = NumberField(
        required=False,
        help_text="tda: dominant share × periods to make up for; below 0: had too much.",
    )


class EvaluationWorkload(StrictSerializer):
    tenant = TextField(max_length=253)
    name = TextField(max_length=253)
    demand = QuantitiesField()
    tasks = IntegerField(minimum=0, maximum=MAX_WHOLE, required=False, allow_null=True)
    priority = IntegerField(minimum=-MAX_WHOLE, maximum=MAX_WHOLE, default=0)
    server_selector = SelectorField(default=dict)


class EvaluationRunning(StrictSerializer):
    tenant = SchemaField(schema=_NAME)
    workload = SchemaField(schema=_NAME)
    server = SchemaField(
        schema={**_NAME, "description": "Name of a server row; any other has left the pool."}
    )
    offset = IntegerField(minimum=0, maximum=MAX_WHOLE, default=0)
    servers = IntegerField(minimum=0, maximum=MAX_WHOLE, default=1)
    tasks = IntegerField(minimum=0, maximum=MAX_WHOLE, help_text="On each of the servers.")


class EvaluationRequest(StrictSerializer):
    resources = SchemaField(schema=_RESOURCES)
    servers = ListField(EvaluationServer, min_items=0, max_items=10**6, required=False)
    tenants = ListField(EvaluationTenant, min_items=0, max_items=2_000, required=False)
    workloads = ListField(EvaluationWorkload, min_items=0, max_items=5_000, required=False)
    policy = DocumentField(PolicyFields)
    weights = ChoiceField(choices=["explicit", "contribution"], default="explicit")
    history = ObjectField(required=False, allow_null=True)
    running = ListField(
        EvaluationRunning,
        min_items=0,
        max_items=10**6,
        required=False,
        help_text="Where whole tasks run now: they stay there where that gives the same counts.",
    )
    include = TextsField(
        choices=["placements", "certificate", "properties", "schedule", "explanations"],
        required=False,
    )


class RoundDocument(StrictSerializer):
    stage = IntegerField(minimum=0, maximum=MAX_ROWS)
    level = NumberField()
    bound = NumberField()
    prices = SchemaField(schema=_PRICES)
    proven = BooleanField(
        required=False,
        help_text="False where the round is left open: its bound is all that is known.",
    )


class CertificateDocument(StrictSerializer):
    rounds = ListField(RoundDocument, min_items=0, max_items=MAX_ROWS)
    frozen_in = SchemaField(schema=_INDICES)
    divisible_prices = SchemaField(schema=_DIVISIBLE_PRICES, required=False)


class EvaluationDocument(StrictSerializer):
    allocations = ListField(AllocationDocument, min_items=0, max_items=5_000)
    summary = DocumentField(SummaryDocument)
    placements = ListField(PlacementDocument, min_items=0, max_items=MAX_ROWS, required=False)
    certificate = DocumentField(CertificateDocument, required=False, allow_null=True)
    history = ObjectField(
        required=False, help_text="After the step, of long-term policies: feed it back to continue."
    )
    explanations = SchemaField(
        schema={
            "type": "array",
            "items": {"type": "object"},
            "description": "Per tenant: shares, level, workloads, binding, neighbours, sentence.",
        },
        required=False,
    )
    properties = ObjectField(
        required=False, help_text="Each with holds (true, false, null), worst and reason."
    )
    schedule = ObjectField(required=False, allow_null=True)
