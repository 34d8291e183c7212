"""A member's allocation over time as a document."""

from datetime import timedelta
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.history import KINDS, MOST_DECISIONS, Step, allocation_history
from allocator_service.core.clock import utc_now
from allocator_service.core.selecting import missing
from allocator_service.tenants.selectors import tenant_get, tenants_for
from api.auth import EVERY_SCOPE
from api.contract import documents
from api.contract.fields import is_slug
from api.contract.operations import shows
from api.contract.parameters import Parameters
from api.v1.run_documents import MAX_ROWS
from api.views import PoolView

DEFAULT_DAYS, MOST_DAYS = 7, 30


class HistoryParameters(Parameters):
    days = documents.IntegerField(
        minimum=1, maximum=MOST_DAYS, default=DEFAULT_DAYS, description="Length of the period."
    )


class WorkloadTasks(documents.Document):
    workload = documents.TextField(max_length=253)
    tasks = documents.NumberField()


class CauseDocument(documents.Document):
    kind = documents.ChoiceField(choices=KINDS)
    action = documents.TextField(
        max_length=40,
        allow_null=True,
        description="Of the member's own workloads, such as submit; begin or end of a limit of the"
        " member, its workloads and the groups above it; exhaust or open of a budget of the member and"
        " the groups above it; leave or return of a cluster.",
    )
    workload = documents.TextField(
        max_length=253, allow_null=True, description="Name of the member's own workload."
    )
    group = documents.SlugField(
        allow_null=True,
        description="Group above the member, whose limit began or ended, or whose budget was exhausted"
        " or opened again.",
    )
    resource = documents.TextField(
        max_length=63, allow_null=True, description="Resource whose hours the budget is of."
    )
    cluster = documents.TextField(
        max_length=253,
        allow_null=True,
        description="Cluster whose servers left or returned, because its agents were silent or heard.",
    )


class StepDocument(documents.Document):
    start = documents.TimestampField()
    end = documents.TimestampField()
    tasks = documents.ListField(WorkloadTasks, min_items=0, max_items=MAX_ROWS)
    causes = documents.ListField(
        CauseDocument,
        min_items=0,
        max_items=MAX_ROWS,
        description="Changes of the pool between this decision and the one before it.",
    )


class AllocationHistoryDocument(documents.Document):
    pool = documents.SlugField()
    tenant = documents.SlugField()
    complete = documents.BooleanField(
        description=f"False if the period has more than {MOST_DECISIONS:,} decisions: the newest count."
    )
    steps = documents.ListField(StepDocument, min_items=0, max_items=MAX_ROWS)


class AllocationHistoryView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE}
    parameters = HistoryParameters

    @shows(AllocationHistoryDocument, "Show a member's allocation over time", headers=())
    def get(self, request: Request, pool: str, tenant: str) -> Response:
        """Show what decisions gave to a member in the last `days`, and what was changed before.

        Consecutive decisions that gave it the same are one step. The causes name the member's own
        workloads, and limits of the member, its workloads and the groups above it that begin or end by
        their dates, budgets of the member and these groups that were exhausted or opened again, and
        clusters that left or returned; changes of others have their kind alone. A
        tenant key reads its own tenant; any other name answers 404 `tenant.not_found`.
        """
        now = utc_now()
        if not is_slug(tenant):
            raise missing("tenant.not_found")
        # Within what the caller may see: for others the tenant does not exist.
        found = tenant_get(slug=tenant, within=tenants_for(self.tenant))
        since = now - timedelta(days=self.query["days"])
        history = allocation_history(pool=self.pool, tenant=found, since=since, now=now)
        return Response(
            {
                "pool": self.pool.slug,
                "tenant": found.slug,
                "complete": not history.cut,
                "steps": [_step(step) for step in history.steps],
            }
        )


def _step(step: Step) -> dict[str, Any]:
    return {
        "start": step.start,
        "end": step.end,
        "tasks": [{"workload": name, "tasks": tasks} for name, tasks in step.tasks.items()],
        "causes": [
            {
                "kind": each.kind,
                "action": each.action or None,
                "workload": each.workload or None,
                "group": each.group or None,
                "resource": each.resource or None,
                "cluster": each.cluster or None,
            }
            for each in step.causes
        ],
    }
