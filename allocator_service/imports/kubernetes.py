"""Nodes and usage from `kubectl get nodes -o json` and `kubectl get pods -o json`."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import (
    check_instant,
    check_labels,
    check_slug,
    check_text,
)
from allocator_service.imports.measures import ROUND_CAPACITY, ROUND_REQUEST, Measures
from allocator_service.imports.reading import errors_of, json_content, list_at, object_at
from allocator_service.imports.rows import (
    NodeFile,
    NodeRow,
    Owner,
    Place,
    RefusedRow,
    SkippedRow,
    UsageFile,
    UsageRow,
)

FINISHED = ("Succeeded", "Failed")
Content = str | dict[str, Any]


def kubernetes_nodes(content: Content, resources: Sequence[Resource], owner: Owner) -> NodeFile:
    """Read nodes with their allocatable resources. Cordoned nodes are draining.

    Raises `Unacceptable` for content that is not the output of kubectl.
    """
    measures = Measures(resources)
    rows: list[NodeRow | RefusedRow] = []
    items = list_at(json_content(content), "items", "kubectl get nodes -o json")
    for number, item in enumerate(items):
        place = Place("item", number)
        try:
            rows.append(_node(place, item, measures, owner))
        except Unacceptable as error:
            rows.append(RefusedRow(place, display_name(item), errors_of(error)))
    return NodeFile(rows, measures.ignored)


def _node(place: Place, item: Any, measures: Measures, owner: Owner) -> NodeRow:
    check_kind(item, "Node")
    labels = check_labels(object_at(item, "metadata", "labels"), "/metadata/labels")
    # `capacity` includes what the node reserves for itself.
    field = "allocatable" if object_at(item, "status", "allocatable") else "capacity"
    slug = owner.of(labels)
    return NodeRow(
        place,
        check_text(object_at(item, "metadata").get("name"), "/metadata/name"),
        check_slug(slug, "/metadata/labels") if slug else None,
        measures.vector(
            object_at(item, "status", field),
            rounding=ROUND_CAPACITY,
            pointer=f"/status/{field}",
        ),
        labels,
        draining=object_at(item, "spec").get("unschedulable") is True,
    )


def pod_tenant(metadata: dict[str, Any], owner: Owner) -> str:
    """Return the tenant of a pod, by its label or its namespace. Raises `Unacceptable`."""
    # With a label given, a pod without it is an error: its namespace would be another kind of name.
    named = owner.of(object_at(metadata, "labels")) or (
        None if owner.label else metadata.get("namespace")
    )
    if not isinstance(named, str) or not named:
        raise Unacceptable(
            "Expected a label or a namespace that names the pod's tenant.",
            code="field.required",
            pointer="/metadata",
        )
    return check_slug(named, "/metadata/namespace")


def controller_of(metadata: dict[str, Any], kind: str) -> tuple[str, str]:
    """Return kind and name of an object's controller, or of the object itself without one."""
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else []:
        if object_at(reference).get("controller") is True:
            name = check_text(reference.get("name"), "/metadata/ownerReferences")
            return str(reference.get("kind", "")), name
    return kind, check_text(metadata.get("name"), "/metadata/name")


def pod_requests(spec: dict[str, Any], measures: Measures) -> list[Decimal]:
    """Return the requests of a pod as the Kubernetes scheduler counts them.

    Init containers run one after the other before the main ones. Sidecars, which are init
    containers that always restart, keep running beside all that follow. The pod needs the larger of
    its peak while it starts and its sum while it runs, and its overhead.
    """
    sidecars = measures.vector({}, rounding=ROUND_REQUEST, pointer="")
    peak = sidecars
    for number, container in enumerate(_containers(spec, "initContainers")):
        asked = _container_requests(container, measures, f"/spec/initContainers/{number}")
        peak = _each(max, peak, _sum(sidecars, asked))
        if container.get("restartPolicy") == "Always":
            sidecars = _sum(sidecars, asked)
    running = sidecars
    for number, container in enumerate(_containers(spec, "containers")):
        running = _sum(
            running, _container_requests(container, measures, f"/spec/containers/{number}")
        )
    overhead = measures.vector(
        object_at(spec, "overhead"), rounding=ROUND_REQUEST, pointer="/spec/overhead"
    )
    return _sum(_each(max, peak, running), overhead)


def _containers(spec: dict[str, Any], name: str) -> list[dict[str, Any]]:
    containers = spec.get(name) or []
    if not isinstance(containers, list):
        raise Unacceptable("Expected an array.", code="import.shape", pointer=f"/spec/{name}")
    return [object_at(container) for container in containers]


def _container_requests(
    container: dict[str, Any], measures: Measures, pointer: str
) -> list[Decimal]:
    requests = object_at(container, "resources", "requests")
    return measures.vector(
        requests, rounding=ROUND_REQUEST, pointer=f"{pointer}/resources/requests"
    )


def _sum(first: Sequence[Decimal], second: Sequence[Decimal]) -> list[Decimal]:
    return [one + other for one, other in zip(first, second, strict=True)]


def _each(choose: Any, first: Sequence[Decimal], second: Sequence[Decimal]) -> list[Decimal]:
    return [choose(one, other) for one, other in zip(first, second, strict=True)]


_AFFINITY = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"


def pod_selector(spec: dict[str, Any]) -> dict[str, list[str]]:
    """Return the required labels of a node, from `nodeSelector` and required affinity.

    Raises `Unacceptable` for affinity that a selector cannot express: several terms, or operators
    other than In.
    """
    selector = {
        label: [check_text(value, "/spec/nodeSelector", blank=True)]
        for label, value in object_at(spec, "nodeSelector").items()
    }
    required = object_at(
        spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = required.get("nodeSelectorTerms") or []
    if not terms:
        return selector
    term = object_at(terms[0]) if isinstance(terms, list) and len(terms) == 1 else {}
    expressions = term.get("matchExpressions")
    if term.keys() != {"matchExpressions"} or not isinstance(expressions, list):
        raise _unsupported("expected one term of matchExpressions")
    for expression in map(object_at, expressions):
        label, values = expression.get("key"), expression.get("values")
        if expression.get("operator") != "In" or not isinstance(values, list):
            raise _unsupported(f"expected the operator In, got {expression.get('operator')}")
        name = check_text(label, _AFFINITY)
        texts = [check_text(value, _AFFINITY, blank=True) for value in values]
        # Two conditions on one label must both hold.
        allowed = frozenset(selector.get(name, texts))
        selector[name] = [value for value in texts if value in allowed]
    return selector


def _unsupported(reason: str) -> Unacceptable:
    return Unacceptable(
        f"The pod's node affinity cannot be written as a server selector: {reason}.",
        code="selector.unsupported",
        pointer=_AFFINITY,
    )


def check_kind(item: Any, kind: str) -> None:
    """Raise `Unacceptable` for an item of another kind."""
    # Items of a typed list may lack their kind.
    if object_at(item).get("kind", kind) != kind:
        raise Unacceptable(
            f"Expected an item of kind {kind}.", code="import.shape", pointer="/kind"
        )


def display_name(item: Any) -> str:
    """Return the name of an item for a report, or an empty text."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name[:80] if isinstance(name, str) else ""


def kubernetes_usage(
    content: Content, resources: Sequence[Resource], owner: Owner, source: str
) -> UsageFile:
    """Read usage from the pods that have finished.

    A pod used its requests from its start until its last container ended. The id is the pod's uid.
    Raises `Unacceptable` for content that is not the output of kubectl.
    """
    measures = Measures(resources)
    rows: list[UsageRow | RefusedRow | SkippedRow] = []
    items = list_at(json_content(content), "items", "kubectl get pods -o json")
    for number, item in enumerate(items):
        place = Place("item", number)
        try:
            rows.append(_usage_row(place, item, measures, owner, source))
        except Unacceptable as error:
            rows.append(RefusedRow(place, display_name(item), errors_of(error)))
    return UsageFile(rows, measures.ignored)


def _usage_row(
    place: Place, item: Any, measures: Measures, owner: Owner, source: str
) -> UsageRow | SkippedRow:
    check_kind(item, "Pod")
    metadata, status = object_at(item, "metadata"), object_at(item, "status")
    if status.get("phase") not in FINISHED:
        return SkippedRow(
            place, display_name(item), f"The pod has not ended: {status.get('phase')}."
        )
    ends = [
        check_instant(ended, "/status/containerStatuses")
        for container in _statuses(status)
        if (ended := object_at(container, "state", "terminated").get("finishedAt")) is not None
    ]
    if status.get("startTime") is None or not ends:
        return SkippedRow(
            place, display_name(item), "The pod has no start or no end: it never ran."
        )
    return UsageRow(
        place,
        check_text(metadata.get("uid"), "/metadata/uid"),
        pod_tenant(metadata, owner),
        source,
        pod_requests(object_at(item, "spec"), measures),
        check_instant(status["startTime"], "/status/startTime"),
        # A pod holds its requests until its last container ends, whatever the others did.
        max(ends),
    )


def _statuses(status: dict[str, Any]) -> list[dict[str, Any]]:
    statuses = status.get("containerStatuses") or []
    if not isinstance(statuses, list):
        raise Unacceptable(
            "Expected an array.", code="import.shape", pointer="/status/containerStatuses"
        )
    return [object_at(each) for each in statuses]
