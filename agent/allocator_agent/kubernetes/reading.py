"""Readers of nodes, pods, jobs and Kueue's workloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from allocator_agent.model import Job, Node, Usage
from allocator_agent.quantities import Amounts, added, quantity

FINISHED = ("Succeeded", "Failed")
# Mark of workloads that the agent deactivated. One that others deactivated stays as it is.
REQUEUED = "allocator.requeued"
# A label of nodes, of which all nodes of a pod set must have one value.
TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
_TOPOLOGY_GROUP = "kueue.x-k8s.io/podset-group-name"


def read_nodes(items: Iterable[Mapping[str, Any]], *, owner_label: str) -> Iterator[Node]:
    """Yield nodes with their allocatable amounts. Cordoned and unready ones take nothing new."""
    for item in items:
        labels = item["metadata"].get("labels") or {}
        status = item.get("status") or {}
        ready = any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in status.get("conditions") or []
        )
        yield Node(
            item["metadata"]["name"],
            amounts_of(status.get("allocatable") or {}),
            labels,
            draining=bool((item.get("spec") or {}).get("unschedulable")) or not ready,
            owner=labels.get(owner_label, "") if owner_label else "",
        )


def read_pods(items: Iterable[Mapping[str, Any]], *, class_label: str) -> Iterator[Job]:
    """Yield the pods that wait or run."""
    for item in items:
        spec, status = item.get("spec") or {}, item.get("status") or {}
        if status.get("phase") in FINISHED:
            continue
        metadata = item["metadata"]
        yield Job(
            f"{metadata['namespace']}/{metadata['name']}",
            metadata["namespace"],
            pod_demand(spec),
            running=bool(spec.get("nodeName")),
            where=where(spec, class_label),
            reason=_message(status, "PodScheduled", "False"),
        )


def read_missing_pods(items: Iterable[Mapping[str, Any]], *, class_label: str) -> Iterator[Job]:
    """Yield the pods that jobs and replica sets request but cannot create within their quota."""
    for item in items:
        spec, status = item.get("spec") or {}, item.get("status") or {}
        if "parallelism" in spec or "completions" in spec:
            requested = int(spec.get("parallelism", 1))
            if spec.get("completions") is not None:
                requested = min(
                    requested, int(spec["completions"]) - int(status.get("succeeded", 0))
                )
            if spec.get("suspend") or _is(status, "Complete") or _is(status, "Failed"):
                requested = 0
            missing = requested - int(status.get("active", 0))
        else:
            missing = int(spec.get("replicas", 0)) - int(status.get("replicas", 0))
        if missing > 0:
            template = (spec.get("template") or {}).get("spec") or {}
            metadata = item["metadata"]
            yield Job(
                f"{metadata['namespace']}/{metadata['name']}",
                metadata["namespace"],
                pod_demand(template),
                running=False,
                tasks=missing,
                where=where(template, class_label),
                reason=_message(status, "ReplicaFailure", "True"),
                splits=True,
            )


def read_workloads(items: Iterable[Mapping[str, Any]], *, class_label: str) -> Iterator[Job]:
    """Yield Kueue's workloads that wait for admission or hold quota, one job for each pod set."""
    for item in items:
        spec, status = item.get("spec") or {}, item.get("status") or {}
        metadata = item["metadata"]
        is_off = spec.get("active") is False
        # What the agent deactivated queues again soon: without it the demand would fall for a round.
        is_requeued = REQUEUED in (metadata.get("annotations") or {})
        if (is_off and not is_requeued) or _is(status, "Finished"):
            continue
        # A workload that is being evicted holds no quota soon.
        runs = _is(status, "Admitted") and not is_off and not _is(status, "Evicted")
        owners = metadata.get("ownerReferences") or []
        counts = _admitted_counts(status) if runs else {}
        flavors = _admitted_flavors(status) if runs else {}
        together = _together(spec.get("podSets") or [])
        for pods in spec.get("podSets") or []:
            if counts.get(pods["name"]) == 0:
                continue  # all of them are done
            template = (pods.get("template") or {}).get("spec") or {}
            yield Job(
                f"{metadata['namespace']}/{metadata['name']}/{pods['name']}",
                metadata["namespace"],
                pod_demand(template),
                running=runs,
                started=_seconds(status, "Admitted"),
                tasks=counts.get(pods["name"], int(pods.get("count", 1))),
                where=where(template, class_label),
                # Nothing makes a pod again that has no controller.
                can_requeue=not any(owner.get("kind") == "Pod" for owner in owners),
                reason=_message(status, "QuotaReserved", "False"),
                whole=f"{metadata['namespace']}/{metadata['name']}",
                together=together,
                flavors=flavors.get(pods["name"], {}),
            )


def read_usage(items: Iterable[Mapping[str, Any]]) -> Iterator[Usage]:
    """Yield the pods that have ended, from their start until their last container ended."""
    for item in items:
        status = item.get("status") or {}
        if status.get("phase") not in FINISHED or not status.get("startTime"):
            continue
        ends = [
            container["state"]["terminated"]["finishedAt"]
            for container in status.get("containerStatuses") or []
            if (container.get("state") or {}).get("terminated")
        ]
        amounts = pod_demand(item.get("spec") or {})
        if ends and amounts and max(ends) > status["startTime"]:
            metadata = item["metadata"]
            yield Usage(
                metadata["uid"], metadata["namespace"], amounts, status["startTime"], max(ends)
            )


def pod_demand(spec: Mapping[str, Any]) -> Amounts:
    """Return the amounts that the scheduler keeps free for a pod.

    They are those of its containers, or of an init container if that is more.
    """
    total: Amounts = {}
    for container in spec.get("containers") or []:
        total = added(total, _requests(container))
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or []:
        requests = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, requests)
            requests = {}
        for name, amount in added(sidecars, requests).items():
            largest[name] = max(largest.get(name, Fraction(0)), amount)
    total = added(total, sidecars)
    for name, amount in largest.items():
        total[name] = max(total.get(name, Fraction(0)), amount)
    return added(total, amounts_of(spec.get("overhead") or {}))


def amounts_of(quantities: Mapping[str, Any]) -> Amounts:
    """Return quantities by the names of a pool's resources, where `nvidia.com/gpu` is `gpu`."""
    amounts: Amounts = {}
    for name, value in quantities.items():
        resource = name.rpartition("/")[2]
        amounts[resource] = amounts.get(resource, Fraction(0)) + quantity(str(value))
    return amounts


def where(spec: Mapping[str, Any], class_label: str) -> tuple[str, ...]:
    """Return the classes of servers that a pod may run on, none if it may run on any."""
    value = (spec.get("nodeSelector") or {}).get(class_label)
    if value:
        return (value,)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: Sequence[Mapping[str, Any]] = (
        affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    ).get("nodeSelectorTerms") or []
    if len(terms) == 1:
        for rule in terms[0].get("matchExpressions") or []:
            if rule["key"] == class_label and rule["operator"] == "In":
                return tuple(sorted(rule["values"]))
    return ()


def _requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return amounts_of({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _is(status: Mapping[str, Any], condition: str) -> bool:
    return any(
        item.get("type") == condition and item.get("status") == "True"
        for item in status.get("conditions") or []
    )


def _admitted_counts(status: Mapping[str, Any]) -> dict[str, int]:
    """Return the pods of each pod set that hold quota, without those that are done."""
    assigned = (status.get("admission") or {}).get("podSetAssignments") or []
    done = {each["name"]: int(each.get("count", 0)) for each in status.get("reclaimablePods") or []}
    return {
        each["name"]: max(0, int(each["count"]) - done.get(each["name"], 0))
        for each in assigned
        if each.get("count") is not None
    }


def _admitted_flavors(status: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the flavor of each resource of the pool, by pod set."""
    assigned = (status.get("admission") or {}).get("podSetAssignments") or []
    return {
        each["name"]: {
            name.rpartition("/")[2]: flavor for name, flavor in (each.get("flavors") or {}).items()
        }
        for each in assigned
    }


def _together(pod_sets: Sequence[Mapping[str, Any]]) -> str:
    """Return the label of which the nodes of all pods must have one value, empty for none.

    Pod sets that state a label each may be on nodes of different values, unless they are in one group.
    """
    asked = {_topology_of(pods) for pods in pod_sets}
    if len(asked) != 1:
        return ""
    label, group = asked.pop()
    return label if len(pod_sets) == 1 or group else ""


def _topology_of(pods: Mapping[str, Any]) -> tuple[str, str]:
    """Return the label and the group that a pod set requires."""
    request = pods.get("topologyRequest") or {}
    annotations = ((pods.get("template") or {}).get("metadata") or {}).get("annotations") or {}
    label = request.get("required") or annotations.get(TOPOLOGY) or ""
    return str(label), str(request.get("podSetGroupName") or annotations.get(_TOPOLOGY_GROUP) or "")


def _seconds(status: Mapping[str, Any], condition: str) -> int:
    """Return since when a condition holds in seconds since 1970, or 0 if it does not."""
    for item in status.get("conditions") or []:
        if item.get("type") == condition and item.get("status") == "True":
            text = str(item.get("lastTransitionTime") or "1970-01-01T00:00:00Z")
            return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())
    return 0


def _message(status: Mapping[str, Any], condition: str, value: str) -> str:
    """Return the message of a condition that has the value, else nothing."""
    for item in status.get("conditions") or []:
        if item.get("type") == condition and item.get("status") == value:
            return str(item.get("message") or item.get("reason") or "")
    return ""
