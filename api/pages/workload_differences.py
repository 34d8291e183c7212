"""Terms of a workload that a change would replace."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from allocator_service.core.display import exact_resource_text
from allocator_service.core.history import Difference
from allocator_service.core.quantities import Resource, vector_from
from allocator_service.workloads.gangs import GANG, Gang, gang_read, gang_text
from allocator_service.workloads.models import Workload


def workload_differences(
    workload: Workload, item: Mapping[str, Any], resources: Sequence[Resource]
) -> list[Difference]:
    """Return what differs between a workload and a valid change of a simulation, for people."""
    gang = _gang_after(workload, item, resources)
    demand: Sequence[Decimal] = workload.demand
    if gang.pieces:
        demand = gang.demand(resources)
    elif "demand" in item:
        demand = vector_from(item["demand"], resources, pointer="/demand")
    selector = item.get("server_selector", workload.server_selector)
    rows = [
        ("One task", _demand_text(workload.demand, resources), _demand_text(demand, resources)),
        ("Pieces", _gang_text(Gang.of(workload), resources), _gang_text(gang, resources)),
        (
            "Tasks at once",
            _tasks_text(workload.tasks),
            _tasks_text(item.get("tasks", workload.tasks)),
        ),
        ("Priority", str(workload.priority), str(item.get("priority", workload.priority))),
        ("Labels of servers", _labels_text(workload.server_selector), _labels_text(selector)),
    ]
    return [Difference(*row) for row in rows if row[1] != row[2]]


def _gang_after(workload: Workload, item: Mapping[str, Any], resources: Sequence[Resource]) -> Gang:
    """Return the pieces after a change, which keeps the settings that it leaves out."""
    fields = Gang.of(workload).settings() | {name: item[name] for name in GANG if name in item}
    if not fields["pieces"]:
        fields |= {"per_server": None, "together": ""}
    return gang_read(fields, resources)


def _demand_text(demand: Sequence[Decimal], resources: Sequence[Resource]) -> str:
    pairs = zip(resources, demand, strict=False)
    return ", ".join(exact_resource_text(amount, resource) for resource, amount in pairs if amount)


def _gang_text(gang: Gang, resources: Sequence[Resource]) -> str:
    return gang_text(gang, resources) or "one piece"


def _tasks_text(tasks: int | None) -> str:
    return "as many as possible" if tasks is None else f"{tasks:,}"


def _labels_text(selector: Mapping[str, Any]) -> str:
    texts = [
        f"{label}={value}"
        for label, values in sorted(selector.items())
        for value in ([values] if isinstance(values, str) else values)
    ]
    return ", ".join(texts) or "any"
