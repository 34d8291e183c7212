"""Evaluations: what a policy would decide, without storing anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.what_if.evaluations import evaluate
from allocator_service.core.errors import Unacceptable
from api.auth import EVERY_SCOPE, Caller
from api.contract.errors import TooManyRequests
from api.limiter import limiter
from api.openapi.describing import computes
from api.v1.evaluations.serializers import EvaluationDocument, EvaluationRequest
from api.v1.evaluations.sizes import refuse_oversized_evaluation
from api.views import ContractView

RETRY_SECONDS = 1


class EvaluationsView(ContractView):
    of_a_pool = ("POST",)  # it reads nothing that is stored
    scopes: ClassVar = {"POST": EVERY_SCOPE}
    large = True

    @computes(EvaluationRequest, EvaluationDocument, "Evaluate a policy on a problem", problems=())
    def post(self, request: Request) -> Response:
        """Compute what a policy would decide on the problem in the body, without storing anything.

        The engine is the one that decides for pools; `include` adds placements, certificate,
        properties, schedule and explanations. For a long-term policy one call is one step: send
        `history` of the answer back to continue. A problem has at most 2,000 tenants, 5,000
        workloads and 1,000 distinct kinds of servers (413 `evaluation.too_large`), and its
        computation takes at most 10 seconds (503 `evaluation.timeout`). A key, or a tenant by all
        its keys, may have two evaluations running by default (429 `evaluation.too_many`).
        """
        refuse_oversized_evaluation(self.body)
        document = self.sent()
        if not isinstance(document, dict):
            raise Unacceptable("Expected an object.", code="field.type", pointer="")
        with admitted_evaluation(self.caller):
            return Response(evaluate(document))


@contextmanager
def admitted_evaluation(caller: Caller) -> Iterator[None]:
    """Hold one of the caller's places for evaluations. Raises `TooManyRequests` if it has none left.

    A tenant has its places by all of its keys together.
    """
    holder = str(caller.holder_id) if caller.tenant is None else f"tenant:{caller.tenant.slug}"
    with limiter().evaluation(holder=holder) as admitted:
        if not admitted:
            raise TooManyRequests(
                f"You have {settings.ENVIRONMENT.evaluations_at_once} evaluations running.",
                code="evaluation.too_many",
                retry_after=RETRY_SECONDS,
            )
        yield
