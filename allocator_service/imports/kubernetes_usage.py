"""What `kubectl get pods -o json` prints, as usage: what pods that have finished kept for themselves."""

from collections.abc import Sequence
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import checked_instant, checked_text
from allocator_service.imports.kubernetes import (
    FINISHED,
    pod_requests,
    pod_tenant,
    refuse_other_kind,
    shown_name,
)
from allocator_service.imports.measures import Measures
from allocator_service.imports.reading import findings_of, json_content, listed, part
from allocator_service.imports.rows import (
    Owner,
    Place,
    RefusedRow,
    SkippedRow,
    UsageFile,
    UsageRow,
)


def kubernetes_usage(
    content: str | dict[str, Any], resources: Sequence[Resource], owner: Owner, source: str
) -> UsageFile:
    """The pods that have finished: their requests from their start until their last container ended.

    The id is the pod's uid. Raises `Unacceptable` for content that is not what kubectl prints.
    """
    measures = Measures(resources)
    rows: list[UsageRow | RefusedRow | SkippedRow] = []
    items = listed(json_content(content), "items", "kubectl get pods -o json")
    for number, item in enumerate(items):
        place = Place("item", number)
        try:
            rows.append(_row(place, item, measures, owner, source))
        except Unacceptable as error:
            rows.append(RefusedRow(place, shown_name(item), findings_of(error)))
    return UsageFile(rows, measures.ignored)


def _row(
    place: Place, item: Any, measures: Measures, owner: Owner, source: str
) -> UsageRow | SkippedRow:
    refuse_other_kind(item, "Pod")
    metadata, status = part(item, "metadata"), part(item, "status")
    if status.get("phase") not in FINISHED:
        return SkippedRow(place, shown_name(item), f"It has not finished: {status.get('phase')}.")
    ends = [
        checked_instant(ended, "/status/containerStatuses")
        for container in _statuses(status)
        if (ended := part(container, "state", "terminated").get("finishedAt")) is not None
    ]
    if status.get("startTime") is None or not ends:
        return SkippedRow(place, shown_name(item), "It never ran: nothing says from when to when.")
    return UsageRow(
        place,
        checked_text(metadata.get("uid"), "/metadata/uid"),
        pod_tenant(metadata, owner),
        source,
        pod_requests(part(item, "spec"), measures),
        checked_instant(status["startTime"], "/status/startTime"),
        max(ends),
    )


def _statuses(status: dict[str, Any]) -> list[dict[str, Any]]:
    statuses = status.get("containerStatuses") or []
    if not isinstance(statuses, list):
        raise Unacceptable(
            "Expected an array.", code="import.shape", pointer="/status/containerStatuses"
        )
    return [part(each) for each in statuses]
