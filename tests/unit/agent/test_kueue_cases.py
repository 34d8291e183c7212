"""Tasks that the agent makes of Kueue's workloads."""

import pytest

from allocator_agent.configuration import Configuration
from allocator_agent.kubernetes.reading import read_workloads
from allocator_agent.quantities import Units
from allocator_agent.workload_rows import jobs_by_workload, rows_of
from tests.kueue_cases import CASES, pod_set, workload

UNITS = Units([{"name": "cpu", "unit": "CPU"}])
CONFIGURATION = Configuration(url="", pool="lab", key="", name="lab", scheduler="kueue")


@pytest.mark.parametrize("case", CASES)
def test_the_agent_makes_gangs_of_pod_sets(case):
    items, expected = CASES[case]
    jobs = read_workloads(items, class_label="partition")
    workloads = jobs_by_workload(jobs, CONFIGURATION, UNITS, places=True, gangs=True)
    rows = rows_of(workloads, CONFIGURATION.class_label)
    found = []
    for row in rows:
        kinds = [(int(row.get("pieces", 1)), int(row["demand.cpu"]))]
        if "second_pieces" in row:
            kinds.append((int(row["second_pieces"]), int(row["second_demand.cpu"])))
        found.append((int(row["tasks"]), tuple(sorted(kinds))))
    assert sorted(found) == expected


RACK, BLOCK = "cloud.provider.com/topology-rack", "cloud.provider.com/topology-block"


def in_one(label, name="main", count=4, group=""):
    """Return a pod set whose pods must be on nodes of one value, as Kueue states it."""
    pods = pod_set(name, count, 2)
    pods["topologyRequest"] = {"required": label, **({"podSetGroupName": group} if group else {})}
    return pods


def annotated(label):
    pods = pod_set("main", 4, 2)
    annotations = {"kueue.x-k8s.io/podset-required-topology": label}
    pods["template"]["metadata"] = {"annotations": annotations}
    return pods


@pytest.mark.parametrize(
    ("pod_sets", "together"),
    [
        ([in_one(RACK)], RACK),
        ([annotated(BLOCK)], BLOCK),
        ([pod_set("main", 4, 2)], None),
        # Each pod set may be in a rack of its own.
        ([in_one(RACK, "a"), in_one(RACK, "b")], None),
        ([in_one(RACK, "a", group="g"), in_one(RACK, "b", group="g")], RACK),
        ([in_one(RACK, "a", group="g"), in_one(RACK, "b", group="h")], None),
        ([in_one(RACK, "a"), in_one(BLOCK, "b")], None),
        ([in_one(RACK, "a"), pod_set("b", 1, 2)], None),
        ([in_one(RACK, count=1)], None),  # one pod is always on one node
    ],
)
def test_a_required_topology_is_a_label_that_all_servers_share(pod_sets, together):
    jobs = read_workloads([workload(*pod_sets)], class_label="partition")
    workloads = jobs_by_workload(jobs, CONFIGURATION, UNITS, places=True, gangs=True)
    (row,) = rows_of(workloads, CONFIGURATION.class_label)
    assert row.get("together") == together
    assert row["name"].endswith(f" in one {together}") == bool(together)
