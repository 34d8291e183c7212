"""Workloads of Kueue, and the tasks that the agent and an import must make of them.

Neither of the two can import the other, so that both are held to this table.
"""

from typing import Any

# Tasks of a workload, and the pieces of each: their number, and the CPUs of one.
Tasks = tuple[int, tuple[tuple[int, int], ...]]
_BIG = {"partition": "big"}


def pod_set(name: str, count: int, cpu: int, **fields: Any) -> dict[str, Any]:
    requests = {"cpu": str(cpu)} if cpu else {"example.com/other": "1"}
    spec = {"containers": [{"resources": {"requests": requests}}], **fields}
    return {"name": name, "count": count, "template": {"spec": spec}}


def workload(*pod_sets: dict[str, Any], name: str = "w", **status: Any) -> dict[str, Any]:
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"active": status.pop("active", True), "podSets": list(pod_sets)},
        "status": status,
    }


def conditions(*names: str) -> list[dict[str, str]]:
    return [
        {"type": name, "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
        for name in names
    ]


def _admitted(count: int, done: int) -> dict[str, Any]:
    return {
        "conditions": conditions("QuotaReserved", "Admitted"),
        "admission": {"podSetAssignments": [{"name": "main", "count": count}]},
        "reclaimablePods": [{"name": "main", "count": done}],
    }


CASES: dict[str, tuple[list[dict[str, Any]], list[Tasks]]] = {
    "one pod": ([workload(pod_set("main", 1, 2))], [(1, ((1, 2),))]),
    "a pod set": ([workload(pod_set("main", 4, 2))], [(1, ((4, 2),))]),
    "a head and its workers": (
        [workload(pod_set("head", 1, 4), pod_set("workers", 3, 1))],
        [(1, ((1, 4), (3, 1)))],
    ),
    "pod sets that are alike": (
        [workload(pod_set("a", 1, 2), pod_set("b", 3, 2))],
        [(1, ((4, 2),))],
    ),
    "three kinds": (
        [workload(pod_set("a", 1, 1), pod_set("b", 2, 2), pod_set("c", 1, 3))],
        [(1, ((1, 1),)), (1, ((1, 3),)), (2, ((1, 2),))],
    ),
    "other servers for each pod set": (
        [workload(pod_set("a", 1, 2, nodeSelector=_BIG), pod_set("b", 2, 1))],
        [(1, ((1, 2),)), (2, ((1, 1),))],
    ),
    "the same servers": (
        [workload(pod_set("a", 1, 2, nodeSelector=_BIG), pod_set("b", 2, 1, nodeSelector=_BIG))],
        [(1, ((1, 2), (2, 1)))],
    ),
    "a pod set that the pool does not count": (
        [workload(pod_set("a", 1, 0), pod_set("b", 2, 1))],
        [(1, ((2, 1),))],
    ),
    "pods that are done": ([workload(pod_set("main", 4, 2), **_admitted(4, 1))], [(1, ((3, 2),))]),
    "fewer pods than asked for": (
        [workload(pod_set("main", 4, 2), **_admitted(2, 0))],
        [(1, ((2, 2),))],
    ),
    "all pods are done": ([workload(pod_set("main", 2, 2), **_admitted(2, 2))], []),
    "evicted": (
        [
            workload(
                pod_set("main", 4, 2),
                **{**_admitted(2, 0), "conditions": conditions("Admitted", "Evicted")},
            )
        ],
        [(1, ((4, 2),))],
    ),
    "finished": ([workload(pod_set("main", 4, 2), conditions=conditions("Finished"))], []),
    "deactivated": ([workload(pod_set("main", 4, 2), active=False)], []),
}
