"""DRF's figures again: two jobs whose tasks change, and a busy cluster in a small form."""

import numpy as np

from papers import facebook, reproduce
from tests.unit.papers.findings import check_form, claims, ours, swim_file


def test_two_jobs_on_48_nodes_share_as_the_paper_says():
    found = ours("drf-fig8")
    assert found["first phase: Job 1's share of the memory"] == "71.4 %"
    assert found["first phase: Job 2's share of the CPU"] == "75.0 %"


def test_a_busy_cluster_under_drf_and_slots(monkeypatch, tmp_path):
    for name, value in (
        ("NODES", 20), ("JOBS", 40), ("SEEDS", (1, 2)), ("SECONDS", 300.0),
        ("SAMPLE", np.linspace(100.0, 300.0, 11)),
    ):  # fmt: skip
        monkeypatch.setattr(facebook, name, value)
    facebook.simulated.cache_clear()
    data = swim_file(tmp_path)
    utilisation, times = reproduce("drf-fig13", data), reproduce("drf-fig14", data)
    facebook.simulated.cache_clear()
    for finding in (utilisation, times):
        check_form(finding)
    assert claims(utilisation)["DRF uses more CPU than slots, in every draw"] == "yes"
