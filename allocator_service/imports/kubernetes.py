"""What `kubectl get nodes -o json` and `kubectl get pods -o json` print, as nodes and workloads."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import (
    checked_labels,
    checked_selector,
    checked_slug,
    checked_text,
)
from allocator_service.imports.measures import ASKED, OFFERED, Measures
from allocator_service.imports.reading import findings_of, json_content, listed, part
from allocator_service.imports.rows import (
    NodeFile,
    NodeRow,
    Owner,
    Place,
    RefusedRow,
    SkippedRow,
    WorkloadFile,
    WorkloadRow,
)

FINISHED = ("Succeeded", "Failed")
Content = str | dict[str, Any]


def kubernetes_nodes(content: Content, resources: Sequence[Resource], owner: Owner) -> NodeFile:
    """The nodes of a cluster with what is allocatable on them; cordoned ones are draining.

    Raises `Unacceptable` for content that is not what kubectl prints.
    """
    measures = Measures(resources)
    rows: list[NodeRow | RefusedRow] = []
    items = listed(json_content(content), "items", "kubectl get nodes -o json")
    for number, item in enumerate(items):
        place = Place("item", number)
        try:
            rows.append(_node(place, item, measures, owner))
        except Unacceptable as error:
            rows.append(RefusedRow(place, shown_name(item), findings_of(error)))
    return NodeFile(rows, measures.ignored)


def _node(place: Place, item: Any, measures: Measures, owner: Owner) -> NodeRow:
    refuse_other_kind(item, "Node")
    labels = checked_labels(part(item, "metadata", "labels"), "/metadata/labels")
    field = "allocatable" if part(item, "status", "allocatable") else "capacity"
    slug = owner.of(labels)
    return NodeRow(
        place,
        checked_text(part(item, "metadata").get("name"), "/metadata/name"),
        checked_slug(slug, "/metadata/labels") if slug else None,
        measures.vector(
            part(item, "status", field),
            rounding=OFFERED,
            pointer=f"/status/{field}",
        ),
        labels,
        draining=part(item, "spec").get("unschedulable") is True,
    )


@dataclass(frozen=True)
class _Kind:
    """What pods of one workload have in common."""

    tenant: str
    controller: tuple[str, str]
    demand: tuple[Decimal, ...]
    selector: tuple[tuple[str, tuple[str, ...]], ...]


def kubernetes_workloads(
    content: Content, resources: Sequence[Resource], owner: Owner
) -> WorkloadFile:
    """The pods that have not finished; those of one owner, requests and selector are one workload.

    A workload is named after its pods' owner; a second one of the same owner is `<name>-2`, in the
    order of their demands and selectors. Raises `Unacceptable` for content that is not what
    kubectl prints.
    """
    measures = Measures(resources)
    items = listed(json_content(content), "items", "kubectl get pods -o json")
    others: list[RefusedRow | SkippedRow] = []
    places: defaultdict[_Kind, list[Place]] = defaultdict(list)
    for number, item in enumerate(items):
        place = Place("item", number)
        try:
            phase = part(item, "status").get("phase")
            if phase in FINISHED:
                reason = f"The pod has finished: {phase}."
                others.append(SkippedRow(place, shown_name(item), reason))
            else:
                places[_kind(item, measures, owner)].append(place)
        except Unacceptable as error:
            others.append(RefusedRow(place, shown_name(item), findings_of(error)))
    rows = [*_workloads(places), *others]
    return WorkloadFile(sorted(rows, key=lambda row: row.place.number), measures.ignored)


def _workloads(places: dict[_Kind, list[Place]]) -> list[WorkloadRow]:
    used: Counter[tuple[str, str]] = Counter()
    rows = []
    for kind in sorted(places, key=lambda k: (k.tenant, k.controller, k.demand, k.selector)):
        name = kind.controller[1]
        used[kind.tenant, name] += 1
        number = used[kind.tenant, name]
        selector = {label: list(values) for label, values in kind.selector}
        rows.append(
            WorkloadRow(
                places[kind][0],
                name if number == 1 else f"{name[:240]}-{number}",
                kind.tenant,
                list(kind.demand),
                len(places[kind]),
                selector=checked_selector(selector, "/spec/nodeSelector"),
            )
        )
    return rows


def _kind(item: Any, measures: Measures, owner: Owner) -> _Kind:
    refuse_other_kind(item, "Pod")
    metadata = part(item, "metadata")
    demand = pod_requests(part(item, "spec"), measures)
    if not any(demand):
        raise Unacceptable(
            "The pod requests none of the pool's resources.", code="demand.zero", pointer="/spec"
        )
    selector = _selector(part(item, "spec"))
    return _Kind(
        pod_tenant(metadata, owner),
        _controller(metadata),
        tuple(demand),
        tuple(sorted((label, tuple(values)) for label, values in selector.items())),
    )


def pod_tenant(metadata: dict[str, Any], owner: Owner) -> str:
    """Whose a pod is: what its label names, or its namespace. Raises `Unacceptable`."""
    named = owner.of(part(metadata, "labels")) or (
        None if owner.label else metadata.get("namespace")
    )
    if not isinstance(named, str) or not named:
        raise Unacceptable(
            "Neither a label nor the namespace of the pod names its tenant.",
            code="field.required",
            pointer="/metadata",
        )
    return checked_slug(named, "/metadata/namespace")


def _controller(metadata: dict[str, Any]) -> tuple[str, str]:
    """Kind and name of what made the pod; a pod that nothing made is its own."""
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else []:
        if part(reference).get("controller") is True:
            name = checked_text(reference.get("name"), "/metadata/ownerReferences")
            return str(reference.get("kind", "")), name
    return "Pod", checked_text(metadata.get("name"), "/metadata/name")


def pod_requests(spec: dict[str, Any], measures: Measures) -> list[Decimal]:
    """What the scheduler keeps free for a pod: its containers together, or more while it starts.

    Init containers run one after the other before the others do, those that restart always
    (sidecars) go on beside all that come after them.
    """
    sidecars = measures.vector({}, rounding=ASKED, pointer="")
    peak = sidecars
    for number, container in enumerate(_containers(spec, "initContainers")):
        asked = _asked(container, measures, f"/spec/initContainers/{number}")
        peak = _each(max, peak, _added(sidecars, asked))
        if container.get("restartPolicy") == "Always":
            sidecars = _added(sidecars, asked)
    running = sidecars
    for number, container in enumerate(_containers(spec, "containers")):
        running = _added(running, _asked(container, measures, f"/spec/containers/{number}"))
    overhead = measures.vector(part(spec, "overhead"), rounding=ASKED, pointer="/spec/overhead")
    return _added(_each(max, peak, running), overhead)


def _containers(spec: dict[str, Any], name: str) -> list[dict[str, Any]]:
    containers = spec.get(name) or []
    if not isinstance(containers, list):
        raise Unacceptable("Expected an array.", code="import.shape", pointer=f"/spec/{name}")
    return [part(container) for container in containers]


def _asked(container: dict[str, Any], measures: Measures, pointer: str) -> list[Decimal]:
    requests = part(container, "resources", "requests")
    return measures.vector(requests, rounding=ASKED, pointer=f"{pointer}/resources/requests")


def _added(first: Sequence[Decimal], second: Sequence[Decimal]) -> list[Decimal]:
    return [one + other for one, other in zip(first, second, strict=True)]


def _each(choose: Any, first: Sequence[Decimal], second: Sequence[Decimal]) -> list[Decimal]:
    return [choose(one, other) for one, other in zip(first, second, strict=True)]


_AFFINITY = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"


def _selector(spec: dict[str, Any]) -> dict[str, list[str]]:
    """The labels a node must have: `nodeSelector`, and required affinity as far as it is a list.

    Raises `Unacceptable` for affinity that a selector cannot say: several terms, operators but In.
    """
    selector = {
        label: [checked_text(value, "/spec/nodeSelector", blank=True)]
        for label, value in part(spec, "nodeSelector").items()
    }
    required = part(
        spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = required.get("nodeSelectorTerms") or []
    if not terms:
        return selector
    term = part(terms[0]) if isinstance(terms, list) and len(terms) == 1 else {}
    expressions = term.get("matchExpressions")
    if term.keys() != {"matchExpressions"} or not isinstance(expressions, list):
        raise _unsupported("it has other than one term of matchExpressions")
    for expression in map(part, expressions):
        label, values = expression.get("key"), expression.get("values")
        if expression.get("operator") != "In" or not isinstance(values, list):
            raise _unsupported(f"the operator {expression.get('operator')} is not In")
        name = checked_text(label, _AFFINITY)
        texts = [checked_text(value, _AFFINITY, blank=True) for value in values]
        allowed = frozenset(selector.get(name, texts))
        selector[name] = [value for value in texts if value in allowed]
    return selector


def _unsupported(reason: str) -> Unacceptable:
    return Unacceptable(
        f"The pod's node affinity cannot be written as a server selector: {reason}.",
        code="selector.unsupported",
        pointer=_AFFINITY,
    )


def refuse_other_kind(item: Any, kind: str) -> None:
    """Raise `Unacceptable` for an item that says it is of another kind."""
    if part(item).get("kind", kind) != kind:
        raise Unacceptable(f"The item is not a {kind}.", code="import.shape", pointer="/kind")


def shown_name(item: Any) -> str:
    """The name under which a report shows an item, whatever it is."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name[:80] if isinstance(name, str) else ""
