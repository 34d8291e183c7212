"""Comparisons: what several policies would decide about one problem, without storing anything."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.selectors import input_of, run_get
from allocator_service.allocation.what_if.evaluations import compare
from allocator_service.core.errors import Missing, Unacceptable, Unreadable
from api.auth import EVERY_SCOPE
from api.describing import computes
from api.fields import uuid_or_none
from api.v1.comparisons.serializers import (
    MAX_POLICIES,
    ComparisonDocument,
    ComparisonRequest,
)
from api.v1.evaluations.quantities import plain_document
from api.v1.evaluations.sizes import refuse_oversized_comparison
from api.v1.evaluations.views import admitted_evaluation
from api.v1.runs.inputs import input_for
from api.v1.runs.views import sees_whole
from api.views import ContractView

FIELDS = ("policies", "input")


class ComparisonsView(ContractView):
    scopes: ClassVar = {"POST": EVERY_SCOPE}
    large = True

    @computes(
        ComparisonRequest, ComparisonDocument, "Compare policies on a problem", problems=(404,)
    )
    def post(self, request: Request) -> Response:
        refuse_oversized_comparison(self.body)
        document = self.document()
        if not isinstance(document, dict):
            raise Unacceptable("A comparison is an object.", code="field.type", pointer="")
        for name in document.keys() - set(FIELDS):
            raise Unreadable(
                f"{name!r} is not known here; there are {', '.join(FIELDS)}.",
                code="field.unknown",
                pointer=f"/{name}",
            )
        policies, given = document.get("policies"), document.get("input")
        if not isinstance(policies, list) or not 0 < len(policies) <= MAX_POLICIES:
            raise Unacceptable(
                f"policies lists 1 to {MAX_POLICIES} policies.",
                code="comparison.policies",
                pointer="/policies",
            )
        if not isinstance(given, dict):
            raise Unacceptable(
                "input is an evaluation, or the id of a run whose input is taken.",
                code="field.type",
                pointer="/input",
            )
        problem = self._stored(given) if "run" in given else plain_document(given)
        with admitted_evaluation(self.caller):
            return Response(compare({"include": ["properties"], **problem}, policies))

    def _stored(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        run_id = uuid_or_none(given["run"]) if isinstance(given["run"], str) else None
        if run_id is None:
            raise Missing("There is no such run.", code="run.not_found")
        run = run_get(run_id=run_id, tenant=self.tenant)
        if not sees_whole(run.pool, self.tenant):
            raise Missing("There is no such run.", code="run.not_found")
        return input_for(input_of(run), pool=run.pool, caller=self.tenant)
