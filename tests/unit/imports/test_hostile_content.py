"""Content of the right shape with wrong kinds at every depth is read or refused by name."""

import copy
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from allocator_service.backtests.uploads import FORMATS as TRACE_FORMATS
from allocator_service.backtests.uploads import trace_read
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource
from allocator_service.imports.csv_files import csv_tenants
from allocator_service.imports.kinds import read_nodes, read_usage, read_workloads
from allocator_service.imports.rows import ImportedFile, Owner
from tests.kueue_cases import conditions, pod_set, workload

LAB = [Resource("cpu", "core"), Resource("memory", "GiB"), Resource("gpu", "")]
HOSTILE: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 10**30, "", " ", "a", "\x00", "９", "-1", "1e999"),
    *("9" * 5_000, "a" * 5_000, [], {}, [[]], [{}], {"a": 1}, [1], ["a"], {"set": True}),
    {"number": [], "set": True},
]  # fmt: skip
LINES = [
    *("", " ", "a", "\x00", "９", "-1", "0", "1e999", "nan", "inf", "-0", "1.5", "٣", '"', "'", "|"),
    *("9" * 5_000, "9" * 400, "999999999999", "999999999999999", "1000000000000", "253402300800"),
    *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00", "2026-02-30T00:00:00Z"),
    *("cpu=", "=1", "cpu=1,cpu=2"),
    *("2026-11-20T00:00:00+99:99", "12:00:00", "1-00:00:00", "99999999-00:00:00"),
]  # fmt: skip
SINFO = {
    "sinfo": [
        {
            "nodes": {"nodes": ["n1", "n2"]},
            "cpus": {"minimum": 4, "maximum": 4},
            "memory": {"minimum": 4096, "maximum": 4096},
            "features": {"total": "a,b"},
            "gres": {"total": "gpu:a100:2(S:0-1)"},
            "node": {"state": ["IDLE"]},
        }
    ]
}
SCONTROL = {
    "nodes": [
        {
            "name": "n1",
            "cpus": {"set": True, "infinite": False, "number": 4},
            "real_memory": 4096,
            "features": ["a", "b"],
            "gres": "gpu:a100:2",
            "state": ["IDLE"],
            "state_flags": ["DRAIN"],
        }
    ]
}
SQUEUE = {
    **SCONTROL,
    "topology": "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]",
    "jobs": [
        {
            "job_id": {"set": True, "infinite": False, "number": 7},
            "account": "physics",
            "job_state": ["PENDING"],
            "state_reason": "BeginTime",
            "partition": "p",
            "node_count": {"set": True, "infinite": False, "number": 2},
            "nodes": "n[1-2]",
            "array_task_string": "1-9:2%3",
            "het_job_id": {"set": True, "number": 7},
            "tres_req_str": "cpu=4,mem=1G,node=2,gres/gpu:a100=2",
            "tres_per_node": "gres/gpu:a100:1",
            "shared": ["none"],
            "eligible_time": {"set": True, "number": 1_795_000_000},
            "submit_time": {"set": True, "number": 1_795_000_000},
            "required_switches": 1,
        },
        {"job_id": 8, "job_state": "RUNNING", "account": "physics", "tres_alloc_str": "cpu=1"},
    ],
}
NODE_LIST = {
    "items": [
        {
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {"zone": "a"}},
            "spec": {"unschedulable": False},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}, "capacity": {"cpu": 4}},
        }
    ]
}

POD = {
    "kind": "Pod",
    "metadata": {
        "name": "p1",
        "uid": "u1",
        "namespace": "physics",
        "labels": {"team": "physics"},
        "ownerReferences": [{"controller": True, "kind": "Job", "name": "j1"}],
    },
    "spec": {
        "nodeSelector": {"zone": "a"},
        "overhead": {"cpu": "1m"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                                {"key": "disk", "operator": "In", "values": ["ssd"]},
                            ]
                        }
                    ]
                }
            }
        },
        "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        "containers": [{"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-11-20T00:00:00Z",
        "containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-11-20T01:00:00Z"}}}],
    },
}


def pods(phase: str) -> dict[str, Any]:
    other = {**POD, "metadata": {**POD["metadata"], "ownerReferences": []}}  # type: ignore[dict-item]
    items = [copy.deepcopy(each) for each in (POD, other)]
    for item in items:
        item["status"] = {**POD["status"], "phase": phase}  # type: ignore[dict-item]
    return {"items": items}


WAITING = workload(pod_set("head", 1, 4), pod_set("workers", 3, 1), name="waiting")
ADMITTED = workload(
    pod_set("main", 4, 2, nodeSelector={"zone": "a"}),
    name="admitted",
    conditions=conditions("Admitted"),
    admission={"podSetAssignments": [{"name": "main", "count": 4}]},
    reclaimablePods=[{"name": "main", "count": 1}],
)


def replaced(document: Any) -> Iterator[Any]:
    """The document with each of its values, at every depth, replaced by each hostile one."""
    for path in list(paths(document)):
        for value in HOSTILE:
            changed = copy.deepcopy(document)
            place = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = copy.deepcopy(value)
            yield changed


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in steps:
        yield (*before, step)
        if isinstance(inner, dict | list):
            yield from paths(inner, (*before, step))


def refused_or_read(read: Any) -> bool:
    """Whether the content was read; a refusal by name counts as handled."""
    try:
        file = read()
    except DomainError:
        return False
    assert isinstance(file, ImportedFile)
    return True


@pytest.mark.parametrize(
    ("document", "form", "read"),
    [
        pytest.param(SINFO, "slurm", read_nodes, id="sinfo"),
        pytest.param(SCONTROL, "slurm", read_nodes, id="scontrol"),
        pytest.param(SQUEUE, "slurm", read_workloads, id="squeue"),
        pytest.param(NODE_LIST, "kubernetes", read_nodes, id="nodes"),
        pytest.param(pods("Running"), "kubernetes", read_workloads, id="pods"),
        pytest.param(pods("Succeeded"), "kubernetes", None, id="finished pods"),
        pytest.param({"items": [WAITING, ADMITTED]}, "kubernetes", read_workloads, id="kueue"),
    ],
)
@pytest.mark.parametrize("is_parsed", [True, False], ids=["parsed", "text"])
def test_wrong_kinds_at_every_depth_of_json_are_read_or_refused(document, form, read, is_parsed):
    owner = Owner(label="team") if form == "kubernetes" else Owner()
    count = 0
    for changed in replaced(document):
        content = changed if is_parsed else json.dumps(changed)
        if read is None:
            refused_or_read(lambda c=content: read_usage(c, form, LAB, owner))
        else:
            refused_or_read(lambda c=content: read(c, form, LAB, owner))
        count += 1
    assert count > 300


TABLES = {
    "nodes": ("name,contributed_by,count,capacity.cpu,labels.zone", "n1,ada,2,4,a"),
    "workloads": (
        "tenant,name,demand.cpu,tasks,priority,selector.zone",
        "ada,train,1,2,0,a|b",
    ),
    "usage": (
        "id,tenant,start,end,resources.cpu,source",
        "1,ada,2026-11-20T00:00:00Z,2026-11-20T01:00:00Z,1,s",
    ),
    "tenants": ("slug,name", "ada,Ada"),
    "sacct": (
        "JobIDRaw|Account|User|Start|End|AllocTRES",
        "7|physics|ada|2026-11-20T00:00:00|2026-11-20T01:00:00|cpu=4,mem=16G,gres/gpu:a100=1",
    ),
    "swf": ("; UnixStartTime: 1700000000", "1 0 5 100 4 -1 -1 4 100 -1 1 3 2 -1 1 1 -1 -1"),
}  # fmt: skip


def read_table(kind: str, content: str) -> Any:
    match kind:
        case "nodes":
            return read_nodes(content, "csv", LAB, Owner())
        case "workloads":
            return read_workloads(content, "csv", LAB, Owner())
        case "tenants":
            return csv_tenants(content)
        case "usage":
            return read_usage(content, "csv", LAB, Owner())
        case _:
            return read_usage(content, kind, LAB, Owner())


def changed_lines(header: str, line: str) -> Iterator[str]:
    separator = "|" if "|" in header else "," if "," in header else " "
    for text in (header, line):
        cells = text.split(separator)
        for position in range(len(cells)):
            for value in LINES:
                other = separator.join([*cells[:position], value, *cells[position + 1 :]])
                yield "\n".join(other if each == text else each for each in (header, line))


@pytest.mark.parametrize("kind", TABLES)
def test_wrong_cells_of_lines_are_read_or_refused(kind):
    for content in changed_lines(*TABLES[kind]):
        refused_or_read(lambda c=content: read_table(kind, c))


TRACES = {
    "csv": ("tenant,submit,duration,demand.cpu,tasks,priority,job", "a,0,5,1,2,0,j"),
    "sacct": (
        "JobID|User|Account|Submit|Start|End|AllocTRES|NTasks|State",
        "7|ada|physics|2026-11-20T00:00:00|2026-11-20T00:00:10|2026-11-20T01:00:00|cpu=4,mem=16G|2|COMPLETED",
    ),
    "swf": TABLES["swf"],
    "google": ("timestamp,time,collection", "0,1,2"),
    "swim": ("job0\t1\t2\t3\t4\t5", "job1\t2\t3\t4\t5\t6"),
}  # fmt: skip


@pytest.mark.parametrize("form", TRACES)
def test_wrong_cells_of_traces_are_read_or_refused(form):
    assert form in TRACE_FORMATS
    header, line = TRACES[form]
    for content in changed_lines(header, line):
        try:
            trace_read(gzip.compress(content.encode()), form, {})
        except DomainError:
            continue
