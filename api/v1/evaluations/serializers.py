"""Evaluations as documents; the policies declare and read what they are asked with."""

import policies
from allocator_service.allocation.what_if.evaluations import MAX_COUNT, MAX_ITEMS
from api.contract.fields import SchemaField
from api.v1.reports.documents import AmountsField
from api.v1.runs.serializers import MAX_ROWS, AllocationDocument, PlacementDocument, SummaryDocument
from policies.fields import (
    BooleanField,
    Document,
    DocumentField,
    IntegerField,
    ListField,
    NumberField,
    ObjectField,
    Schema,
    StringField,
)

_OF_CLASSES: Schema = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
_PRICES: Schema = {
    "anyOf": [_OF_CLASSES, {"type": "array", "items": {"type": "number"}}],
    "description": "Per server class, per resource: in shares of the pool. Of tda: per tenant.",
}
_DIVISIBLE_PRICES: Schema = {
    **_OF_CLASSES,
    "description": "Of tda: what proves the bound of divisible tasks, per server class, per resource.",
}
_MIX_PRICES: Schema = {
    **_OF_CLASSES,
    "description": "Of ceei's second stage: rows of prices per resource that prove the first stage's "
    "mix of workloads. Omitted where the rounds' prices prove it.",
}
_INDICES: Schema = {
    "type": "array",
    "items": {"type": "integer", "minimum": -1},
    "description": "Per tenant the round in which its share was frozen; -1: it has nothing to run.",
}


class EvaluationRequest(policies.EvaluationRequest):
    """An evaluation, as large as they may be."""

    servers = policies.EvaluationRequest.servers.at_most(MAX_COUNT)
    tenants = policies.EvaluationRequest.tenants.at_most(MAX_ITEMS["tenants"])
    workloads = policies.EvaluationRequest.workloads.at_most(MAX_ITEMS["workloads"])
    running = policies.EvaluationRequest.running.at_most(MAX_COUNT)


class RoundDocument(Document):
    stage = IntegerField(minimum=0, maximum=MAX_ROWS)
    level = NumberField()
    bound = NumberField()
    prices = SchemaField(schema=_PRICES)
    proven = BooleanField(
        required=False,
        description="False where the round is left open: only its bound is proven.",
    )
    mix_prices = SchemaField(schema=_MIX_PRICES, required=False)


class CertificateDocument(Document):
    rounds = ListField(RoundDocument, min_items=0, max_items=MAX_ROWS)
    frozen_in = SchemaField(schema=_INDICES)
    divisible_prices = SchemaField(schema=_DIVISIBLE_PRICES, required=False)


class GroupRowDocument(Document):
    name = StringField()
    level = NumberField(
        allow_null=True,
        description="Largest share of any resource that its tenants hold, over its weight.",
    )
    resources = AmountsField(description="Resources that the tasks of its tenants use.")
    frozen_in = IntegerField(
        minimum=0, maximum=MAX_ROWS, allow_null=True,
        description="Round in which the last of its tenants was frozen; null without a certificate.",
    )  # fmt: skip


class EvaluationDocument(Document):
    allocations = ListField(AllocationDocument, min_items=0, max_items=5_000)
    summary = DocumentField(SummaryDocument)
    groups = ListField(
        GroupRowDocument, min_items=0, max_items=MAX_ROWS, required=False,
        description="Of a problem with groups: a row each, in order.",
    )  # fmt: skip
    placements = ListField(PlacementDocument, min_items=0, max_items=MAX_ROWS, required=False)
    certificate = DocumentField(CertificateDocument, required=False, allow_null=True)
    history = ObjectField(
        required=False,
        description="History after the step, for long-term policies: send it back to continue.",
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
        required=False, description="Each with holds (true, false, null), worst and reason."
    )
    schedule = ObjectField(required=False, allow_null=True)
