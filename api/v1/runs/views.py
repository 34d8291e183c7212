"""Runs: one computation of a pool's allocation each, with its rows, proof and input."""

from http import HTTPStatus
from typing import Any, ClassVar

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.audit.decisions import run_proof, run_verify
from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import certificate_of, input_of, run_get, runs_for
from allocator_service.allocation.services import run_request
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from api.auth import EVERY_SCOPE, OPERATOR
from api.contract.documents import NoFields
from api.contract.fields import uuid_or_none
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.openapi.describing import accepts, computes, lists, shows
from api.v1.evaluations.serializers import CertificateDocument, EvaluationRequest
from api.v1.runs.inputs import input_for
from api.v1.runs.rows import allocations_page, placements_page
from api.v1.runs.serializers import (
    AllocationDocument,
    AllocationParameters,
    PlacementDocument,
    ProofDocument,
    RunDocument,
    RunRequest,
    TenantAllocationDocument,
    VerificationDocument,
    run_document,
)
from api.views import ContractView, PoolView, writes

ORDERING = by_id("runs", descending=True)
RETRY_SECONDS = "1"


def sees_whole(pool: Pool, tenant: Tenant | None) -> bool:
    """Whether a caller may see what tells of all members of a pool."""
    return tenant is None or pool.transparent


class RunsView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PageParameters
    listed = True

    @lists(RunDocument, "List the runs of a pool, newest first")
    def get(self, request: Request, pool: str) -> Response:
        page = ORDERING.page(runs_for(self.tenant).filter(pool=self.pool), **self.query)
        whole = sees_whole(self.pool, self.tenant)
        return self.listing(
            page, lambda run: run_document(run, whole=whole), list(RunDocument.fields)
        )

    @accepts(RunRequest, RunDocument, "Ask for a new decision")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        pool_asked = self.pool
        fields = self.read(RunRequest)
        run = run_request(pool=pool_asked, reason=fields["reason"], now=utc_now())
        return Response(
            run_document(run, whole=True),
            HTTPStatus.ACCEPTED,
            headers={
                "Location": reverse("run", args=[run.pk]),
                "Retry-After": RETRY_SECONDS,
                "Pool-Generation": str(run.pool.generation),
            },
        )


class OneRunView(ContractView):
    """A route of one run, which is absent for whoever may not see its pool."""

    scopes: ClassVar = {"GET": EVERY_SCOPE}

    def run(self, text: str) -> Run:
        run_id = uuid_or_none(text)
        if run_id is None:
            raise Missing("There is no such run.", code="run.not_found")
        return run_get(run_id=run_id, tenant=self.tenant)

    def whole_run(self, text: str) -> Run:
        """The run, for whoever may see all of it."""
        run = self.run(text)
        if not sees_whole(run.pool, self.tenant):
            raise Missing("There is no such run.", code="run.not_found")
        return run


class RunView(OneRunView):
    @shows(RunDocument, "Show a run", headers=())
    def get(self, request: Request, run: str) -> Response:
        found = self.run(run)
        return Response(run_document(found, whole=sees_whole(found.pool, self.tenant)))


class AllocationsView(OneRunView):
    parameters = AllocationParameters
    listed = True

    @lists(
        AllocationDocument,
        "List what every workload got; a tenant sees its own",
        other_rows=TenantAllocationDocument,
    )
    def get(self, request: Request, run: str) -> Response:
        return allocations_page(self, self.run(run))


class PlacementsView(OneRunView):
    parameters = PageParameters
    listed = True

    @lists(PlacementDocument, "List where tasks run; a tenant sees its own", problems=(410,))
    def get(self, request: Request, run: str) -> Response:
        return placements_page(self, self.run(run))


class CertificateView(OneRunView):
    @shows(CertificateDocument, "Show the proof of a run", headers=(), problems=(410,))
    def get(self, request: Request, run: str) -> Response:
        return Response(certificate_of(self.whole_run(run)))


class InputView(OneRunView):
    @shows(EvaluationRequest, "Show what a run computed from", headers=(), problems=(410,))
    def get(self, request: Request, run: str) -> Response:
        found = self.whole_run(run)
        return Response(input_for(input_of(found), pool=found.pool, caller=self.tenant))


class ProofView(OneRunView):
    @shows(ProofDocument, "Take a decision's proof home", headers=(), problems=(409, 410))
    def get(self, request: Request, run: str) -> Response:
        found = self.whole_run(run)
        document = input_for(input_of(found), pool=found.pool, caller=self.tenant)
        return Response({"run": found.pk, "pool": found.pool.slug, **run_proof(found, document)})


class VerifyView(OneRunView):
    scopes: ClassVar = {"POST": EVERY_SCOPE}

    @computes(NoFields, VerificationDocument, "Verify a decision again", problems=(409, 410))
    def post(self, request: Request, run: str) -> Response:
        found = self.whole_run(run)
        self.read(NoFields)
        verification: dict[str, Any] = run_verify(found)
        if self.tenant is not None:
            for check in verification["checks"]:
                check["detail"] = ""  # it may name what other members run
        return Response(verification)
