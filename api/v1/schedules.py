"""Schedules of time-sharing runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.models import Schedule
from allocator_service.allocation.selectors import SlotInForce, schedule_of
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from api.contract import documents
from api.contract.operations import shows
from api.pseudonyms import server_name
from api.v1.run_documents import MAX_ROWS
from api.v1.run_inputs import sees_whole
from api.v1.runs import OneRunView

_UNKNOWN = 0  # the key of no tenant


class SlotServer(documents.Document):
    server = documents.TextField(
        max_length=253, description="Name of the server, a pseudonym for that of another tenant."
    )
    tasks = documents.IntegerField(minimum=1, maximum=MAX_ROWS)


class SlotRow(documents.Document):
    tenant = documents.TextField(max_length=253)
    workload = documents.TextField(max_length=253)
    tasks = documents.IntegerField(minimum=1, maximum=MAX_ROWS)
    servers = documents.ListField(
        SlotServer, min_items=0, max_items=MAX_ROWS, required=False, description="Of packed slots."
    )


class SlotDocument(documents.Document):
    fraction = documents.NumberField(description="Of the period.")
    allocations = documents.ListField(SlotRow, min_items=0, max_items=MAX_ROWS)


class TimetableRow(documents.Document):
    start = documents.IntegerField(
        minimum=0, maximum=MAX_ROWS, description="Seconds into the period."
    )
    end = documents.IntegerField(minimum=1, maximum=MAX_ROWS)
    slot = documents.IntegerField(minimum=0, maximum=MAX_ROWS, description="Position in `slots`.")


class ScheduleDocument(documents.Document):
    objective = documents.NumberField(allow_null=True)
    bound = documents.NumberField(allow_null=True)
    lp_bound = documents.NumberField(allow_null=True)
    gap = documents.NumberField(allow_null=True)
    order_proven = documents.BooleanField(
        description="Whether no other order of the slots moves fewer tasks; up to 12 slots."
    )
    slots = documents.ListField(SlotDocument, min_items=0, max_items=MAX_ROWS)
    period_seconds = documents.IntegerField(minimum=1, maximum=MAX_ROWS)
    timetable = documents.ListField(TimetableRow, min_items=0, max_items=MAX_ROWS)
    gap_on_the_clock = documents.NumberField(
        allow_null=True, description="After rounding to whole seconds of the period."
    )


def slot_rows(
    rows: Sequence[dict[str, Any]], names: Collection[str] | None
) -> list[dict[str, Any]]:
    """Return the rows of a slot of the tenants with these slugs, None for all."""
    return [row for row in rows if names is None or row["tenant"] in names]


@dataclass(frozen=True)
class SlotReader:
    """A reader of slots, who sees the tasks of `tenants` and the names of their and the pool's servers.

    `tenants` are slugs by key, None for all.
    """

    pool: Pool
    tenants: Mapping[int, str] | None

    def rows(self, schedule: Schedule, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows of a slot, on servers with the names that the reader may know."""
        names = None if self.tenants is None else set(self.tenants.values())
        return [
            {**row, "servers": [self._server(schedule, item) for item in row["servers"]]}
            if "servers" in row
            else row
            for row in slot_rows(rows, names)
        ]

    def _server(self, schedule: Schedule, item: Mapping[str, Any]) -> dict[str, Any]:
        # Schedules of the release before have no owners: their servers could be of any tenant.
        name, owner = schedule.servers.get(item["server"], (item["server"], _UNKNOWN))
        if self.tenants is not None and owner is not None and owner not in self.tenants:
            name = server_name(name, owner=owner, pool=self.pool)
        return {**item, "server": name}


def schedule_document(
    schedule: Schedule, plan: dict[str, Any], *, pool: Pool, caller: Tenant | None
) -> dict[str, Any]:
    """Return a stored schedule. A tenant sees its own tasks, and the bounds of a transparent pool."""
    numbers = ("objective", "bound", "lp_bound", "gap")
    # Bounds and gaps are of all tenants together, and could be solved for the others' demands.
    whole = sees_whole(pool, caller)
    reader = SlotReader(pool, None if caller is None else {caller.pk: caller.slug})
    return {
        **{name: plan[name] if whole else None for name in numbers},
        # Older schedules lack the field.
        "order_proven": plan.get("order_proven", True),
        "slots": [
            {**slot, "allocations": reader.rows(schedule, slot["allocations"])}
            for slot in plan["slots"]
        ],
        "period_seconds": schedule.period_seconds,
        "timetable": [
            {"start": start, "end": end, "slot": slot} for start, end, slot in schedule.intervals
        ],
        "gap_on_the_clock": schedule.gap_on_the_clock if whole else None,
    }


class SlotInForceDocument(documents.Document):
    start = documents.TimestampField()
    end = documents.TimestampField()
    fraction = documents.NumberField(description="Of the period.")
    allocations = documents.ListField(SlotRow, min_items=0, max_items=MAX_ROWS)


def slot_document(slot: SlotInForce, reader: SlotReader) -> dict[str, Any]:
    """Return the slot in force as its reader may see it."""
    return {
        "start": slot.start,
        "end": slot.end,
        "fraction": slot.fraction,
        "allocations": reader.rows(slot.schedule, slot.allocations),
    }


class ScheduleView(OneRunView):
    @shows(
        ScheduleDocument,
        "Show the schedule of a run; a tenant sees its own tasks",
        headers=(),
        problems=(409,),
    )
    def get(self, request: Request, run: str) -> Response:
        """Show how a time-sharing decision (`tda`) divides its period into slots, and when each of
        them runs.

        `timetable` counts whole seconds from the start of a period; the first one starts at the
        run's `effective_from`. A tenant key sees its own tasks only, and `objective`, `bound`,
        `lp_bound`, `gap` and `gap_on_the_clock` are null for it unless the pool is transparent.
        Runs of other policies answer 404 `schedule.none`.
        """
        found = self.run(run)
        schedule = schedule_of(found)
        document = schedule_document(schedule, schedule.plan, pool=found.pool, caller=self.tenant)
        return Response(document)
