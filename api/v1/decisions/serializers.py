"""Decisions as documents."""

from api.contract.fields import SlugField, TimestampField
from api.contract.parameters import Parameters
from api.v1.pools.serializers import MAX_GENERATION
from api.v1.runs.schedules import SlotInForceDocument
from api.v1.runs.serializers import RunDocument
from policies.fields import Document, DocumentField, IntegerField


class DecisionDocument(Document):
    pool = SlugField()
    at = TimestampField()
    generation = IntegerField(minimum=0, maximum=MAX_GENERATION)
    run = DocumentField(RunDocument)
    slot = DocumentField(
        SlotInForceDocument,
        allow_null=True,
        description="The slot in force, for time-sharing policies.",
    )


class DecisionParameters(Parameters):
    at = TimestampField(required=False, description="The requested instant; now by default.")
