"""Workloads in the admin."""

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from allocator_service.core.admin import (
    QuantitiesField,
    ServiceAdmin,
    ServiceForm,
    quantities_shown,
    quantities_text,
    quantities_vector,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.labels import LABEL_LENGTH, SelectorField
from allocator_service.pools.selectors import resources_of
from allocator_service.workloads.models import MAX_PRIORITY, Workload, WorkloadState
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workload_withdraw,
    workloads_submit,
)
from policies.fields import IntegerField, TextField


class WorkloadForm(ServiceForm):
    read_as: ClassVar = {
        "name": TextField(max_length=LABEL_LENGTH),
        "priority": IntegerField(minimum=-MAX_PRIORITY, maximum=MAX_PRIORITY),
        "server_selector": SelectorField(),
    }
    demand = QuantitiesField()

    class Meta:
        model = Workload
        fields = [
            "pool",
            "tenant",
            "name",
            "demand",
            "tasks",
            "priority",
            "server_selector",
            "state",
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.adding:
            self.fields.pop("state", None)
        else:
            self.initial["demand"] = quantities_text(
                self.instance.demand, resources_of(self.instance.pool)
            )

    def perform(self, cleaned: dict[str, Any]) -> Workload:
        pool = cleaned["pool"] if self.adding else self.instance.pool
        demand = quantities_vector(cleaned["demand"], resources_of(pool))
        wanted = {
            "name": cleaned["name"],
            "demand": demand,
            "tasks": cleaned["tasks"],
            "priority": cleaned["priority"],
            "server_selector": cleaned["server_selector"] or {},
        }
        if not self.adding:
            return workload_update(
                workload=self.instance,
                settings=WorkloadSettings(**wanted, state=cleaned["state"]),
                version=None,
                now=utc_now(),
            )
        draft = WorkloadDraft(tenant=cleaned["tenant"], **wanted)
        submitted = workloads_submit(pool=pool, drafts=[draft], now=utc_now())
        return Workload.objects.get(pk=submitted.ids[0])


class WorkloadAdmin(ServiceAdmin):
    """Registered by `imports.admin`, which can make many of a file."""

    form = WorkloadForm
    list_display = [
        "name",
        "tenant",
        "pool",
        "quantities",
        "tasks",
        "priority",
        "state",
        "unsatisfiable",
    ]
    list_filter = ["state", "pool", ("unsatisfiable", admin.EmptyFieldListFilter)]
    list_select_related = ["pool", "tenant"]
    search_fields = ["name", "tenant__slug", "pool__slug"]
    search_place = 6
    autocomplete_fields = ["pool", "tenant"]
    actions = ["withdraw"]

    def search_note(self, row: Workload) -> str:
        return f"{row.tenant} in {row.pool}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workload]:
        return super().get_queryset(request).prefetch_related("pool__resource_types")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pool", "tenant", "unsatisfiable", "created_at", "withdrawn_at"] if obj else []

    @admin.display(description="demand of a task")
    def quantities(self, workload: Workload) -> str:
        return quantities_shown(workload.demand, resources_of(workload.pool))

    @admin.action(description="Withdraw the selected workloads permanently", permissions=["change"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[Workload]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda workload: workload_withdraw(workload=workload, now=now),
            "withdrawn",
            already=Q(state=WorkloadState.WITHDRAWN),
        )
