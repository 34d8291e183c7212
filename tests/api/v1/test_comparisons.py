"""Several policies on one problem over REST: a column each, nothing stored."""

import pytest

from allocator_service.allocation.models import Run
from allocator_service.allocation.what_if import evaluations
from tests.factories import client, decision, pool, server, tenant, workload

pytestmark = pytest.mark.django_db(transaction=True)

PAPER = {
    "resources": ["cpu", "memory"],
    "servers": [{"capacity": {"cpu": 9, "memory": "18Gi"}}],
    "tenants": [{"name": "a"}, {"name": "b"}],
    "workloads": [
        {"tenant": "a", "name": "w", "demand": {"cpu": 1, "memory": 4}},
        {"tenant": "b", "name": "w", "demand": {"cpu": 3, "memory": 1}},
    ],
}


def compared(policies, given, caller=None):
    return (caller or client()).post("/api/v1/comparisons/", {"policies": policies, "input": given})


def tasks(column):
    return [row["tasks"] for row in column["allocations"]]


def test_each_policy_answers_in_its_own_column():
    problem = {**PAPER, "resources": [{"name": "cpu"}, {"name": "memory", "unit": "GiB"}]}
    answer = compared(["drf", {"name": "asset", "mode": "indivisible"}, "h-mrf"], problem)
    assert answer.status_code == 200
    drf, asset, long_term = answer.json()["columns"]
    assert tasks(drf) == pytest.approx([3, 2])
    assert tasks(asset) == [3, 2]
    assert drf["policy"] == {"name": "drf"}
    assert drf["sharing_degree"] is None
    assert set(long_term["sharing_degree"]) == {"a", "b"}
    assert all(
        column["error"] is None and column["seconds"] > 0 for column in answer.json()["columns"]
    )


def test_a_policy_that_cannot_answer_says_why_and_the_others_answer():
    problem = {
        **PAPER,
        "servers": [{"capacity": {"cpu": 9, "memory": 18}, "labels": {"zone": "x"}}],
    }
    problem["workloads"] = [
        {**workload, "server_selector": {"zone": "x"}} for workload in PAPER["workloads"]
    ]
    drf, drfh, unknown = compared(["drf", "drfh", "lottery"], problem).json()["columns"]
    assert drf["error"]["code"] == "policy.no_placement"
    assert drf["allocations"] is None
    assert tasks(drfh) == pytest.approx([3, 2])
    assert unknown["error"]["code"] == "policy.unknown"


def test_the_stored_input_of_a_run_is_compared():
    lab, owner = pool(), tenant("u1")
    server(lab, "s1", 9, 18, owner)
    workload(lab, "w", 1, 4, owner)
    run = decision(lab)
    before = Run.objects.count()
    (column,) = compared(["drfh"], {"run": str(run.pk)}).json()["columns"]
    assert tasks(column) == pytest.approx(
        list(run.allocations.order_by("position").values_list("tasks", flat=True))
    )
    assert Run.objects.count() == before


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ([], 422, "field.type"),
        ({"policies": [], "input": PAPER}, 422, "comparison.policies"),
        ({"policies": ["drf"] * 21, "input": PAPER}, 422, "comparison.policies"),
        ({"policies": ["drf"]}, 422, "field.type"),
        ({"policies": ["drf"], "input": PAPER, "seed": 1}, 400, "field.unknown"),
        ({"policies": ["drf"], "input": {"run": "nonsense"}}, 404, "run.not_found"),
        ({"policies": ["drf"], "input": {**PAPER, "tenants": 3}}, 422, "field.type"),
        ({"policies": [5], "input": PAPER}, 422, "field.type"),
    ],
)
def test_what_is_no_comparison_is_refused(body, status, code):
    answer = client().post("/api/v1/comparisons/", body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_what_is_wrong_with_the_input_is_pointed_at_within_the_body():
    problem = {**PAPER, "weights": "equal", "include": ["money"], "colour": 1}
    answer = client().post("/api/v1/comparisons/", {"policies": ["drf"], "input": problem})
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [
        "/input/colour",
        "/input/weights",
        "/input/include/0",
    ]


def test_time_that_has_run_out_has_the_code_of_evaluations(monkeypatch):
    finer = [{**each, "demand": {"cpu": 1e-6, "memory": 1e-6}} for each in PAPER["workloads"]]
    monkeypatch.setattr(evaluations, "PART_FOR_POLICIES", 1e-9)
    answer = compared([{"name": "drf", "mode": "indivisible"}], {**PAPER, "workloads": finer})
    assert answer.status_code == 200
    (column,) = answer.json()["columns"]
    assert column["error"]["code"] == "evaluation.timeout"
    assert column["allocations"] is None
