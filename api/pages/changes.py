"""Pages on which a tenant submits, changes and withdraws its workloads.

A simulation tries the change. It is made once the tenant confirms the result.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.allocation.models import Simulation, SimulationStatus
from allocator_service.allocation.what_if.applying import simulation_apply
from allocator_service.allocation.what_if.simulations import simulation_get, simulation_request
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError, Missing
from allocator_service.core.history import Difference
from allocator_service.pools.clusters import clusters_away
from allocator_service.pools.gangs import gang_refusal
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.workloads.gangs import MAX_KINDS
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.reason_texts import TENANT, clusters_away_text, reason_text
from allocator_service.workloads.selectors import workloads_for
from api.contract.fields import uuid_or_none
from api.pages.views import PoolPage, see
from api.pages.workload_differences import workload_differences
from api.pages.workload_forms import WorkloadForm
from api.v1.costs import CostReader
from api.v1.simulations import SimulationDocument

SUBMIT, CHANGE, WITHDRAW = "submit", "change", "withdraw"
_VERBS = {SUBMIT: "Submit", CHANGE: "Change", WITHDRAW: "Withdraw"}


class _ChangesPage(PoolPage):
    http_method_names = ("get", "head", "post")  # type: ignore[assignment]

    def workload_of(self, pool: Pool) -> Workload:
        """The tenant's workload that the path names. Raises `Missing` for any other."""
        workload_id = uuid_or_none(str(self.kwargs["workload"]))
        mine = workloads_for(pool=pool, tenant=self.tenant)
        present = mine.exclude(state=WorkloadState.WITHDRAWN)
        found = present.filter(pk=workload_id).first() if workload_id is not None else None
        if found is None:
            raise Missing("There is no such workload.", code="workload.not_found")
        return found

    def tried(self, pool: Pool, workloads: Mapping[str, Any]) -> HttpResponseBase:
        """Start a simulation of the changes, and go to the page of its result."""
        simulation = simulation_request(
            pool=pool, tenant=self.tenant, changes={"workloads": dict(workloads)}, now=utc_now()
        )
        return see("my-change", pool.slug, simulation.pk)

    def answered(
        self, pool: Pool, form: WorkloadForm, workload: Workload | None
    ) -> HttpResponseBase:
        """Show a form that is new or wrong."""
        status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
        return self.shown("workload_form", status=status, pool=pool, form=form, workload=workload)


class SubmitWorkloadPage(_ChangesPage):
    """Form for one more workload."""

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        of_pool = self.pool
        form = _form(of_pool)
        return self.answered(of_pool, form, None)

    def post(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        of_pool = self.pool
        form = _form(of_pool, request.POST)
        if form.is_valid():
            name = form.workload["name"]
            mine = workloads_for(pool=of_pool, tenant=self.tenant).filter(name=name)
            if mine.exclude(state=WorkloadState.WITHDRAWN).exists():
                form.add_error("name", "You have a workload of this name in the pool.")
        if not form.is_valid():
            return self.answered(of_pool, form, None)
        submitted = {"tenant": self.tenant.slug, "name": name, **form.changes()}
        return self.tried(of_pool, {"submit": [submitted]})


class ChangeWorkloadPage(_ChangesPage):
    """Form with the present terms of a workload."""

    def get(self, request: HttpRequest, pool: str, workload: str) -> HttpResponseBase:
        of_pool = self.pool
        found = self.workload_of(of_pool)
        form = _form(of_pool, workload=found)
        return self.answered(of_pool, form, found)

    def post(self, request: HttpRequest, pool: str, workload: str) -> HttpResponseBase:
        of_pool = self.pool
        found = self.workload_of(of_pool)
        form = _form(of_pool, request.POST, workload=found)
        if not form.is_valid():
            return self.answered(of_pool, form, found)
        change = {"id": str(found.pk), **form.changes()}
        # With the version of the form: a change by others meanwhile is refused, not overwritten.
        return self.tried(of_pool, {"change": [change], "versions": {str(found.pk): found.version}})


class WithdrawWorkloadView(_ChangesPage):
    """Starts a simulation of the pool without a workload."""

    http_method_names = ("post",)  # type: ignore[assignment]

    def post(self, request: HttpRequest, pool: str, workload: str) -> HttpResponseBase:
        of_pool = self.pool
        found = self.workload_of(of_pool)
        id_ = str(found.pk)
        return self.tried(of_pool, {"withdraw": [id_], "versions": {id_: found.version}})


class ChangePage(CostReader, _ChangesPage):
    """Result of a simulated change, and the button that makes it."""

    def get(self, request: HttpRequest, pool: str, change: str) -> HttpResponseBase:
        of_pool = self.pool
        return self._result(of_pool, self._simulation(of_pool))

    def post(self, request: HttpRequest, pool: str, change: str) -> HttpResponseBase:
        of_pool = self.pool
        simulation = self._simulation(of_pool)
        # What was not shown cannot be confirmed, by an old page or by a form of one's own.
        if simulation.status == SimulationStatus.PENDING:
            return see("my-change", of_pool.slug, simulation.pk)
        # Compared here too, as anybody can send the form without the button.
        if _unlimited(simulation) and request.POST.get("unlimited") != "yes":
            wrong = (
                "Tick the box if it may run as many tasks as possible, or go back and set a number."
            )
            return self._result(of_pool, simulation, wrong=wrong)
        try:
            simulation_apply(simulation=simulation, tenant=self.tenant, now=utc_now())
        except DomainError as error:
            return self._result(of_pool, simulation, wrong=error.detail, status=error.status)
        return see("my-pool", of_pool.slug)

    def _simulation(self, pool: Pool) -> Simulation:
        simulation_id = uuid_or_none(str(self.kwargs["change"]))
        if simulation_id is not None:
            found = simulation_get(simulation_id=simulation_id, tenant=self.tenant)
            # A tenant's simulations by the API may change many workloads, which this page cannot show.
            if found.pool_id == pool.pk and _verb(found) is not None:
                return found
        raise Missing("There is no such simulation.", code="simulation.not_found")

    def _result(
        self,
        pool: Pool,
        simulation: Simulation,
        *,
        wrong: str = "",
        status: int = HTTPStatus.UNPROCESSABLE_ENTITY,
    ) -> HttpResponseBase:
        result = SimulationDocument.write(simulation, self)["result"]
        verb = _verb(simulation)
        return self.shown(
            "change",
            status=status if wrong else HTTPStatus.OK,
            pool=pool,
            verb=_VERBS[str(verb)],
            name=self._name(pool, simulation, str(verb)),
            waits=simulation.status == SimulationStatus.PENDING,
            error=simulation.error,
            rows=None
            if result is None
            else _rows(
                result["workloads"],
                self._asked(pool, simulation, str(verb)),
                self._away_texts(pool, simulation, str(verb)),
            ),
            cost=None if result is None or result["cost"] is None else result["cost"]["words"],
            ahead=pool.generation - (simulation.generation or pool.generation),
            differences=self._differences(pool, simulation, str(verb)),
            unlimited=_unlimited(simulation),
            wrong=wrong,
        )

    def _differences(self, pool: Pool, simulation: Simulation, verb: str) -> list[Difference]:
        """Return the terms that a change of a workload would replace."""
        # The terms of a change that failed may be ones that no workload can have.
        if verb != CHANGE or simulation.error:
            return []
        item = simulation.changes["workloads"][verb][0]
        workload = workloads_for(pool=pool, tenant=self.tenant).filter(pk=item["id"]).first()
        return [] if workload is None else workload_differences(workload, item, resources_of(pool))

    def _away_texts(self, pool: Pool, simulation: Simulation, verb: str) -> dict[str, str]:
        """Return by name why workloads could not run after the change, as their clusters left."""
        away = clusters_away(pool)
        if not away:
            return {}
        present = workloads_for(pool=pool, tenant=self.tenant)
        present = present.exclude(state=WorkloadState.WITHDRAWN)
        selectors = dict(present.values_list("name", "server_selector"))
        item = simulation.changes["workloads"][verb][0]
        if verb != WITHDRAW and "server_selector" in item:
            selectors[self._name(pool, simulation, verb)] = item["server_selector"]
        return {
            name: clusters_away_text(selector, away, pool.timezone)
            for name, selector in selectors.items()
        }

    def _asked(self, pool: Pool, simulation: Simulation, verb: str) -> dict[str, int | None]:
        """Return by name how many tasks the tenant's workloads ask for after the change."""
        present = workloads_for(pool=pool, tenant=self.tenant)
        asked = dict(present.exclude(state=WorkloadState.WITHDRAWN).values_list("name", "tasks"))
        item = simulation.changes["workloads"][verb][0]
        if verb != WITHDRAW and "tasks" in item:
            asked[self._name(pool, simulation, verb)] = item["tasks"]
        return asked

    def _name(self, pool: Pool, simulation: Simulation, verb: str) -> str:
        item = simulation.changes["workloads"][verb][0]
        if verb == SUBMIT:
            return str(item["name"])
        id_ = item if verb == WITHDRAW else item["id"]
        found = workloads_for(pool=pool, tenant=self.tenant).filter(pk=id_).first()
        return "" if found is None else found.name


def _form(
    pool: Pool, data: Mapping[str, Any] | None = None, workload: Workload | None = None
) -> WorkloadForm:
    """Return the form with the fields of pieces that the pool can run."""
    kinds = next(
        (
            count
            # From the most down: a pool may run one kind of pieces and refuse two.
            for count in range(MAX_KINDS, 0, -1)
            if not gang_refusal(pool, two_kinds=count > 1, at_least=False, now=utc_now())
        ),
        0,
    )
    together = not gang_refusal(pool, two_kinds=False, at_least=True, now=utc_now())
    return WorkloadForm(
        data,
        pool=pool,
        resources=resources_of(pool),
        workload=workload,
        kinds=kinds,
        starts_together=together,
    )


def _verb(simulation: Simulation) -> str | None:
    """Return the kind of a change of one workload, or None for any other simulation."""
    changes = simulation.changes
    workloads = changes.get("workloads", {})
    named = [verb for verb in _VERBS if workloads.get(verb)]
    if set(changes) != {"workloads"} or len(named) != 1 or len(workloads[named[0]]) != 1:
        return None
    return named[0]


def _unlimited(simulation: Simulation) -> bool:
    workloads = simulation.changes["workloads"]
    described = [*workloads.get(SUBMIT, []), *workloads.get(CHANGE, [])]
    return any(each.get("tasks", 0) is None for each in described)


def _rows(
    workloads: Sequence[Mapping[str, Any]],
    asked: Mapping[str, int | None],
    away: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return the tenant's workloads before and after, those that differ first."""
    rows = []
    for each in workloads:
        before, after = each["before"], each["after"]
        rows.append(
            {
                "name": each["workload"],
                "before": None if before is None else before["tasks"],
                "after": None if after is None else after["tasks"],
                "asked": asked.get(each["workload"]),
                "reason": ""
                if after is None
                else away.get(each["workload"]) or reason_text(after["limited_by"], TENANT),
            }
        )
    return sorted(rows, key=lambda row: row["before"] == row["after"])
