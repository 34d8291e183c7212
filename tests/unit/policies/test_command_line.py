"""The command line, run as a process."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "docs" / "policies" / "command-line.md").read_text()
(PROBLEM,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
MISTAKEN = PROBLEM.replace('"servers": [{', '"colour": 1, "servers": [{"count": 0, ', 1)
WITH_OPTIONS = json.dumps({**json.loads(PROBLEM), "policy": {"name": "drf", "options": 5}})


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "problem.json"
    path.write_text(PROBLEM)
    return path


def run(*arguments, given=None):
    return subprocess.run(
        [sys.executable, "-m", "policies", *map(str, arguments)],
        cwd=PROJECT,
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_page_shows_what_is_printed(problem):
    (block,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    command, _, expected = block.partition("\n")
    arguments = shlex.split(command.removeprefix("$ python -m policies "))
    result = run(*(problem if argument == "problem.json" else argument for argument in arguments))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == expected


def test_an_answer_is_verified_and_a_changed_one_is_not(problem, tmp_path):
    solved = run("solve", problem, "--policy", "h-mrf", "--json")
    assert (solved.returncode, solved.stderr) == (0, "")
    answer = json.loads(solved.stdout)
    assert answer["policy"] == {"name": "h-mrf", "mode": "indivisible", "options": {}}
    assert [row["tasks"] for row in answer["allocations"]] == [15, 70]
    path = tmp_path / "answer.json"
    path.write_text(solved.stdout)
    verified = run("verify", problem, path)
    assert verified.returncode == 0
    assert verified.stdout.endswith("\nvalid\n")
    answer["allocations"][1]["tasks"] = 69
    path.write_text(json.dumps(answer))
    refused = run("verify", problem, path, "--json")
    assert refused.returncode == 1
    document = json.loads(refused.stdout)
    assert document["valid"] is False
    assert any(not check["holds"] for check in document["checks"])
    assert run("verify", problem, path).stdout.endswith("\nNOT valid\n")


def test_the_next_step_continues_from_the_history(problem):
    first = json.loads(run("solve", problem, "--policy", "h-mrf", "--json").stdout)
    document = json.loads(PROBLEM) | {"history": first["history"], "policy": {"name": "h-mrf"}}
    document["workloads"][0]["tasks"], document["workloads"][1]["tasks"] = 60, 40
    second = run("solve", "-", "--json", given=json.dumps(document))
    assert [row["tasks"] for row in json.loads(second.stdout)["allocations"]] == [40, 20]


def test_policies_are_compared_a_row_each(problem):
    result = run("compare", problem, "--policies", "drf,h-mrf,nothing")
    assert result.returncode == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[1][:3] == ["drf", "15", "70"]
    assert rows[2][:6] == ["h-mrf", "15", "70", "0.3", "0.862069", "1"]
    assert "nothing: there is no policy 'nothing'" in result.stdout
    columns = json.loads(run("compare", problem, "--policies", "drf,h-mrf", "--json").stdout)
    assert [column["policy"]["name"] for column in columns["columns"]] == ["drf", "h-mrf"]
    assert run("compare", problem, "--policies", "nothing").returncode == 1


def test_too_little_time_is_no_answer(tmp_path):
    document = json.loads(PROBLEM)
    document["servers"][0]["capacity"] = {"cpu": 10**9, "memory": 10**9}
    document["workloads"][0]["tasks"] = document["workloads"][1]["tasks"] = None
    asked = ("solve", "-", "--policy", "h-mrf", "--option", "placement=pool", "--time-limit", "0.2")
    result = run(*asked, given=json.dumps(document))
    assert result.returncode == 1
    assert "(solve.timeout)" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        ((), None, "the following arguments are required: command"),
        (("solve",), None, "the following arguments are required: problem"),
        (("solve", "no-such-file.json"), None, "no-such-file.json"),
        (("solve", "-"), "{", "-: Expecting property name"),
        (("solve", "-"), "[]", "this is not a JSON object"),
        (("solve", "-"), '{"resources": NaN}', "NaN is not a JSON number"),
        (("solve", "-"), "{}", "name a policy"),
        (
            ("solve", "-", "--policy", "drf"),
            "{}",
            '"resources" is required at /resources (field.missing)',
        ),
        (("solve", "-"), MISTAKEN, '"colour" is not a field here'),
        (("solve", "-"), MISTAKEN, "at /colour (field.unknown)\n"),
        (("solve", "-"), MISTAKEN, "at /servers/0/count (server.count)\n"),
        (("solve", "-", "--policy", "fifo"), PROBLEM, "(policy.unknown)"),
        (("solve", "-", "--mode", "both"), PROBLEM, "(policy.mode)"),
        (("solve", "-", "--option", "x=1"), PROBLEM, "(policy.options)"),
        (("solve", "-", "--option", "x"), PROBLEM, "write key=value"),
        (("solve", "-"), WITH_OPTIONS, "Expected an object at /policy/options (field.type)"),
        (("compare", "-", "--policies", ","), PROBLEM, "name at least one policy"),
        (("verify", "-", __file__), PROBLEM, "test_command_line.py: "),
    ],
)
def test_input_that_cannot_be_used_says_why(arguments, given, message):
    result = run(*arguments, given=given)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
