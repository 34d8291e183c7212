"""The evaluation document: read, refused with a pointer, written back."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies import (
    History,
    PolicyError,
    allocation_to_document,
    evaluate_document,
    problem_from_document,
    problem_to_document,
    solve,
)
from policies.documents.problem import ParsedProblem
from policies.documents.request import RunningDocument, request_for
from policies.fields import Mistakes, read_items
from tests.examples import examples
from tests.unit.policies.problems import problem_of, problems


def document(**changes):
    return {
        "resources": ["cpu", {"name": "memory", "unit": "GiB"}],
        "servers": [
            {"name": "s1", "capacity": {"cpu": 2, "memory": "12"}, "contributed_by": "u1"},
            {"capacity": {"cpu": 12, "memory": 2}, "count": 2, "labels": {"zone": "b"}},
        ],
        "tenants": [{"name": "u1", "weight": "1.5"}, {"name": "u2", "best_effort": True}],
        "workloads": [
            {"tenant": "u1", "name": "a", "demand": {"cpu": 0.2, "memory": 1}, "tasks": 5},
            {
                "tenant": "u2",
                "name": "a",
                "demand": {"cpu": "1"},
                "priority": 2,
                "server_selector": {"zone": ["b", "a"], "rack": "1"},
            },
        ],
        "policy": {"name": "drfh", "mode": "divisible", "options": {}},
    } | changes


def test_a_document_becomes_a_problem():
    parsed = problem_from_document(document(include=["placements", "placements"]))
    problem = parsed.problem
    assert (parsed.policy, parsed.mode, parsed.options) == ("drfh", "divisible", {})
    assert parsed.include == ("placements",)
    assert problem.resources == ("cpu", "memory")
    assert problem.units == ("", "GiB")
    assert problem.server_names == ("s1", "server-0002")
    assert problem.capacity.tolist() == [[2, 12], [12, 2]]
    assert problem.server_count.tolist() == [1, 2]
    assert problem.contributed_by.tolist() == [0, -1]
    assert problem.weight.tolist() == [1.5, 1]
    assert problem.best_effort.tolist() == [False, True]
    assert problem.demand.tolist() == [[0.2, 1], [1, 0]]
    assert problem.tasks.tolist() == [5, math.inf]
    assert problem.priority.tolist() == [0, 2]
    assert problem.selectors == ({}, {"zone": ("a", "b"), "rack": ("1",)})


def changed(path, value):
    """A document with one place changed (or, for the value ``...``, removed)."""
    whole = document()
    place = whole
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return whole


@pytest.mark.parametrize(
    ("path", "value", "code", "pointer"),
    [
        (["resources"], ..., "field.missing", "/resources"),
        (["colour"], 1, "field.unknown", "/colour"),
        (["a/b"], 1, "field.unknown", "/a~1b"),
        (["servers"], {}, "field.type", "/servers"),
        (["servers", 1, "capacity"], ..., "field.missing", "/servers/1/capacity"),
        (["servers", 0, "count"], 0, "server.count", "/servers/0/count"),
        (["servers", 0, "count"], 1.5, "field.type", "/servers/0/count"),
        (["servers", 0, "count"], True, "field.type", "/servers/0/count"),
        (["servers", 0, "count"], 10**30, "number.too_large", "/servers/0/count"),
        (["servers", 0, "contributed_by"], "x", "tenant.unknown", "/servers/0/contributed_by"),
        (["servers", 0, "labels"], {"zone": 1}, "field.type", "/servers/0/labels/zone"),
        (["servers", 0, "draining"], "yes", "field.type", "/servers/0/draining"),
        (["servers", 1, "name"], "s1", "server.duplicate", "/servers/1"),
        (["servers", 0, "capacity", "cpu"], -1, "quantity.negative", "/servers/0/capacity/cpu"),
        (["servers", 0, "capacity", "gpu"], 1, "capacity.unknown_resource", "/servers/0/capacity/gpu"),
        (["tenants", 1, "weight"], 0, "weight.not_positive", "/tenants/1/weight"),
        (["tenants", 1, "weight"], float("nan"), "weight.not_positive", "/tenants/1/weight"),
        (["tenants", 1, "weight"], "1_000", "weight.not_a_number", "/tenants/1/weight"),
        (["tenants", 1, "weight"], "٣", "weight.not_a_number", "/tenants/1/weight"),
        (["tenants", 1, "name"], "u1", "tenant.duplicate", "/tenants/1"),
        (["workloads", 1, "tenant"], "u9", "tenant.unknown", "/workloads/1/tenant"),
        (["workloads", 1, "demand"], {"cpu": 0}, "demand.zero", "/workloads/1/demand"),
        (["workloads", 1, "demand", "cpu"], "-0.5", "quantity.negative", "/workloads/1/demand/cpu"),
        (["workloads", 1, "demand", "cpu"], 1e400, "quantity.not_finite", "/workloads/1/demand/cpu"),
        (["workloads", 1, "demand", "cpu"], 10**400, "quantity.too_large", "/workloads/1/demand/cpu"),
        (["workloads", 1, "demand", "cpu"], None, "quantity.type", "/workloads/1/demand/cpu"),
        (["workloads", 0, "tasks"], -1, "tasks.not_whole", "/workloads/0/tasks"),
        (["workloads", 0, "tasks"], 2.5, "field.type", "/workloads/0/tasks"),
        (
            ["workloads", 0, "server_selector"],
            {"zone": []},
            "selector.empty",
            "/workloads/0/server_selector/zone",
        ),
        (["policy"], {}, "field.missing", "/policy/name"),
        (["weights"], "equal", "weights.unknown", "/weights"),
        (["include"], ["money"], "include.unknown", "/include/0"),
        (["resources", 0], "CPU", "resource.name", "/resources/0"),
        (["resources", 0], "memory", "resource.duplicate", "/resources/1"),
    ],
)  # fmt: skip
def test_what_cannot_be_accepted_names_the_place(path, value, code, pointer):
    with pytest.raises(PolicyError) as caught:
        problem_from_document(changed(path, value))
    assert (caught.value.code, caught.value.pointer) == (code, pointer)
    assert caught.value.detail


def test_every_mistake_is_named_at_once():
    whole = document(colour=1, weights="equal", history={"step": 0, "tenants": {"u9": {}}})
    whole["servers"][0] |= {"count": 0, "capacity": {"gpu": 1, "memory": "12 GB"}}
    del whole["tenants"][1]["name"]
    whole["workloads"][1] |= {"tasks": -1, "demand": {"cpu": True, "memory": 0}}
    with pytest.raises(PolicyError) as caught:
        problem_from_document(whole)
    assert [(each.code, each.pointer) for each in caught.value.mistakes] == [
        ("field.unknown", "/colour"),
        ("capacity.unknown_resource", "/servers/0/capacity/gpu"),
        ("quantity.syntax", "/servers/0/capacity/memory"),
        ("server.count", "/servers/0/count"),
        ("field.missing", "/tenants/1/name"),
        ("quantity.type", "/workloads/1/demand/cpu"),
        ("tasks.not_whole", "/workloads/1/tasks"),
        ("weights.unknown", "/weights"),
        ("history.step", "/history/step"),
    ]


def test_names_are_looked_up_only_where_all_of_them_can_be_read():
    whole = document(resources=["cpu", 5], tenants=[{"name": "u2"}, {"weight": 1}])
    with pytest.raises(PolicyError) as caught:
        problem_from_document(whole)
    assert [each.pointer for each in caught.value.mistakes] == ["/resources/1", "/tenants/1/name"]


def test_quantities_are_read_as_pools_read_them():
    whole = document()
    whole["servers"][0]["capacity"] = {"cpu": "2500m", "memory": "12Gi"}
    whole["resources"][0] = {"name": "cpu", "unit": "core"}
    assert problem_from_document(whole).problem.capacity[0].tolist() == [2.5, 12]


@examples(40, derandomize=True)
@given(problem=problems())
def test_a_problem_survives_being_written_and_read(problem):
    history = History.zeros(problem, step=0.1)
    parsed = ParsedProblem(problem, "drfh", "divisible", {}, ("certificate",), history)
    text = json.dumps(problem_to_document(parsed), allow_nan=False)
    read = problem_from_document(json.loads(text))
    assert (read.policy, read.mode, read.options) == ("drfh", "divisible", {})
    assert read.include == ("certificate",)
    assert read.history is not None
    assert read.history.step == 0.1
    assert read.history.used.shape == (problem.t, problem.m)
    for name, value in vars(problem).items():
        if name in type(problem).__dataclass_fields__:
            assert np.array_equal(getattr(read.problem, name), value), name


def test_an_allocation_becomes_a_document():
    problem = problem_of([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]], server_count=[1, 2])
    answer = solve(problem, "drfh")
    written = allocation_to_document(answer, include=("placements", "certificate"))
    json.dumps(written, allow_nan=False)
    first = written["allocations"][0]
    assert first["tenant"] == "u1"
    assert first["workload"] == {"id": None, "name": "workload-0001"}
    assert first["resources"]["memory"] == pytest.approx(first["tasks"])
    assert first["dominant_resource"] == "memory"
    assert first["weighted_share"] == pytest.approx(answer.objective)
    summary = written["summary"]
    assert (summary["servers"], summary["server_classes"]) == (3, 2)
    assert summary["jain_index"] == pytest.approx(1)
    assert summary["utilization"]["memory"] == pytest.approx(answer.used[1] / 16)
    ranges = [row["servers"] for row in written["placements"] if "servers" in row]
    assert {(row["first"], row["last"], row["count"]) for row in ranges} == {
        ("server-0002-0001", "server-0002-0002", 2)
    }
    assert {row["server"] for row in written["placements"] if "server" in row} == {"server-0001"}
    assert written["certificate"]["frozen_in"] == [0, 0]


def test_what_does_not_exist_is_null_in_a_document():
    problem = problem_of([[4, 4]], [[1, 1]], best_effort=[True])
    written = allocation_to_document(solve(problem, "static"))
    assert written["allocations"][0]["weighted_share"] is None
    assert written["allocations"][0]["tasks"] == 4
    assert written["summary"]["bound"] is None
    assert written["summary"]["jain_index"] is None


def _one_workload(**changes):
    document = {
        "resources": ["cpu"],
        "servers": [{"name": "S", "capacity": {"cpu": 9}}],
        "tenants": [{"name": "A"}],
        "workloads": [{"name": "W", "tenant": "A", "demand": {"cpu": 1}}],
        "policy": {"name": "drf"},
    }
    return evaluate_document({**document, **changes})["allocations"]


def test_an_empty_selector_is_no_constraint():
    workload = {"name": "W", "tenant": "A", "demand": {"cpu": 1}, "server_selector": {}}
    assert _one_workload(workloads=[workload]) == _one_workload()


def test_without_servers_nothing_runs_and_the_answer_says_why():
    (row,) = _one_workload(servers=[])
    assert row["tasks"] == 0
    assert row["limited_by"] == "resource_absent"


ENTRY = {"tenant": "A", "workload": "web", "server": "s", "tasks": 2}
PLAIN: st.SearchStrategy[object] = st.sampled_from(
    [0, 1, 3, 1.0, 2.5, True, None, -1, 2**53, 2**70, "", "s", [], {}]
)
ENTRIES = st.lists(
    st.dictionaries(st.sampled_from([*RunningDocument.fields, "other"]), PLAIN).map(
        lambda changed: {**ENTRY, **changed}
    )
    | st.dictionaries(st.sampled_from([*ENTRY]), PLAIN)
    | st.just(5),
    max_size=4,
)


@given(ENTRIES)
@example([])
@example([ENTRY, {**ENTRY, "offset": 3}, {**ENTRY, "tasks": 1.0}])
@example([ENTRY, {**ENTRY, "tasks": True}])
def test_entries_are_read_by_column_as_they_are_one_by_one(entries):
    _compare_columns_with_rows(RunningDocument, entries)


PARTS = request_for(
    {"resources": ["cpu", "memory"], "groups": [{"name": "g"}], "tenants": [{"name": "u1"}]}
).fields
VALUES = PLAIN | st.sampled_from(
    [-0.0, 1e12, 1e-9, math.nan, math.inf, "u1", "g", "1.5", False, {"cpu": 1}, {"cpu": True},
     {"cpu": 0.0, "memory": 2.5}, {"cpu": 0}, {"cpu": "250m"}, {"gpu": 1}, {"zone": "a"},
     {"zone": ["b", "a"]}, [{"where": {}, "amount": {"cpu": 3}}],
     [{"count": 2, "demand": {"memory": 1}}]]
)  # fmt: skip
COMPLETE = {
    "tenants": {"name": "a"},
    "groups": {"name": "a"},
    "workloads": {"tenant": "u1", "name": "a", "demand": {"cpu": 1, "memory": 0.5}},
}


@pytest.mark.parametrize("part", COMPLETE)
@given(data=st.data())
def test_parts_are_read_by_column_as_they_are_one_by_one(part, data):
    fields, complete = PARTS[part].items.fields, COMPLETE[part]
    changed = st.dictionaries(st.sampled_from([*fields, "other"]), VALUES, max_size=3)
    entry = changed.map(lambda each: {**complete, **each}) | changed | st.just(complete)
    _compare_columns_with_rows(PARTS[part].items, data.draw(st.lists(entry, max_size=4)))


def _compare_columns_with_rows(kind, entries):
    """Compare meanings, with their types, and mistakes."""

    def read(function):
        try:
            return function()
        except Mistakes as wrong:
            return wrong.found

    rows, columns = (
        read(lambda: read_items(kind, entries)),
        read(lambda: kind.read_columns(entries)),
    )
    if isinstance(columns, dict):
        rows = {name: [row[name] for row in rows] for name in kind.fields}
    # By text: 1 and True are equal, and so are 0.0 and -0.0.
    assert repr(columns) == repr(rows)
