"""Runs, each one computation of a pool's allocation."""

from http import HTTPStatus
from typing import Any, ClassVar

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.allocation_rows import AllocationRows
from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.models import Run
from allocator_service.allocation.placement_list import PlacementList
from allocator_service.allocation.selectors import (
    certificate_of,
    demands_of,
    input_of,
    runs_for,
)
from allocator_service.allocation.services import run_request
from allocator_service.core.clock import utc_now
from allocator_service.core.selecting import missing
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from api.auth import EVERY_SCOPE, EVERY_SCOPE_AND_GROUP, OPERATOR
from api.contract import documents
from api.contract.operations import accepts, computes, lists, shows
from api.contract.pagination import by_id, page_of_fixed
from api.contract.parameters import PageParameters
from api.pseudonyms import groups_known
from api.subtrees import Subtree, subtree_of
from api.v1.evaluations import CertificateDocument, EvaluationRequest
from api.v1.run_documents import (
    AllocationDocument,
    AllocationParameters,
    PlacementDocument,
    ProofDocument,
    RowWriter,
    RunDocument,
    RunReader,
    RunRequest,
    TenantAllocationDocument,
    VerificationDocument,
    allocation_columns,
    placement_columns,
    tenant_allocation_columns,
)
from api.v1.run_inputs import input_for, proof_for, reader_of, visible_run, whole_run
from api.views import ContractView, PoolView, writes


def allocations_page(view: ContractView, run: Run, subtree: Subtree | None) -> Response:
    """Answer a page of allocations by workload, or by tenant with `?by=tenant`.

    `subtree` is that of a group's key.
    """
    query = view.query
    resources = resources_of(run.pool)
    if subtree is not None:
        writer = RowWriter(run, resources, None, subtree.groups_of_run(run))
        # By the tree of the run: a tenant that came to the group later was of another one then.
        rows = AllocationRows(run, list(subtree.of_run(run)))
    else:
        known = groups_known(pool=run.pool, caller=view.tenant)
        writer = RowWriter(run, resources, view.tenant, known)
        limit = _limit(run, view.tenant)
        rows = AllocationRows(run, None if limit is None else [limit.pk])
    if query["by"] == "tenant":
        page = page_of_fixed(
            f"sums:{run.pk}", writer.sums(rows), cursor=query["cursor"], limit=query["limit"]
        )
        return view.listing(page, dict, tenant_allocation_columns(resources))
    page = page_of_fixed(
        f"allocations:{run.pk}", rows, cursor=query["cursor"], limit=query["limit"]
    )
    return view.listing(page, writer.allocation, allocation_columns(resources))


def placements_page(view: ContractView, run: Run) -> Response:
    """Answer a page of placements."""
    resources = resources_of(run.pool)
    writer = RowWriter(run, resources, view.tenant, groups_known(pool=run.pool, caller=view.tenant))
    rows = PlacementList(run, _limit(run, view.tenant))
    page = page_of_fixed(f"placements:{run.pk}", rows, **view.query)
    demands = demands_of(run)
    return view.listing(
        page,
        lambda row: writer.placement(row, demands[row.workload_id]),
        placement_columns(resources),
    )


def _limit(run: Run, tenant: Tenant | None) -> Tenant | None:
    """Return the tenant to whose rows the page is limited, None for all."""
    # In a transparent pool all rows are shown, and the writer puts pseudonyms for other tenants.
    return None if run.pool.transparent else tenant


ORDERING = by_id("runs", descending=True)

RETRY_SECONDS = "1"


class RunsView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP, "POST": OPERATOR}
    parameters = PageParameters

    @lists(RunDocument, "List the runs of a pool, newest first")
    def get(self, request: Request, pool: str) -> Response:
        """List the runs of a pool, newest first, including those that failed or still wait.

        A tenant key sees the runs of its pools, a group key those of its pool; unless the pool is
        transparent, `reason`, `input_digest`, `solve_seconds` and `summary` are null.
        """
        runs = runs_for(None if self.subtree is not None else self.tenant)
        page = ORDERING.page(runs.filter(pool=self.pool), **self.query)
        reader = reader_of(self, self.pool)
        return self.listing(
            page, lambda run: RunDocument.write(run, reader), list(RunDocument.fields)
        )

    @accepts(RunRequest, RunDocument, "Ask for a new decision")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Ask for a new decision although nothing has changed.

        Operators only. Changes ask for their decisions themselves, so this is rarely needed. While
        a run of the pool is pending, further requests are answered with that run. Under a long-term
        policy the run waits for the next boundary of the decision interval. Follow `Location` until
        the `status` is final.
        """
        # Before the body is read: a pool that the caller may not see is 404 even if the body is
        # wrong.
        pool_asked = self.pool
        fields = self.read(RunRequest)
        run = run_request(pool=pool_asked, reason=fields["reason"], now=utc_now())
        return Response(
            RunDocument.write(run, RunReader(whole=True, names=True)),
            HTTPStatus.ACCEPTED,
            headers={
                "Location": reverse("run", args=[run.pk]),
                "Retry-After": RETRY_SECONDS,
                "Pool-Generation": str(run.pool.generation),
            },
        )


class OneRunView(ContractView):
    """A route of one run, which is missing to callers that may not see its pool."""

    scopes: ClassVar = {"GET": EVERY_SCOPE}
    of_a_pool = ("GET", "POST")

    def run(self, text: str) -> Run:
        caller = None if self.caller.group is not None else self.tenant
        return self._of_the_keys_pool(visible_run(text, caller=caller))

    def subtree(self, run: Run) -> Subtree | None:
        """Return the limit of a group's key in a run's pool, or None for every other key."""
        group = self.caller.group
        return None if group is None else subtree_of(group=group, pool=run.pool)

    def whole_run(self, text: str) -> Run:
        return self._of_the_keys_pool(whole_run(text, caller=self.tenant))

    def _of_the_keys_pool(self, run: Run) -> Run:
        # The path names no pool: a key that is bound to one could otherwise read runs of all.
        if self.caller.pool not in ("", run.pool.slug):
            raise missing("run.not_found")
        return run


class RunView(OneRunView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}

    @shows(RunDocument, "Show a run", headers=())
    def get(self, request: Request, run: str) -> Response:
        """Show one run, with its status, its time in force, its policy and its summary.

        Summaries are kept for good. A tenant key sees the runs of its pools, and a group key those
        of its pool; unless the pool is transparent, `reason`, `input_digest`, `solve_seconds` and
        `summary` are null. A failed run states why in `error`, and the decision before it stays in
        force.
        """
        found = self.run(run)
        return Response(RunDocument.write(found, reader_of(self, found.pool)))


class AllocationsView(OneRunView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    parameters = AllocationParameters

    @lists(
        AllocationDocument,
        "List what every workload got; a tenant sees its own",
        other_rows=TenantAllocationDocument,
    )
    def get(self, request: Request, run: str) -> Response:
        """List what a run gave to every workload, or with `by=tenant` to every tenant.

        `limited_by` states why a workload did not get more. A tenant key sees its own rows; in a
        transparent pool it sees all of them, the others under pseudonyms. A group key sees the rows
        of the tenants that were below its group when the run began. The rows of a run never change
        and are kept for good.
        """
        found = self.run(run)
        return allocations_page(self, found, self.subtree(found))


class PlacementsView(OneRunView):
    parameters = PageParameters

    @lists(PlacementDocument, "List where tasks run; a tenant sees its own", problems=(410,))
    def get(self, request: Request, run: str) -> Response:
        """List on which servers a run put the tasks.

        A row names one `server`, or in `servers` a range of identical ones, in which `tasks` and
        `resources` are those on each server. A tenant key sees its own tasks; in a transparent pool
        it sees all of them, with pseudonyms for other tenants, their workloads and their servers.
        Placements are kept for a time, by default 90 days, after the decision was in force; then
        the answer is 410 `run.pruned`.
        """
        return placements_page(self, self.run(run))


class CertificateView(OneRunView):
    @shows(CertificateDocument, "Show the proof of a run", headers=(), problems=(409, 410))
    def get(self, request: Request, run: str) -> Response:
        """Show the certificate that proves the optimality of a run, by rounds with their prices.

        For operator and billing keys, and for members of a transparent pool; other tenants get 404
        `run.not_found`. A run that did not succeed, or whose policy has no certificates, answers
        404 `certificate.none`; once its retention is over, the answer is 410 `run.pruned`.
        """
        return Response(certificate_of(self.whole_run(run)))


class InputView(OneRunView):
    @shows(EvaluationRequest, "Show what a run computed from", headers=(), problems=(409, 410))
    def get(self, request: Request, run: str) -> Response:
        """Show the snapshot that a run computed from, in the shape of an evaluation.

        Sent to `POST /evaluations/`, within the limits there, it gives the same decision. For
        operator and billing keys, and for members of a transparent pool, who see other tenants'
        names and labels as pseudonyms; other tenants get 404 `run.not_found`. A run that has not
        read its input yet answers 404 `run.no_input`; once its retention is over, the
        answer is 410 `run.pruned`.
        """
        found = self.whole_run(run)
        return Response(input_for(input_of(found), pool=found.pool, caller=self.tenant))


class ProofView(OneRunView):
    @shows(ProofDocument, "Take a decision's proof home", headers=(), problems=(409, 410))
    def get(self, request: Request, run: str) -> Response:
        """Return input, answer with certificate, and digests of a decision for others to verify.

        Save it and check it elsewhere with `python -m policies verify FILE`. For operator and
        billing keys, and for members of a transparent pool, whose copy has pseudonyms and verifies
        all the same; other tenants get 404 `run.not_found`. A run that failed, or has not ended,
        answers 409 `run.not_succeeded`, one whose stored decision cannot be read 409
        `run.unreadable`; once its retention is over, the answer is 410 `run.pruned`.
        """
        return Response(proof_for(self.whole_run(run), caller=self.tenant))


class VerifyView(OneRunView):
    scopes: ClassVar = {"POST": EVERY_SCOPE}

    @computes(
        documents.NoFields, VerificationDocument, "Verify a decision again", problems=(409, 410)
    )
    def post(self, request: Request, run: str) -> Response:
        """Check a stored decision again without a solver.

        Checked are feasibility, shares, the optimality proof and the digests in the pool's chain.

        It stores nothing and can be repeated. `valid` is true when every check holds. For operator
        and billing keys, and for members of a transparent pool, for whom the `detail` of each check
        is empty; other tenants get 404 `run.not_found`. A run that did not succeed answers 409
        `run.not_succeeded`; once its retention is over, the answer is 410 `run.pruned`.
        """
        found = self.whole_run(run)
        self.read(documents.NoFields)
        verification: dict[str, Any] = run_verify(found)
        if self.tenant is not None:
            for check in verification["checks"]:
                check["detail"] = ""  # it may name what other members run
        return Response(verification)
