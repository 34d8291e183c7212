"""The policies a pool may have, with what their options may be."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.policies import policy_documents
from api.auth import EVERY_SCOPE_AND_AGENT
from api.contract.pagination import page_of_fixed
from api.contract.parameters import PageParameters
from api.openapi.describing import lists
from api.v1.policies.serializers import PolicyInfoDocument
from api.views import ContractView


class PoliciesView(ContractView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_AGENT}
    of_a_pool = ("GET",)
    parameters = PageParameters

    @lists(PolicyInfoDocument, "List the policies")
    def get(self, request: Request) -> Response:
        """List the policies that a pool can have, with their modes, the JSON Schema of their
        options, and their sources.

        Every key can read it. `long_term` policies keep a history; policies with `places` put tasks
        on servers and honour selectors.
        """
        page = page_of_fixed("policies", policy_documents(), **self.query)
        return self.listing(page, dict, list(PolicyInfoDocument.fields))
