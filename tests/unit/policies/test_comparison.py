"""Several policies on one problem: a column each, errors included."""

from decimal import Decimal

import pytest

from policies import ProblemError, compare_documents

DOCUMENT = {
    "resources": ["cpu", "memory"],
    "servers": [{"capacity": {"cpu": 9, "memory": 18}, "labels": {"zone": "a"}}],
    "tenants": [{"name": "A"}, {"name": "B"}],
    "workloads": [
        {"tenant": "A", "name": "a", "demand": {"cpu": 1, "memory": 4}},
        {"tenant": "B", "name": "b", "demand": {"cpu": 3, "memory": 1}},
    ],
}


def tasks(column):
    return [row["tasks"] for row in column["allocations"]]


def test_each_policy_has_its_column_in_the_order_asked_for():
    policies = ["drf", {"name": "drf", "mode": "indivisible"}, "single-resource"]
    first, second, third = compare_documents(DOCUMENT, policies)["columns"]
    assert tasks(first) == pytest.approx([3, 2])
    assert (tasks(second), tasks(third)) == ([3, 2], [4, 1])
    assert first["min_weighted_share"] == pytest.approx(2 / 3)
    assert third["min_weighted_share"] == pytest.approx(1 / 3)
    assert third["mean_weighted_share"] == pytest.approx((16 / 18 + 1 / 3) / 2)
    assert first["jain_index"] == pytest.approx(1)
    assert second["utilization"] == pytest.approx({"cpu": 1, "memory": 14 / 18})
    assert second["policy"] == {"name": "drf", "mode": "indivisible"}
    assert first["error"] is None
    assert first["seconds"] > 0
    assert first["sharing_degree"] is None


def test_a_policy_that_cannot_answer_says_why_and_leaves_the_others_alone():
    workloads = [dict(row, server_selector={"zone": "a"}) for row in DOCUMENT["workloads"]]
    asked = ["drf", "drfh", {"name": "drfh", "mode": "fractional"}, "fifo"]
    columns = compare_documents(DOCUMENT | {"workloads": workloads}, asked)["columns"]
    assert [column["error"] and column["error"]["code"] for column in columns] == [
        "policy.no_placement",
        None,
        "policy.mode",
        "policy.unknown",
    ]
    assert columns[0]["error"]["pointer"] == "/workloads/0/server_selector"
    assert columns[0]["allocations"] is None
    assert tasks(columns[1]) == pytest.approx([3, 2])


def test_what_is_included_is_in_every_column():
    columns = compare_documents(DOCUMENT | {"include": ["placements"]}, ["drf", "drfh"])["columns"]
    assert columns[0]["placements"] == []
    assert [row["tasks"] for row in columns[1]["placements"]] == pytest.approx([3, 2])


def test_properties_are_a_part_of_a_column_when_asked_for():
    (column,) = compare_documents(DOCUMENT | {"include": ["properties"]}, ["drf"])["columns"]
    assert column["properties"]["envy_free"]["holds"] is True


def test_a_problem_that_cannot_be_read_is_refused_as_a_whole():
    with pytest.raises(ProblemError) as caught:
        compare_documents(DOCUMENT | {"colour": "red"}, ["drf"])
    assert (caught.value.code, caught.value.pointer) == ("field.unknown", "/colour")
    with pytest.raises(ProblemError) as caught:
        compare_documents(DOCUMENT, [])
    assert (caught.value.code, caught.value.pointer) == ("field.missing", "/policies")
    with pytest.raises(ProblemError) as caught:
        compare_documents(DOCUMENT, ["drf", 3])
    assert (caught.value.code, caught.value.pointer) == ("field.type", "/policies/1")


def test_time_that_has_run_out_is_an_error_of_the_column():
    finer = [dict(row, demand={"cpu": 1e-6, "memory": 1e-6}) for row in DOCUMENT["workloads"]]
    document = DOCUMENT | {"workloads": finer}
    (column,) = compare_documents(
        document, [{"name": "drf", "mode": "indivisible"}], time_limit=1e-9
    )["columns"]
    assert column["error"]["code"] == "solve.timeout"


def test_checks_of_properties_leave_time_to_the_columns_after_them():
    """Those that solve again take all the time that they are given, with so many tenants."""
    names = [f"t{number}" for number in range(400)]
    document = {
        "resources": ["cpu", "memory"],
        "servers": [{"capacity": {"cpu": 900, "memory": 1800}}],
        "tenants": [{"name": name} for name in names],
        "workloads": [
            {
                "tenant": name,
                "name": "w",
                "demand": {"cpu": 1 + number % 7, "memory": 1 + number % 5},
            }
            for number, name in enumerate(names)
        ],
        "include": ["properties"],
    }
    policies = ["asset", "drf", "drfh", "ceei", "mrfs", "static"]
    columns = compare_documents(document, policies, time_limit=6)["columns"]
    assert [column["error"] for column in columns] == [None] * len(policies)
    assert all(column["properties"]["envy_free"]["holds"] is not None for column in columns)


def test_a_history_is_for_the_policies_that_have_one():
    input_ = {
        "resources": ["cpu"],
        "servers": [{"capacity": {"cpu": 4}}],
        "tenants": [{"name": "a"}, {"name": "b"}],
        "workloads": [{"tenant": name, "name": "w", "demand": {"cpu": 1}} for name in "ab"],
        "history": {"step": 1, "tenants": {"a": {"used": {"cpu": 2}, "alone": {"cpu": 2}}}},
    }
    columns = compare_documents(
        input_, [{"name": "drf", "mode": "indivisible"}, "lt-af", "unheard-of"]
    )["columns"]
    assert [column["error"] and column["error"]["code"] for column in columns] == [
        None,
        None,
        "policy.unknown",
    ]
    tasks = [[row["tasks"] for row in column["allocations"]] for column in columns[:2]]
    assert tasks == [[2, 2], [1, 3]]
    assert columns[0]["sharing_degree"] is None
    assert columns[1]["sharing_degree"]["b"]["min"] == 1.5


def test_options_that_a_reader_kept_as_decimals_are_numbers_in_the_answer():
    asked = {"name": "tda", "options": {"effort": Decimal("1.5")}}
    (column,) = compare_documents(DOCUMENT, [asked])["columns"]
    assert column["error"] is None
    assert column["policy"] == {"name": "tda", "options": {"effort": 1.5}}
    assert type(column["policy"]["options"]["effort"]) is float
