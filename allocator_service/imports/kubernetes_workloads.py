"""Workloads from `kubectl get pods -o json`, and from Kueue's workloads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import check_text, check_whole_number
from allocator_service.imports.gangs import Pods, Selection, rows_of_pods
from allocator_service.imports.kubernetes import (
    FINISHED,
    Content,
    check_kind,
    controller_of,
    display_name,
    pod_requests,
    pod_selector,
    pod_tenant,
)
from allocator_service.imports.measures import Measures
from allocator_service.imports.reading import errors_of, json_content, list_at, object_at
from allocator_service.imports.rows import (
    Owner,
    Place,
    RefusedRow,
    SkippedRow,
    WorkloadFile,
)
from allocator_service.workloads.gangs import MAX_KINDS

# Kueue names the workload of a pod by the one, and the group of plain pods by the other.
WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
# Of one pod set, so that the sum over a file is a number of tasks.
MAX_PODS = 10**6


def kubernetes_workloads(
    content: Content, resources: Sequence[Resource], owner: Owner
) -> WorkloadFile:
    """Read workloads from the pods that have not finished, or from Kueue's workloads.

    Pods of one controller with equal requests and selectors are one workload, named after the
    controller. Those of one of Kueue's workloads start together. Raises `Unacceptable` for content that
    is not the output of kubectl.
    """
    measures = Measures(resources)
    items = list_at(json_content(content), "items", "kubectl get pods -o json")
    others: list[RefusedRow | SkippedRow] = []
    pods: list[Pods] = []
    for number, item in enumerate(items):
        place = Place("item", number)
        try:
            read = _workload if object_at(item).get("kind") == "Workload" else _pod
            found = read(place, item, measures, owner)
            if isinstance(found, SkippedRow):
                others.append(found)
            else:
                pods += found
        except Unacceptable as error:
            others.append(RefusedRow(place, display_name(item), errors_of(error)))

    def rows(most_kinds: int) -> Any:
        found = [*rows_of_pods(pods, resources, most_kinds=most_kinds), *others]
        return sorted(found, key=lambda row: row.place.number)

    groups = any(each.group for each in pods)
    kinds = {str(object_at(item).get("kind")) for item in items if isinstance(item, dict)}
    if groups and {"Pod", "Workload"} <= kinds:
        raise Unacceptable(
            "The file has pods and Kueue's workloads, which would count their pods twice: import either"
            " of the two.",
            code="import.both_kinds",
        )
    return WorkloadFile(rows(MAX_KINDS), measures.ignored, rows if groups else None)


def _pod(
    place: Place, item: Mapping[str, Any], measures: Measures, owner: Owner
) -> list[Pods] | SkippedRow:
    phase = object_at(item, "status").get("phase")
    if phase in FINISHED:
        return SkippedRow(place, display_name(item), f"The pod has finished: {phase}.")
    check_kind(item, "Pod")
    metadata = object_at(item, "metadata")
    demand = pod_requests(object_at(item, "spec"), measures)
    if not any(demand):
        raise Unacceptable(
            "The pod requests none of the pool's resources.", code="demand.zero", pointer="/spec"
        )
    group = object_at(metadata, "annotations").get(WORKLOAD_ANNOTATION) or object_at(
        metadata, "labels"
    ).get(GROUP_LABEL)
    return [
        Pods(
            place,
            pod_tenant(metadata, owner),
            controller_of(metadata, "Pod"),
            tuple(demand),
            _selection(object_at(item, "spec")),
            group=_in_namespace(metadata, check_text(group or "", "/metadata", blank=True)),
        )
    ]


def _workload(
    place: Place, item: Mapping[str, Any], measures: Measures, owner: Owner
) -> list[Pods] | SkippedRow:
    """Return the pod sets of one of Kueue's workloads, without pods that are done."""
    metadata, spec = object_at(item, "metadata"), object_at(item, "spec")
    status = object_at(item, "status")
    if _is(status, "Finished"):
        return SkippedRow(place, display_name(item), "The workload has finished.")
    if spec.get("active") is False:
        return SkippedRow(place, display_name(item), "The workload is deactivated.")
    admitted = _is(status, "Admitted") and not _is(status, "Evicted")
    # What an earlier admission assigned does not count any more.
    counts, done = _counts(status) if admitted else ({}, {})
    name = check_text(metadata.get("name"), "/metadata/name")
    found = []
    for number, pods in enumerate(_objects(spec, "podSets", "/spec/podSets")):
        pointer = f"/spec/podSets/{number}"
        called = str(pods.get("name"))
        asked = _whole(pods.get("count", 1), f"{pointer}/count")
        # Kueue may admit fewer pods than were asked for (partial admission).
        count = max(0, counts.get(called, asked) - done.get(called, 0))
        template = object_at(pods, "template", "spec")
        if count:
            found.append(
                Pods(
                    place,
                    pod_tenant(metadata, owner),
                    controller_of(metadata, "Workload"),
                    tuple(pod_requests(template, measures)),
                    _selection(template),
                    count,
                    _in_namespace(metadata, name),
                )
            )
    if found and not any(any(each.demand) for each in found):
        raise Unacceptable(
            "The workload requests none of the pool's resources.",
            code="demand.zero",
            pointer="/spec/podSets",
        )
    return found or SkippedRow(place, display_name(item), "The pods of the workload are done.")


def _in_namespace(metadata: Mapping[str, Any], group: str) -> str:
    """Return the name of a group with its namespace, in which alone it is unique."""
    namespace = check_text(metadata.get("namespace") or "", "/metadata/namespace", blank=True)
    return group and f"{namespace}/{group}"


def _counts(status: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many pods of each pod set were given quota, and how many of them are done, by name."""
    pointer = "/status/admission/podSetAssignments"
    assigned = _objects(object_at(status, "admission"), "podSetAssignments", pointer)
    done = {
        str(each.get("name")): _whole(each.get("count"), "/status/reclaimablePods")
        for each in _objects(status, "reclaimablePods", "/status/reclaimablePods")
    }
    counts = {
        str(each.get("name")): _whole(each["count"], pointer)
        for each in assigned
        if each.get("count") is not None
    }
    return counts, done


def _objects(document: Mapping[str, Any], name: str, pointer: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of an array, none if it is missing."""
    found = document.get(name) or []
    if not isinstance(found, list):
        raise Unacceptable("Expected an array.", code="import.shape", pointer=pointer)
    yield from map(object_at, found)


def _whole(value: Any, pointer: str) -> int:
    return check_whole_number(
        # `True` is an `int` in Python.
        str(value) if type(value) is int else "",
        pointer,
        minimum=0,
        maximum=MAX_PODS,
    )


def _selection(spec: dict[str, Any]) -> Selection:
    selector = pod_selector(spec)
    return tuple(sorted((label, tuple(values)) for label, values in selector.items()))


def _is(status: Mapping[str, Any], condition: str) -> bool:
    return any(
        each.get("type") == condition and each.get("status") == "True"
        for each in _objects(status, "conditions", "/status/conditions")
    )
