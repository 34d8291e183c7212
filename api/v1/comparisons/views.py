"""Comparisons: what several policies would decide about one problem, without storing anything."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.selectors import input_of, run_get
from allocator_service.allocation.what_if.evaluations import compare
from allocator_service.core.errors import DomainError, Missing
from api.auth import EVERY_SCOPE
from api.contract.fields import uuid_or_none
from api.openapi.describing import computes
from api.v1.comparisons.serializers import ComparisonDocument
from api.v1.evaluations.sizes import refuse_oversized_comparison
from api.v1.evaluations.views import admitted_evaluation
from api.v1.runs.inputs import input_for
from api.v1.runs.visibility import sees_whole
from api.views import ContractView
from policies import ComparisonRequest


class ComparisonsView(ContractView):
    scopes: ClassVar = {"POST": EVERY_SCOPE}
    large = True

    @computes(
        ComparisonRequest, ComparisonDocument, "Compare policies on a problem", problems=(404,)
    )
    def post(self, request: Request) -> Response:
        """Compute what 1 to 20 policies would decide on one problem, a column each, without storing
        anything.

        `input` is a problem as evaluations take it, whose own `policy` is ignored, or `{"run": id}`
        for the input of a stored run. A tenant key can name runs of transparent pools only
        (otherwise 404 `run.not_found`). A policy that cannot answer says why in the `error` of its
        column, and the others answer. All columns share the limits of one evaluation, 10 seconds
        included.
        """
        refuse_oversized_comparison(self.body)
        fields = self.read(ComparisonRequest)
        given = fields["input"]
        problem = self._stored(given) if "run" in given else given
        with admitted_evaluation(self.caller):
            try:
                return Response(compare({"include": ["properties"], **problem}, fields["policies"]))
            except DomainError as error:
                raise (error.under("/input") if error.errors else error) from error

    def _stored(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        run_id = uuid_or_none(given["run"]) if isinstance(given["run"], str) else None
        if run_id is None:
            raise Missing("There is no such run.", code="run.not_found")
        run = run_get(run_id=run_id, tenant=self.tenant)
        if not sees_whole(run.pool, self.tenant):
            raise Missing("There is no such run.", code="run.not_found")
        return input_for(input_of(run), pool=run.pool, caller=self.tenant)
