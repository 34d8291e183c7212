"""Simulations: what a pool's decision would be, computed by a worker, deciding nothing."""

from decimal import Decimal
from http import HTTPStatus
from typing import Any, ClassVar
from uuid import UUID

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.models import Simulation
from allocator_service.allocation.policies import plain_options
from allocator_service.allocation.what_if.simulations import (
    simulation_get,
    simulation_request,
    simulations_of,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing, Unacceptable
from allocator_service.core.quantities import decimal_text
from api.auth import OPERATOR_AND_TENANT
from api.contract.fields import uuid_or_none
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.openapi.describing import accepts, lists, shows
from api.v1.simulations.serializers import (
    OMITTED,
    SimulationDocument,
    SimulationRequest,
    simulation_document,
)
from api.views import ContractView, PoolView, writes

ORDERING = by_id("simulations", descending=True)
RETRY_SECONDS = "1"
NULLABLE = {"tasks", "group", "parent"}


class SimulationsView(PoolView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT, "POST": OPERATOR_AND_TENANT}
    parameters = PageParameters

    @lists(SimulationDocument, "List the simulations of a pool, newest first")
    def get(self, request: Request, pool: str) -> Response:
        """List the simulations of a pool, newest first.

        An operator sees all of them; a tenant key sees those that the tenant asked for, with its
        own rows of the results.
        """
        page = ORDERING.page(simulations_of(pool=self.pool, tenant=self.tenant), **self.query)
        return self.listing(page, self._shown, list(SimulationDocument.fields))

    @accepts(SimulationRequest, SimulationDocument, "Ask what changes of a pool would do")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Ask what a pool's decision would be after some changes to its live state.

        A worker computes it; follow `Location` for the result, before and after. It decides nothing
        and records no event. A tenant key can change its own workloads only (422
        `simulation.scope`). An operator can also change servers, groups, members, weights and the
        policy. With 20 simulations already waiting in the pool, counted per tenant and for all operators
        together, the answer is 409 `simulation.too_many`.
        """
        pool_asked = self.pool
        simulation = simulation_request(
            pool=pool_asked, tenant=self.tenant, changes=self._changes(), now=utc_now()
        )
        return Response(
            self._shown(simulation),
            HTTPStatus.ACCEPTED,
            headers={
                "Location": reverse("simulation", args=[simulation.pk]),
                "Retry-After": RETRY_SECONDS,
                "Pool-Generation": str(pool_asked.generation),
            },
        )

    def _changes(self) -> dict[str, Any]:
        """What the body names; a tenant's key may leave out that the tenant is itself."""
        read = self.read(SimulationRequest)
        if read["policy"] is not None:
            read["policy"]["options"] = plain_options(read["policy"]["options"])
        changes: dict[str, Any] = _named(read)
        for position, submitted in enumerate(changes.get("workloads", {}).get("submit", [])):
            if "tenant" not in submitted:
                if self.tenant is None:
                    raise Unacceptable(
                        '"tenant" is required.',
                        code="field.required",
                        pointer=f"/workloads/submit/{position}/tenant",
                    )
                submitted["tenant"] = self.tenant.slug
        return changes

    def _shown(self, simulation: Simulation) -> dict[str, Any]:
        return simulation_document(simulation, self.tenant)


class SimulationView(ContractView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT}
    of_a_pool = ("GET",)

    @shows(SimulationDocument, "Show a simulation", headers=())
    def get(self, request: Request, simulation: str) -> Response:
        """Show a simulation and, once it succeeded, its result before and after the changes.

        A failed one says why in `error`, such as a change that the pool cannot take. A tenant key
        sees the simulations that the tenant asked for, with its own rows and without the pool's
        summary; any other id answers 404 `simulation.not_found`.
        """
        simulation_id = uuid_or_none(simulation)
        if simulation_id is None:
            raise Missing("There is no such simulation.", code="simulation.not_found")
        found = simulation_get(simulation_id=simulation_id, tenant=self.tenant)
        if self.caller.pool not in ("", found.pool.slug):
            raise Missing("There is no such simulation.", code="simulation.not_found")
        return Response(simulation_document(found, self.tenant))


def _named(value: Any) -> Any:
    """A document without the fields that were left out.

    `NULLABLE` fields may be null. Ids and exact numbers become texts, as JSON keeps them.
    """
    if isinstance(value, dict):
        return {
            key: _named(item)
            for key, item in value.items()
            if item is not OMITTED and (item is not None or key in NULLABLE)
        }
    if isinstance(value, list):
        return [_named(item) for item in value]
    if isinstance(value, Decimal):
        return decimal_text(value)
    return str(value) if isinstance(value, UUID) else value
