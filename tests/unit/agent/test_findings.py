"""Findings of a check: exit codes, clocks and the settings of Slurm."""

import pytest

from allocator_agent.checking import compare_clocks, compare_seconds
from allocator_agent.findings import Section, exit_code, summary
from allocator_agent.slurm.checking import check_settings
from allocator_agent.slurm.reading import read_settings, read_time_of_settings

CONFIGURATION = """\
Configuration data as of 2026-11-26T19:13:24
AccountingStorageEnforce = associations,limits,qos,safe
AccountingStorageTRES   = cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu
ClusterName             = lab
SLURM_VERSION           = 22.05.8
SlurmUser               = slurm(64030)
"""


def missing(section):
    return [finding.text for finding in section.findings if finding.state == "missing"]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([], 0), ([1], 1), ([1, 4], 4), ([4, 3], 3), ([4, 3, 2, 1], 2)],
)
def test_the_exit_code_is_that_of_the_first_thing_to_repair(codes, expected):
    section = Section("all")
    section.ok("this")
    for code in codes:
        section.missing("that", "do it", code)
    assert exit_code([Section("none"), section]) == expected
    wanted = f"{len(codes)} missing, 1 ok." if codes else "Nothing is missing."
    assert summary([section]) == wanted


@pytest.mark.parametrize(
    ("server", "before", "after", "agrees"),
    [
        (100, 100.2, 100.4, True),
        (100, 102.9, 103, True),  # it may be 100.99 there
        (100, 103.1, 103.2, False),
        (100, 97, 98.1, True),
        (100, 97, 97.9, False),
        (100, 95, 100, True),  # an answer that took long proves nothing
    ],
)
def test_clocks_may_differ_by_two_seconds_beyond_what_the_answer_took(
    server, before, after, agrees
):
    section = Section("clocks")
    compare_seconds(section, "it", server, before, after)
    assert (missing(section) == []) is agrees


@pytest.mark.parametrize("date", ["", "yesterday", "Thu, 99 Nov 2026 19:13:24 GMT"])
def test_a_clock_without_a_date_is_noted(date):
    section = Section("clocks")
    compare_clocks(section, "it", date, 0, 1)
    assert [finding.state for finding in section.findings] == ["note"]


def settings(**changed):
    return {**read_settings(CONFIGURATION), **changed}


def test_settings_are_read_with_the_time_of_the_controller():
    assert settings()["ClusterName"] == "lab"
    assert read_time_of_settings(CONFIGURATION) == 1795720404
    assert read_time_of_settings("") == 0


@pytest.mark.parametrize("version", ["21.08.0", "22.05.8", "24.11.1", "25.05.0-0rc1"])
def test_a_recent_slurm_has_nothing_missing(version):
    section = Section("Slurm")
    check_settings(section, settings(SLURM_VERSION=version), ["cpu", "memory", "gpu"])
    assert missing(section) == []


@pytest.mark.parametrize("version", ["20.11.9", "21.02.7", "", "unknown"])
def test_an_old_slurm_is_missing_an_upgrade(version):
    section = Section("Slurm")
    check_settings(section, settings(SLURM_VERSION=version), [])
    assert missing(section) == [f"version {version or 'unknown'} is too old"]
