"""Policies as documents."""

from api.documents import StrictSerializer
from api.fields import BooleanField, TextField
from api.structures import ObjectField, TextsField


class PolicyInfoDocument(StrictSerializer):
    name = TextField(max_length=63)
    description = TextField(max_length=1000)
    modes = TextsField()
    options = ObjectField(help_text="The JSON Schema of the policy's options.")
    complexity = TextField(max_length=1000)
    source = TextField(max_length=1000)  # type: ignore[assignment]
    long_term = BooleanField(help_text="It remembers, through the pool's window.")
    places = BooleanField(help_text="It decides on servers, and so honours selectors.")
