"""Options and sizes end in a verdict of `verify`, not in an exception."""

import json
from dataclasses import replace

import pytest

from policies import ParsedProblem, allocation_to_document, solve, verify, verify_answer
from policies.__main__ import main
from policies.model.policy import Choice
from policies.verification import handed_out
from tests.unit.policies.problems import problem_of

OPTIONS = [
    ("drf", "divisible", {"resource_weights": {"u9": {"cpu": 2}}}, "/resource_weights/u9"),
    ("drf", "indivisible", {"resource_weights": {"u1": {"gpu": 2}}}, "/resource_weights/u1/gpu"),
    ("drf", "divisible", {"resource_weights": {"u1": {"cpu": 0}}}, "/resource_weights/u1/cpu"),
    ("drf", "divisible", {"colour": 1}, ""),
    ("single-resource", "indivisible", {"resource": "gpu"}, "/resource"),
    ("single-resource", "indivisible", {"resource": 5}, "/resource"),
    ("slots", "indivisible", {"slot": {"gpu": 1}}, "/slot/gpu"),
    ("slots", "indivisible", {"slots_per_largest_server": 0}, "/slots_per_largest_server"),
    ("drfh", "indivisible", {"placement": "worst-fit"}, "/placement"),
    ("drfh", "indivisible", {"placement": ["best-fit"]}, "/placement"),
    ("h-mrf", "indivisible", {"placement": "pool", "borrow_cap": -1}, "/borrow_cap"),
    ("tda", "indivisible", {"effort": 0}, "/effort"),
    ("tda", "indivisible", {"pack": "yes"}, "/pack"),
]


def small_problem():
    return problem_of([[4, 4]], [[1, 2], [2, 1]], tasks=[2, 2])


@pytest.mark.parametrize(("policy", "mode", "options", "place"), OPTIONS)
def test_wrong_options_are_a_failed_check(policy, mode, options, place):
    problem = small_problem()
    answer = solve(problem, policy, mode=mode)
    choice = Choice(answer.choice.policy, mode, options)
    verdict = verify(problem, replace(answer, choice=choice))
    document = allocation_to_document(answer, ("placements", "certificate", "schedule"))
    written = verify_answer(ParsedProblem(problem, policy, mode), document, choice)
    for found in (verdict, written):
        assert not found.valid
        (check,) = (check for check in found.checks if check.name == "options")
        assert not check.holds
        assert check.detail.startswith(f"/policy/options{place}: "), check.detail


def test_right_options_are_a_check_that_holds():
    problem = small_problem()
    answer = solve(problem, "drf", options={"resource_weights": {"u1": {"cpu": 2}}})
    verdict = verify(problem, answer)
    assert verdict.valid
    assert next(check for check in verdict.checks if check.name == "options").holds


@pytest.mark.parametrize("policy", ["drfh", "mrfs", "h-mrf"])
def test_more_tasks_than_are_handed_out_again_are_a_failed_check(policy, monkeypatch):
    problem = small_problem()
    answer = solve(problem, policy, mode="indivisible")
    assert verify(problem, answer).valid
    monkeypatch.setattr(handed_out, "MOST_REPLAYED", 1)
    verdict = verify(problem, answer)
    failing = [check for check in verdict.checks if not check.holds]
    assert [check.name for check in failing] == ["size"]
    assert "at most 1" in failing[0].detail


def printed(capsys, *arguments):
    code = main([*map(str, arguments), "--json"])
    output = capsys.readouterr()
    return code, json.loads(output.out) if output.out else output.err


@pytest.mark.parametrize(
    ("policy", "check"),
    [
        ({"name": "drf", "options": {"colour": 1}}, "options"),
        ({"name": "drf", "options": {"resource_weights": {"A": {"gpu": 2}}}}, "options"),
        ({"name": "fifo"}, "policy"),
        ({"name": "drf", "mode": "sideways"}, "policy"),
    ],
)
def test_a_policy_that_the_answer_cannot_have_is_a_verdict_of_the_command(
    policy, check, tmp_path, capsys
):
    problem, answer = tmp_path / "problem.json", tmp_path / "answer.json"
    document = {
        "resources": ["cpu"],
        "servers": [{"name": "rack", "capacity": {"cpu": 4}}],
        "tenants": [{"name": "A"}],
        "workloads": [{"tenant": "A", "name": "a", "demand": {"cpu": 1}}],
        "policy": {"name": "drf"},
    }
    problem.write_text(json.dumps(document))
    code, solved = printed(capsys, "solve", problem)
    assert code == 0
    answer.write_text(json.dumps({**solved, "policy": policy}))
    code, verdict = printed(capsys, "verify", problem, answer)
    assert (code, verdict["valid"]) == (1, False)
    (found,) = (item for item in verdict["checks"] if item["name"] == check)
    assert not found["holds"]
    assert found["detail"].startswith("/policy/")


def test_options_of_the_arguments_are_unusable_input(tmp_path, capsys):
    problem = tmp_path / "problem.json"
    problem.write_text(
        json.dumps(
            {
                "resources": ["cpu"],
                "servers": [{"name": "rack", "capacity": {"cpu": 4}}],
                "tenants": [{"name": "A"}],
                "workloads": [{"tenant": "A", "name": "a", "demand": {"cpu": 1}}],
                "policy": {"name": "drf"},
            }
        )
    )
    _, solved = printed(capsys, "solve", problem)
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps(solved))
    code, error = printed(capsys, "verify", problem, answer, "--option", "colour=1")
    assert code == 2
    assert "colour" in error
