"""Tasks that the agent makes of Kueue's workloads."""

import pytest

from allocator_agent.configuration import Configuration
from allocator_agent.feeding import jobs_by_workload, rows_of
from allocator_agent.kubernetes.reading import read_workloads
from allocator_agent.quantities import Units
from tests.kueue_cases import CASES

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
