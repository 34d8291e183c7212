"""Policies as documents."""

from api.contract.fields import texts_field
from policies.fields import BooleanField, Document, ObjectField, TextField


class PolicyInfoDocument(Document):
    name = TextField(max_length=63)
    title = TextField(max_length=200, description="Name of the policy for people.")
    description = TextField(max_length=1000)
    modes = texts_field()
    options = ObjectField(description="The JSON Schema of the policy's options.")
    complexity = TextField(max_length=1000)
    source = TextField(max_length=1000)
    long_term = BooleanField(description="It keeps a history, limited by the pool's window.")
    places = BooleanField(description="It places tasks on servers and honours selectors.")
