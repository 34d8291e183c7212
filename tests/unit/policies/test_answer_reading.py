"""An answer that was written and read is the same answer, and is proven again."""

import copy
import dataclasses
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    ProblemError,
    allocation_to_document,
    choose,
    policies_available,
    solve,
    verify,
)
from policies.documents.reading import allocation_from_document
from tests.examples import examples
from tests.unit.policies.problems import problem_of, problems

EVERYTHING = ("placements", "certificate", "schedule")
CHOICES = [(info.name, mode) for info in policies_available() for mode in info.modes]


def written(answer):
    """As the service writes it: only plain numbers pass."""
    document = allocation_to_document(answer, EVERYTHING)
    json.dumps(document, allow_nan=False)
    return orjson.loads(orjson.dumps(document))


def read(document, problem, policy, mode, options=None):
    return allocation_from_document(document, problem, choose(policy, mode, options))


@pytest.mark.parametrize(("policy", "mode"), CHOICES)
@examples(40)
@given(problem=problems(max_tenants=3, max_servers=2), data=st.data())
def test_it_is_proven_again_from_what_is_written(policy, mode, problem, data):
    options = {}
    if policy == "tda" and data.draw(st.booleans()):
        options = {"pack": True}
    if choose(policy, mode, options).sees_one_pool:
        problem = dataclasses.replace(problem, selectors=({},) * problem.n)
    answer = solve(problem, policy, mode=mode, options=options)
    document = written(answer)
    again = read(document, problem, policy, mode, options)
    verification = verify(problem, again)
    assert verification.valid, [check for check in verification.checks if not check.holds]
    again_written = written(again)
    placements = [answer_.pop("placements") for answer_ in (again_written, document)]
    assert again_written == document
    if mode == "indivisible" and policy != "tda":
        assert placements[0] == placements[1]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["allocations", 0, "tasks"], "many"),
        (["allocations", 0, "tenant"], "somebody"),
        (["allocations"], []),
        (["allocations"], None),
        (["summary"], {}),
        (["placements", 0, "server"], "elsewhere"),
        (["placements", 0, "server"], "server-0001-9"),
        (["placements", 0, "workload"], None),
        (["placements"], ...),
    ],
)
def test_what_is_no_answer_is_refused(path, value):
    problem = problem_of([[4, 4]], [[1, 1], [1, 2]])
    document = copy.deepcopy(written(solve(problem, "h-mrf")))
    *way, last = path
    part = document
    for step in way:
        part = part[step]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    with pytest.raises(ProblemError) as caught:
        read(document, problem, "h-mrf", None)
    assert caught.value.code == "answer.malformed"


def test_a_packed_schedule_in_which_nothing_runs_is_read_as_packed():
    problem = problem_of([[4, 4], [2, 2]], [[1, 1]], tasks=[0])
    document = written(solve(problem, "tda", options={"pack": True}))
    again = read(document, problem, "tda", None, {"pack": True})
    assert again.schedule is not None
    assert again.schedule.placements is not None
    assert verify(problem, again).valid


def test_whole_tasks_are_whole_after_their_number_on_each_server_is_read():
    """50 tasks on 22 servers are 2.2727… on each, which 22 times is more than 50 by rounding."""
    problem = problem_of([[3, 3]], [[1, 1]], server_count=[22], tasks=[50], contributed_by=[0])
    again = read(written(solve(problem, "static")), problem, "static", None)
    assert again.placement_tasks.tolist() != [50]
    assert verify(problem, again).valid
