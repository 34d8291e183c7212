"""Decisions as documents."""

from api.documents import DocumentField, StrictSerializer
from api.fields import IntegerField, SlugField, TimestampField
from api.parameters import Parameters
from api.v1.pools.serializers import MAX_GENERATION
from api.v1.runs.schedules import SlotInForceDocument
from api.v1.runs.serializers import RunDocument


class DecisionDocument(StrictSerializer):
    pool = SlugField()
    at = TimestampField()
    generation = IntegerField(minimum=0, maximum=MAX_GENERATION)
    run = DocumentField(RunDocument)
    slot = DocumentField(
        SlotInForceDocument,
        allow_null=True,
        help_text="The planned slot in force, of policies that plan.",
    )


class DecisionParameters(Parameters):
    at = TimestampField(required=False, help_text="The instant asked about; now if left out.")
