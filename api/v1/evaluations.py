"""Evaluations of one problem, which store nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import msgspec
from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

import policies
from allocator_service.allocation.what_if.evaluations import (
    MAX_COUNT,
    MAX_ITEMS,
    evaluate,
    refuse_kinds,
    refuse_many,
)
from allocator_service.core.errors import Unacceptable
from api.auth import EVERY_SCOPE, Caller
from api.contract import documents
from api.contract.errors import TooManyRequests
from api.contract.operations import computes
from api.limiter import limiter
from api.v1.reports.documents import AmountsField
from api.v1.run_documents import MAX_ROWS, AllocationDocument, PlacementDocument, SummaryDocument
from api.views import ContractView
from policies.fields import Schema

_OF_CLASSES: Schema = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
_PRICES: Schema = {
    "anyOf": [_OF_CLASSES, {"type": "array", "items": {"type": "number"}}],
    "description": "Per server class, per resource: in shares of the pool. Of tda: per tenant.",
}
_DIVISIBLE_PRICES: Schema = {
    **_OF_CLASSES,
    "description": "Of tda: what proves the bound of divisible tasks, per server class, per resource.",
}
_MIX_PRICES: Schema = {
    **_OF_CLASSES,
    "description": "Of ceei's second stage: rows of prices per resource that prove the first stage's "
    "mix of workloads. Omitted where the rounds' prices prove it.",
}
_INDICES: Schema = {
    "type": "array",
    "items": {"type": "integer", "minimum": -1},
    "description": "Per tenant the round in which its share was frozen; -1: it has nothing to run.",
}


class EvaluationRequest(policies.EvaluationRequest):
    """An evaluation, as large as they may be."""

    servers = policies.EvaluationRequest.servers.at_most(MAX_COUNT)
    tenants = policies.EvaluationRequest.tenants.at_most(MAX_ITEMS["tenants"])
    workloads = policies.EvaluationRequest.workloads.at_most(MAX_ITEMS["workloads"])
    running = policies.EvaluationRequest.running.at_most(MAX_COUNT)
    kept = policies.EvaluationRequest.kept.at_most(MAX_COUNT)


class RoundDocument(documents.Document):
    stage = documents.IntegerField(minimum=0, maximum=MAX_ROWS)
    level = documents.NumberField()
    bound = documents.NumberField()
    prices = documents.SchemaField(schema=_PRICES)
    proven = documents.BooleanField(
        required=False,
        description="False where the round is left open: only its bound is proven.",
    )
    mix_prices = documents.SchemaField(schema=_MIX_PRICES, required=False)


class CertificateDocument(documents.Document):
    rounds = documents.ListField(RoundDocument, min_items=0, max_items=MAX_ROWS)
    frozen_in = documents.SchemaField(schema=_INDICES)
    divisible_prices = documents.SchemaField(schema=_DIVISIBLE_PRICES, required=False)


class GroupRowDocument(documents.Document):
    name = documents.StringField()
    level = documents.NumberField(
        allow_null=True,
        description="Largest share of any resource that its tenants hold, over its weight.",
    )
    resources = AmountsField(description="Resources that the tasks of its tenants use.")
    frozen_in = documents.IntegerField(
        minimum=0, maximum=MAX_ROWS, allow_null=True,
        description="Round in which the last of its tenants was frozen; null without a certificate.",
    )  # fmt: skip


class EvaluationDocument(documents.Document):
    allocations = documents.ListField(AllocationDocument, min_items=0, max_items=5_000)
    summary = documents.DocumentField(SummaryDocument)
    groups = documents.ListField(
        GroupRowDocument, min_items=0, max_items=MAX_ROWS, required=False,
        description="Of a problem with groups: a row each, in order.",
    )  # fmt: skip
    placements = documents.ListField(
        PlacementDocument, min_items=0, max_items=MAX_ROWS, required=False
    )
    certificate = documents.DocumentField(CertificateDocument, required=False, allow_null=True)
    history = documents.ObjectField(
        required=False,
        description="History after the step, for long-term policies: send it back to continue.",
    )
    explanations = documents.SchemaField(
        schema={
            "type": "array",
            "items": {"type": "object"},
            "description": "Per tenant: shares, level, workloads, binding, neighbours, sentence.",
        },
        required=False,
    )
    properties = documents.ObjectField(
        required=False, description="Each with holds (true, false, null), worst and reason."
    )
    schedule = documents.ObjectField(required=False, allow_null=True)


_ABSENT = msgspec.Raw(b"null")


class _Server(msgspec.Struct, gc=False):
    capacity: msgspec.Raw = _ABSENT
    labels: msgspec.Raw = _ABSENT
    count: msgspec.Raw = msgspec.Raw(b"1")


class _Problem(msgspec.Struct):
    tenants: list[msgspec.Raw] = []
    workloads: list[msgspec.Raw] = []
    servers: list[_Server] = []


class _Comparison(msgspec.Struct):
    input: _Problem


_problem, _comparison = msgspec.json.Decoder(_Problem), msgspec.json.Decoder(_Comparison)


def refuse_oversized_evaluation(body: bytes) -> None:
    """Refuse a long body of an evaluation for its size, without making objects of what it holds.

    The strict reader, twenty times slower, reports the errors of a body that
    cannot be read here. Raises `TooLarge`.
    """
    _refuse(body, _problem.decode)


def refuse_oversized_comparison(body: bytes) -> None:
    """The same for the `input` of a comparison."""
    _refuse(body, lambda body: _comparison.decode(body).input)


def _refuse(body: bytes, problem_in: Callable[[bytes], _Problem]) -> None:
    # A short body cannot exceed the limits by enough to matter, and is read once.
    if len(body) <= settings.BODY_BYTES:
        return
    # What this reader cannot read is reported by the strict one, with its place.
    with suppress(msgspec.DecodeError, RecursionError):
        problem = problem_in(body)
        refuse_many("tenants", len(problem.tenants))
        refuse_many("workloads", len(problem.workloads))
        refuse_kinds(map(_read, problem.servers))


def _read(server: _Server) -> dict[str, Any]:
    names = ("capacity", "labels", "count")
    return {name: msgspec.json.decode(getattr(server, name)) for name in names}


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
        document = self.body_value()
        if not isinstance(document, dict):
            raise Unacceptable("Expected an object.", code="field.type", pointer="")
        with admitted_evaluation(self.caller):
            return Response(evaluate(document))


@contextmanager
def admitted_evaluation(caller: Caller) -> Iterator[None]:
    """Hold one of the caller's places for evaluations. Raises `TooManyRequests` if it has none left.

    A tenant has its places by all of its keys together.
    """
    # By tenant: with a place for each key, more keys would be more computing time.
    holder = str(caller.holder_id) if caller.tenant is None else f"tenant:{caller.tenant.slug}"
    with limiter().evaluation(holder=holder) as admitted:
        if not admitted:
            raise TooManyRequests(
                f"You have {settings.ENVIRONMENT.evaluations_at_once} evaluations running.",
                code="evaluation.too_many",
                retry_after=RETRY_SECONDS,
            )
        yield
