"""The policies that a pool can have, with the schemas of their options."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.policies import policy_documents
from api.auth import EVERY_SCOPE_AND_AGENT
from api.contract import documents
from api.contract.operations import lists
from api.contract.pagination import page_of_fixed
from api.contract.parameters import PageParameters
from api.versions import conditional, of_release
from api.views import ContractView


class PolicyInfoDocument(documents.Document):
    name = documents.TextField(max_length=63)
    title = documents.TextField(max_length=200, description="Name of the policy for people.")
    description = documents.TextField(max_length=1000)
    modes = documents.texts_field()
    options = documents.ObjectField(description="The JSON Schema of the policy's options.")
    complexity = documents.TextField(max_length=1000)
    source = documents.TextField(max_length=1000)
    long_term = documents.BooleanField(
        description="It keeps a history, limited by the pool's window."
    )
    places = documents.BooleanField(description="It places tasks on servers and honours selectors.")
    gangs = documents.BooleanField(
        description="With whole tasks it places each of the `pieces` of a task on a server."
    )


class PoliciesView(ContractView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_AGENT}
    of_a_pool = ("GET",)
    parameters = PageParameters

    @conditional(of_release)
    @lists(PolicyInfoDocument, "List the policies")
    def get(self, request: Request) -> Response:
        """List the policies that a pool can have, with their modes, the JSON Schema of their
        options, and their sources.

        Every key can read it. `long_term` policies keep a history; policies with `places` put tasks
        on servers and honour selectors.
        """
        page = page_of_fixed("policies", policy_documents(), **self.query)
        return self.listing(page, dict, list(PolicyInfoDocument.fields))
