"""Workloads in the admin."""

import re
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from allocator_service.core.admin import ServiceAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.duration_fields import DurationField
from allocator_service.core.durations import MOST_RECLAIM_DAYS
from allocator_service.core.label_forms import SelectorLinesField
from allocator_service.core.labels import LABEL_LENGTH
from allocator_service.core.list_filters import RunnableFilter
from allocator_service.core.quantities import decimal_text
from allocator_service.core.quantity_fields import (
    QuantitiesField,
    quantities_shown,
    quantities_text,
)
from allocator_service.core.service_forms import ServiceForm
from allocator_service.pools.selectors import resources_of
from allocator_service.workloads.gangs import (
    MAX_KINDS,
    MAX_PIECES,
    Gang,
    demand_read,
    gang_read,
    gang_text,
)
from allocator_service.workloads.models import MAX_PRIORITY, Workload, WorkloadState
from allocator_service.workloads.reason_texts import OPERATOR, away_text, reason_text
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workload_withdraw,
    workloads_submit,
)
from policies.fields import IntegerField, TextField

# Names of resources begin with a letter, so that 4xgpu=8 is not one. An x that follows a space must be
# followed by one: 4 xgpu=8 could name xgpu.
_KIND = re.compile(r"(?:(\d+)(?:\s*[×*]\s*|x\s*|\s+x\s+))?((?!x\s)[^\W\d_].*)", re.ASCII)
_QUOTED = 60


class PiecesField(forms.CharField):
    """Kinds of pieces of a task, one on each line, such as `4 x gpu=8`."""

    def __init__(self) -> None:
        super().__init__(
            required=False,
            help_text="For a task that starts on several servers at once: one kind of pieces on each"
            " line, two at most, such as “4 x gpu=8 cpu=2”. Leave the demand empty: it is the sum of"
            " the pieces.",
            widget=forms.Textarea(attrs={"rows": 2, "cols": 60, "spellcheck": "false"}),
        )

    def to_python(self, value: Any) -> list[dict[str, Any]]:  # type: ignore[override]
        lines = [line for line in (super().to_python(value) or "").splitlines() if line.strip()]
        if len(lines) > MAX_KINDS:
            raise ValidationError(f"A task has at most {MAX_KINDS} kinds of pieces.")
        return [self._kind(line) for line in lines]

    def _kind(self, line: str) -> dict[str, Any]:
        match = _KIND.fullmatch(line.strip())
        count = 0 if match is None else _count(match[1])
        if match is None or not count:
            raise ValidationError(
                f"“{line.strip()[:_QUOTED]}”: expected a number of pieces from 1 to {MAX_PIECES:,}, x,"
                " and a demand, such as “4 x gpu=8”."
            )
        return {"count": count, "demand": QuantitiesField().clean(match[2])}


def _count(digits: str | None) -> int:
    """Return a number of pieces, 1 if there is none, or 0 for a number out of range."""
    # The length is looked at first, as a text may have more digits than Python reads.
    count = int(digits or 1) if len(digits or "") <= len(str(MAX_PIECES)) else 0
    return count if count <= MAX_PIECES else 0


def pieces_text(gang: Gang) -> str:
    """Return pieces as `PiecesField` reads them."""
    return "\n".join(
        f"{each.count} x "
        + " ".join(f"{name}={decimal_text(amount)}" for name, amount in each.demand.items())
        for each in gang.pieces
    )


class WorkloadForm(ServiceForm):
    read_as: ClassVar = {
        "name": TextField(max_length=LABEL_LENGTH),
        "priority": IntegerField(minimum=-MAX_PRIORITY, maximum=MAX_PRIORITY),
        "per_server": IntegerField(minimum=1, maximum=MAX_PIECES),
        "at_least": IntegerField(minimum=1, maximum=MAX_PIECES),
    }
    demand = QuantitiesField(required=False)
    pieces = PiecesField()
    server_selector = SelectorLinesField()
    minimum_run = DurationField(
        required=False,
        default="minutes",
        most_days=MOST_RECLAIM_DAYS,
        help_text="How long a placed task keeps its server. Empty: as long as the pool states.",
    )

    class Meta:
        model = Workload
        fields = [
            "pool",
            "tenant",
            "name",
            "demand",
            "pieces",
            "per_server",
            "together",
            "at_least",
            "tasks",
            "priority",
            "server_selector",
            "minimum_run",
            "state",
        ]
        help_texts: ClassVar = {
            "per_server": "The most pieces of one task on one server. Empty: any number.",
            "together": "A label, such as rack: all pieces of a task run on servers with the same value"
            " of it. Empty: on any servers.",
            "at_least": "The least number of tasks that start together while none runs. Empty: 1.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "at_least" in self.fields:  # absent for users who may only look
            self.fields["at_least"].required = False
        if self.adding:
            self.fields.pop("state", None)
        else:
            gang = Gang.of(self.instance)
            self.initial["pieces"] = pieces_text(gang)
            self.initial["demand"] = (
                ""
                if gang.pieces
                else quantities_text(self.instance.demand, resources_of(self.instance.pool))
            )

    def perform(self, cleaned: dict[str, Any]) -> Workload:
        pool = cleaned["pool"] if self.adding else self.instance.pool
        resources = resources_of(pool)
        # An empty demand means that of the pieces, and not a demand of nothing.
        fields = {**cleaned, "demand": cleaned["demand"] or None}
        gang = gang_read(fields, resources)
        settings = {
            "name": cleaned["name"],
            "demand": demand_read(fields, gang, resources, ""),
            "gang": gang,
            "tasks": cleaned["tasks"],
            "priority": cleaned["priority"],
            "server_selector": cleaned["server_selector"] or {},
            "minimum_run": cleaned["minimum_run"] or "",
        }
        if not self.adding:
            if "server_selector" not in self.changed_data:
                # A list of one value is stored as it was sent, and is read from a form as the value.
                settings["server_selector"] = self.instance.server_selector
            return workload_update(
                workload=self.instance,
                settings=WorkloadSettings(**settings, state=cleaned["state"]),
                version=None,
                now=utc_now(),
            )
        draft = WorkloadDraft(tenant=cleaned["tenant"], **settings)
        submitted = workloads_submit(pool=pool, drafts=[draft], now=utc_now())
        return Workload.objects.get(pk=submitted.ids[0])


class WorkloadAdmin(ServiceAdmin):
    """Admin of workloads, which `imports.admin` registers with an import from files."""

    form = WorkloadForm
    list_display = [
        "name",
        "tenant",
        "pool",
        "quantities",
        "requested",
        "priority",
        "state",
        "cannot_run",
    ]
    list_filter = ["state", "pool", ("unsatisfiable", RunnableFilter)]
    filter_titles: ClassVar = {"unsatisfiable": "Can a task run now?"}
    list_select_related = ["pool", "tenant"]
    search_fields = ["name", "tenant__slug", "pool__slug"]
    search_place = 6
    autocomplete_fields = ["pool", "tenant"]
    actions = ["withdraw"]
    durations = ("minimum_run",)
    labelled_by = ("server_selector",)

    @admin.display(description="tasks", ordering="tasks")
    def requested(self, workload: Workload) -> str:
        return "any number" if workload.tasks is None else f"{workload.tasks:,}"

    @admin.display(description="cannot run", ordering="unsatisfiable")
    def cannot_run(self, workload: Workload) -> str:
        reason = workload.unsatisfiable
        if not reason:
            return "-"
        # As prefetched: a list has workloads of many pools.
        away = {each.name: each.left_at for each in workload.pool.clusters.all() if each.left_at}
        return away_text(reason, workload.server_selector, away) or reason_text(reason, OPERATOR)

    def search_note(self, row: Workload) -> str:
        return f"{row.tenant} in {row.pool}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workload]:
        return (
            super().get_queryset(request).prefetch_related("pool__resource_types", "pool__clusters")
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pool", "tenant", "cannot_run", "created_at", "withdrawn_at"] if obj else []

    @admin.display(description="demand of a task")
    def quantities(self, workload: Workload) -> str:
        resources = resources_of(workload.pool)
        shown = quantities_shown(workload.demand, resources)
        gang = gang_text(Gang.of(workload), resources)
        return f"{shown} ({gang})" if gang else shown

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
