"""README's session, then the pages that go on from it, in one shell: as somebody reads them."""

import json
import re

import pytest

from launcher.folders import PROJECT
from tests.guides import run_pages
from tests.live.conftest import launched

README = PROJECT / "README.md"
TENANTS = PROJECT / "docs" / "guides" / "tenants.md"
# README's session, step by step in the tutorial; what follows has it behind it.
PAGES = [
    README,
    PROJECT / "docs" / "enforcement.md",
    TENANTS,
    PROJECT / "docs" / "guides" / "why.md",
]


@pytest.fixture(scope="module")
def told(tmp_path_factory, worker_id):
    """All that the session prints on a new service, line by line."""
    folder = tmp_path_factory.mktemp("reader")
    with launched("kept", worker_id, tmp_path_factory.mktemp("read")) as service:
        config = str(folder / "config")
        printed = run_pages(PAGES, service=service, folder=folder, XDG_CONFIG_HOME=config)
    return printed.splitlines()


@pytest.fixture(scope="module")
def answers(told):
    """What the API answered, in order."""
    return [answer for line in told if line.startswith(("{", "[")) for answer in _documents(line)]


def _documents(line):
    """The documents on a line: not every command ends its own."""
    while line.startswith(("{", "[")):
        document, end = json.JSONDecoder().raw_decode(line)
        yield document
        line = line[end:]


def test_no_command_is_refused(answers):
    assert [each for each in answers if "request_id" in each and "errors" in each] == []
    assert len(answers) > 15


def test_readme_s_decision_is_the_one_that_it_tells_of_and_verifies(answers):
    shown = next(each["results"] for each in answers if _are_allocations(each))
    assert [(row["tenant"], round(row["tasks"], 6)) for row in shown] == [
        ("physics", 10),
        ("biology", 10),
    ]
    assert {round(row["dominant_share"], 6) for row in shown} == {round(5 / 7, 6)}
    assert [each["valid"] for each in answers if "valid" in each] == [True]


def test_the_tenant_is_served_what_its_guide_shows(answers):
    *_, rows = (each["results"] for each in answers if _are_allocations(each))
    example = re.search(r"```json\n(.*?)```", TENANTS.read_text(), re.DOTALL)
    assert example is not None
    shown = json.loads(example[1])
    (row,) = [row for row in rows if row["workload"]["name"] == shown["workload"]["name"]]
    assert row["limited_by"] == shown["limited_by"]
    for name in ("tasks", "dominant_share", "weighted_share"):
        assert abs(row[name] - shown[name]) < 1e-3
    assert row["dominant_resource"] == shown["dominant_resource"]


def test_the_tenant_s_questions_are_answered(answers, told):
    explanation = next(each for each in answers if "sentence" in each)
    assert explanation["sentence"]
    simulated = next(each for each in answers if each.get("status") == "succeeded")
    (more,) = [row for row in simulated["result"]["workloads"] if row["workload"] == "more"]
    assert more["before"] is None
    assert abs(more["after"]["tasks"] - 4) < 1e-6  # its priority is the higher one
    assert any("analysis" in line for line in told[-20:])  # `alloc why`, at the end


def _are_allocations(answer):
    return bool(answer.get("results")) and "limited_by" in answer["results"][0]
