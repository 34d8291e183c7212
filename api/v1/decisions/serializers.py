"""Decisions as documents."""

from api.contract.fields import GenerationField, SlugField, TimestampField
from api.contract.parameters import Parameters
from api.v1.runs.schedules import SlotInForceDocument
from api.v1.runs.serializers import RunDocument
from policies.fields import Document, DocumentField


class DecisionDocument(Document):
    pool = SlugField()
    at = TimestampField()
    generation = GenerationField()
    run = DocumentField(RunDocument)
    slot = DocumentField(
        SlotInForceDocument,
        allow_null=True,
        description="The slot in force, for time-sharing policies.",
    )


class DecisionParameters(Parameters):
    at = TimestampField(required=False, description="The requested instant; now by default.")
