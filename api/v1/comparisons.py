"""Comparisons of what several policies decide about one problem."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.selectors import input_of, run_get
from allocator_service.allocation.what_if.evaluations import compare, refuse_low_limits
from allocator_service.core.errors import DomainError
from allocator_service.core.selecting import missing
from api.auth import EVERY_SCOPE
from api.contract import documents
from api.contract.fields import uuid_or_none
from api.contract.operations import computes
from api.v1.evaluations import CertificateDocument, admitted_evaluation, refuse_oversized_comparison
from api.v1.run_documents import MAX_ROWS, AllocationDocument, PlacementDocument
from api.v1.run_inputs import input_for, sees_whole
from api.views import ContractView
from policies import ComparisonRequest


class ColumnPolicy(documents.Document):
    """The policy of a column as requested. An unknown name or mode is an error of the column."""

    name = documents.StringField()
    mode = documents.StringField(required=False, allow_null=True)
    options = documents.ObjectField(required=False)


class ColumnError(documents.Document):
    code = documents.TextField(max_length=100)
    detail = documents.TextField(max_length=2_000)
    pointer = documents.TextField(max_length=1_000, blank=True)


class ColumnDocument(documents.Document):
    policy = documents.DocumentField(ColumnPolicy)
    error = documents.DocumentField(
        ColumnError,
        allow_null=True,
        description="Why this policy has no answer; the others still answer.",
    )
    seconds = documents.NumberField()
    allocations = documents.ListField(
        AllocationDocument, min_items=0, max_items=5_000, allow_null=True
    )
    min_weighted_share = documents.NumberField(allow_null=True)
    mean_weighted_share = documents.NumberField(allow_null=True)
    jain_index = documents.NumberField(allow_null=True)
    utilization = documents.PoolQuantitiesField(allow_null=True)
    objective = documents.NumberField(allow_null=True)
    bound = documents.NumberField(allow_null=True)
    gap = documents.NumberField(allow_null=True)
    sharing_degree = documents.ObjectField(allow_null=True)
    properties = documents.ObjectField(required=False)
    placements = documents.ListField(
        PlacementDocument, min_items=0, max_items=MAX_ROWS, required=False
    )
    certificate = documents.DocumentField(CertificateDocument, required=False, allow_null=True)
    schedule = documents.ObjectField(required=False, allow_null=True)
    history = documents.ObjectField(required=False)


class ComparisonDocument(documents.Document):
    columns = documents.ListField(ColumnDocument, max_items=20)


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
        (otherwise 404 `run.not_found`). A policy that cannot answer states why in the `error` of its
        column, and the others answer. All columns share the limits of one evaluation, 10 seconds
        included.
        """
        refuse_oversized_comparison(self.body)
        fields = self.read(ComparisonRequest)
        given = fields["input"]
        problem = self._stored(given) if "run" in given else given
        with admitted_evaluation(self.caller):
            try:
                refuse_low_limits(problem)
                return Response(compare({"include": ["properties"], **problem}, fields["policies"]))
            except DomainError as error:
                raise (error.under("/input") if error.errors else error) from error

    def _stored(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        run_id = uuid_or_none(given["run"]) if isinstance(given["run"], str) else None
        if run_id is None:
            raise missing("run.not_found")
        run = run_get(run_id=run_id, tenant=self.tenant)
        # The input has the demands of all members, which only transparent pools show.
        if not sees_whole(run.pool, self.tenant):
            raise missing("run.not_found")
        return input_for(input_of(run), pool=run.pool, caller=self.tenant)
