"""What an answer's JSON says is either part of the statement, and judged, or refused."""

import copy
import itertools
import json

import numpy as np
import pytest

from policies import (
    Gang,
    ParsedProblem,
    ProblemError,
    allocation_to_document,
    choose,
    problem_to_document,
    solve,
    verify_answer,
)
from policies.__main__ import main
from tests.unit.policies.problems import problem_of

EVERYTHING = ("placements", "certificate", "schedule")
CASES = {
    "drf": ("drf", "divisible", {}),
    "drfh": ("drfh", "divisible", {}),
    "ceei": ("ceei", "divisible", {}),
    "tda": ("tda", "indivisible", {}),
    "tda packed": ("tda", "indivisible", {"pack": True}),
    "mrfs": ("mrfs", "indivisible", {}),
    "h-mrf": ("h-mrf", "indivisible", {}),
    "drfh pieces": ("drfh", "indivisible", {}),
    "drfh sums of pieces": ("drfh", "divisible", {}),
}
# Each has the demand of the first workload.
GANGS = {
    "drfh pieces": Gang(np.array([2, 1]), np.array([[2, 0.5], [1, 1]])),
    "drfh sums of pieces": Gang(np.array([2]), np.array([[2.5, 1]])),
}


def case(name):
    """A problem with rows of several servers, and its answer as it is written."""
    policy, mode, options = CASES[name]
    count = [1, 1] if policy == "tda" else [3, 1]
    gangs = {0: GANGS[name]} if name in GANGS else {}
    problem = problem_of(
        [[15, 15], [9, 12]], [[5, 2], [3, 3.5]], tasks=[9, 12], server_count=count, gangs=gangs
    )
    answer = solve(problem, policy, mode=mode, options=options)
    document = json.loads(json.dumps(allocation_to_document(answer, EVERYTHING)))
    document["policy"] = {"name": policy, "mode": mode, "options": options}
    return ParsedProblem(problem, policy, mode, options), document, choose(policy, mode, options)


def refused(parsed, document, choice):
    """The names of the checks that do not hold; any exception is a failure of the test."""
    return [
        check.name for check in verify_answer(parsed, document, choice).checks if not check.holds
    ]


def places(part, way=()):
    """Every value within a document, with the way to it."""
    yield way, part
    items = part.items() if isinstance(part, dict) else ()
    items = enumerate(part) if isinstance(part, list) else items
    for key, value in items:
        yield from places(value, (*way, key))


def at(document, way):
    for step in way:
        document = document[step]
    return document


def changed(document, way, value):
    result = copy.deepcopy(document)
    at(result, way[:-1])[way[-1]] = value
    return result


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


@pytest.mark.parametrize("name", CASES)
def test_the_control_is_valid(name):
    assert refused(*case(name)) == []


@pytest.mark.parametrize("name", CASES)
def test_no_number_can_be_infinite_or_not_a_number(name):
    parsed, document, choice = case(name)
    numbers = [way for way, value in places(document) if is_number(value)]
    assert len(numbers) > 20
    for way, value in itertools.product(numbers, (float("inf"), -float("inf"), float("nan"))):
        assert refused(parsed, changed(document, way, value), choice), (way, value)


@pytest.mark.parametrize("name", CASES)
def test_a_null_number_cannot_become_infinite(name):
    parsed, document, choice = case(name)
    for way in [way for way, value in places(document) if value is None]:
        assert refused(parsed, changed(document, way, float("inf")), choice), way


@pytest.mark.parametrize("name", CASES)
def test_an_unknown_key_is_refused_at_every_depth(name):
    parsed, document, choice = case(name)
    objects = [way for way, value in places(document) if isinstance(value, dict)]
    # Labels and options have the keys of the problem and of the policy.
    assert len(objects) > 8
    for way in objects:
        for value in (1, None, 0, "", {}):
            forged = copy.deepcopy(document)
            at(forged, way)["made_up"] = value
            assert refused(parsed, forged, choice), (way, value)


@pytest.mark.parametrize("name", CASES)
def test_a_number_of_another_kind_is_refused_at_every_depth(name):
    parsed, document, choice = case(name)
    for way, value in places(document):
        if is_number(value):
            for other in (str(value), [value], {"value": value}, True, None):
                if isinstance(other, str) and way[0] == "history":
                    continue  # a decimal that is written as a text is the same amount
                assert refused(parsed, changed(document, way, other), choice), (way, other)


@pytest.mark.parametrize("name", CASES)
def test_every_whole_number_is_whole(name):
    parsed, document, choice = case(name)
    whole = [way for way, value in places(document) if type(value) is int]
    for way in whole:
        for more in (0.9, 0.002, 1e-12):
            value = at(document, way) + more
            assert refused(parsed, changed(document, way, value), choice), (way, value)


def test_a_row_of_a_slot_cannot_be_hidden_before_the_right_one():
    parsed, document, choice = case("tda")
    rows = document["schedule"]["slots"][0]["allocations"]
    rows.insert(0, rows[0] | {"tasks": 99})
    assert refused(parsed, document, choice) == ["readable"]


def test_a_row_of_nothing_is_refused_in_a_slot():
    problem = problem_of([[15, 15]], [[5, 2], [3, 3.5]])  # one of the two slots runs u1 alone
    answer = solve(problem, "tda")
    document = json.loads(json.dumps(allocation_to_document(answer, EVERYTHING)))
    parsed, choice = ParsedProblem(problem, "tda"), choose("tda")
    for slot in document["schedule"]["slots"]:
        there = {(row["tenant"], row["workload"]) for row in slot["allocations"]}
        for row in document["allocations"]:
            if (row["tenant"], row["workload"]["name"]) not in there:
                nothing = {"tenant": row["tenant"], "workload": row["workload"]["name"], "tasks": 0}
                slot["allocations"].append(nothing)
                assert refused(parsed, document, choice) == ["readable"]
                return
    pytest.fail("no slot leaves a workload out")


@pytest.mark.parametrize("name", CASES)
def test_numbers_at_the_ends_of_float64_end_in_a_verdict(name):
    parsed, document, choice = case(name)
    for way, value in places(document):
        if is_number(value):
            for other in (1e308, -1e308, 1e-320, 10**400, -(10**30), 1e18):
                if other != value:
                    refused(parsed, changed(document, way, other), choice)


@pytest.mark.parametrize("value", [None, 1, "answer", [], {}])
def test_any_json_in_place_of_a_part_ends_in_a_verdict(value):
    for name in CASES:
        parsed, document, choice = case(name)
        for way, part in places(document):
            if way and isinstance(part, dict | list) and part != value:
                # What an answer leaves out, or of what it leaves out members, is not judged.
                optional = value in (None, {}) or "options" in way
                found = refused(parsed, changed(document, way, value), choice)
                assert found or optional, (name, way)


def files(tmp_path, document, parsed):
    given, answered = tmp_path / "problem.json", tmp_path / "answer.json"
    given.write_text(json.dumps(problem_to_document(parsed)))
    answered.write_text(document)
    return [str(given), str(answered)]


@pytest.mark.parametrize("name", ["drfh", "tda packed", "h-mrf"])
def test_the_command_line_refuses_a_key_twice_at_every_depth(name, tmp_path, capsys):
    parsed, document, _ = case(name)
    assert main(["verify", *files(tmp_path, json.dumps(document), parsed)]) == 0
    for way, part in places(document):
        if not (isinstance(part, dict) and part):
            continue
        key = next(iter(part))
        marked = copy.deepcopy(document)
        inside = at(marked, way)
        inside["@twice@"] = inside[key]
        text = json.dumps(marked).replace('"@twice@"', json.dumps(key))
        assert main(["verify", *files(tmp_path, text, parsed)]) == 2, way
        assert f'the name "{key}" appears twice' in capsys.readouterr().err


def test_the_command_line_refuses_a_key_twice_in_the_problem(tmp_path, capsys):
    parsed, document, _ = case("drf")
    given, answered = files(tmp_path, json.dumps(document), parsed)
    problem = json.dumps(problem_to_document(parsed))
    (tmp_path / "problem.json").write_text(problem.replace("{", '{"resources": ["cpu"], ', 1))
    assert main(["verify", given, answered]) == 2
    assert 'the name "resources" appears twice' in capsys.readouterr().err


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "1" + "0" * 5000])
def test_the_command_line_refuses_a_number_beyond_float64(number, tmp_path, capsys):
    parsed, document, _ = case("drf")
    document["summary"]["objective"] = "@number@"
    text = json.dumps(document).replace('"@number@"', number)
    assert main(["verify", *files(tmp_path, text, parsed)]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err


def test_what_cannot_be_read_is_a_verdict_that_says_where():
    parsed, document, choice = case("tda")
    document["schedule"]["slots"][0]["allocations"][0]["tasks"] = 3.9
    (check,) = verify_answer(parsed, document, choice).checks
    assert (check.name, check.holds) == ("readable", False)
    assert "/schedule/slots/0/allocations/0/tasks" in check.detail


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (lambda d: d["certificate"].update(frozen_in=[0.9, 0]), "/certificate/frozen_in/0"),
        (
            lambda d: d["placements"][0]["servers"].update(count=2.002),
            "/placements/0/servers/count",
        ),
        (lambda d: d["summary"].update(moved_tasks=float("inf")), "/summary/moved_tasks"),
        (
            lambda d: d["certificate"]["rounds"][0].update(proven="no"),
            "/certificate/rounds/0/proven",
        ),
    ],
)
def test_a_reader_says_where(change, pointer):
    from policies.documents.reading import allocation_from_document

    parsed, document, choice = case("drfh")
    change(document)
    with pytest.raises(ProblemError) as caught:
        allocation_from_document(document, parsed.problem, choice)
    assert caught.value.pointer == pointer
