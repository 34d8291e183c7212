"""A time limit means the same under every policy, and no loop goes on long after it."""

import json
import math
import subprocess
import sys
import time

import numpy as np
import pytest

import policies
from policies import (
    PolicyError,
    ProblemError,
    SolveTimeoutError,
    compare_documents,
    policies_available,
    solve,
    verify,
)
from tests.unit.policies.problems import problem_of

SMALL = problem_of([[9, 18]], [[1, 4], [3, 1]])
DOCUMENT = {
    "resources": ["cpu"],
    "servers": [{"name": "S", "capacity": {"cpu": 9}}],
    "tenants": [{"name": "A"}],
    "workloads": [{"name": "W", "tenant": "A", "demand": {"cpu": 1}}],
}
MODES = [(info.name, mode) for info in policies_available() for mode in info.modes]


@pytest.mark.parametrize(("policy", "mode"), MODES)
@pytest.mark.parametrize("limit", [0, -1, math.nan])
def test_a_limit_that_is_not_greater_than_0_is_refused_by_every_policy(policy, mode, limit):
    with pytest.raises(PolicyError) as caught:
        solve(SMALL, policy, mode=mode, time_limit=limit)
    assert caught.value.code == "solve.time_limit"


def test_a_comparison_refuses_it_too():
    with pytest.raises(PolicyError) as caught:
        compare_documents(DOCUMENT, ["drf", "static"], time_limit=0)
    assert caught.value.code == "solve.time_limit"


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("static", problem_of(np.arange(1.0, 301)[:, None], np.ones((300, 1)))),
        ("tda", problem_of([[4e5, 6e5]], [[2, 3], [3, 2]])),
    ],
)
def test_a_policy_gives_up_when_its_limit_passes(policy, problem, monkeypatch):
    """The clock runs ahead: what takes the longest looks at it."""
    begin = time.monotonic()
    readings = iter(range(10**9))
    monkeypatch.setattr(time, "monotonic", lambda: begin + next(readings))
    with pytest.raises(SolveTimeoutError):
        solve(problem, policy, mode="indivisible", time_limit=5)


def test_two_tenants_with_more_slots_than_can_be_listed_get_generated_ones():
    problem = problem_of([[1e8, 1e8]], [[1, 1], [1, 2]])
    answer = solve(problem, "tda", time_limit=60)
    assert verify(problem, answer).valid


def test_a_document_is_not_a_problem():
    with pytest.raises(ProblemError, match="problem_from_document") as caught:
        solve(DOCUMENT, "drf")
    assert caught.value.code == "field.type"


@pytest.mark.parametrize("first", ["", "import policies.warming", "import policies.simulation"])
def test_every_name_of_the_package_is_what_is_documented(first):
    """A module of the same name took the place of a function once it was imported."""
    names = [name for name in policies.__all__ if not name.startswith("_")]
    code = f"{first}\nimport types, policies\nfor name in {names!r}:\n"
    code += "    assert not isinstance(getattr(policies, name), types.ModuleType), name\n"
    code += "from policies import warm\nassert callable(warm)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(DOCUMENT).replace('"tenants"', '"resources": ["gpu"], "tenants"'),
        json.dumps(DOCUMENT).replace('{"cpu": 9}', '{"cpu": 9, "cpu": 8}'),
    ],
)
def test_a_member_that_is_named_twice_is_refused_by_the_command_line(text, tmp_path):
    file = tmp_path / "problem.json"
    file.write_text(text)
    command = [sys.executable, "-m", "policies", "solve", str(file), "--policy", "drf"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode != 0
    assert "twice" in ended.stderr
    assert "Traceback" not in ended.stderr
