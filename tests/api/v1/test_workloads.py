"""Workloads: submitting, what cannot be served, changing, withdrawing."""

import pytest

from allocator_service.pools.models import Membership
from allocator_service.workloads.models import Workload
from allocator_service.workloads.reason_texts import OPERATOR, reason_text
from tests import factories
from tests.api.v1.test_conventions import code

WORKLOADS = "/api/v1/pools/lab/workloads/"


@pytest.fixture
def lab(db):
    pool = factories.pool("lab")
    factories.tenant("ada")
    factories.server(pool, "s1", 4, 4, None, labels={"zone": "a"})
    return pool


def test_a_workload_is_submitted_and_its_tenant_admitted(lab, operator):
    body = {"tenant": "ada", "name": "w", "demand": {"cpu": "200m", "memory": 1}, "tasks": 5}
    response = operator.post(WORKLOADS, body)
    assert response.status_code == 201
    document = response.json()
    assert response["Location"] == f"{WORKLOADS}{document['id']}/"
    assert (response["ETag"], response["Pool-Generation"]) == ('"v1"', "3")
    assert document == {
        "id": document["id"],
        "pool": "lab",
        "tenant": "ada",
        "name": "w",
        "demand": {"cpu": 0.2, "memory": 1},
        "tasks": 5,
        "priority": 0,
        "server_selector": {},
        "limit": [],
        "pieces": None,
        "per_server": None,
        "together": "",
        "at_least": 1,
        "minimum_run": None,
        "state": "active",
        "conditions": [],
        "version": 1,
        "created_at": document["created_at"],
        "withdrawn_at": None,
    }
    assert operator.get(response["Location"]).json() == document
    assert Membership.objects.filter(pool=lab, tenant__slug="ada").exists()


def test_a_tenant_submits_as_itself(world):
    for name, more in (("x", {}), ("y", {"tenant": "ada"})):
        body = {"name": name, "demand": {"cpu": 1}, **more}
        assert world.as_ada.post(WORKLOADS, body).json()["tenant"] == "ada"


def test_an_operator_says_for_whom(lab, operator):
    response = operator.post(WORKLOADS, {"name": "w", "demand": {"cpu": 1}})
    assert code(response) == (422, "field.required")
    assert response.json()["errors"][0]["pointer"] == "/tenant"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"server_selector": {"zone": "b"}}, "no_eligible_server"),
        ({"server_selector": {"zone": ["b", "c"]}}, "no_eligible_server"),
        ({"server_selector": {"colour": "red"}}, "no_eligible_server"),
        ({}, None),
        ({"server_selector": {"zone": ["a", "b"]}}, None),
        ({"demand": {"cpu": 4e9}}, None),
    ],
)
def test_what_no_server_can_run_is_accepted_with_its_reason(change, reason, lab, operator):
    body = {"tenant": "ada", "name": "w", "demand": {"cpu": 1}, **change}
    response = operator.post(WORKLOADS, body)
    assert response.status_code == 201
    assert response.json()["conditions"] == ([unsatisfiable(reason)] if reason else [])


def test_a_pool_without_servers_takes_workloads(db, operator):
    factories.pool("lab")
    factories.tenant("ada")
    response = operator.post(WORKLOADS, {"tenant": "ada", "name": "w", "demand": {"cpu": 1}})
    assert response.status_code == 201
    assert response.json()["conditions"] == [unsatisfiable("resource_absent")]


def unsatisfiable(reason):
    detail = reason_text(reason, OPERATOR)
    return {"type": "unsatisfiable", "reason": reason, "detail": detail}


BAD = [
    ({"tenant": "nobody"}, 422, "tenant.unknown", "/tenant"),
    ({"tenant": None}, 422, "field.type", "/tenant"),
    ({"name": ""}, 422, "field.blank", "/name"),
    ({"name": "x" * 254}, 422, "field.length", "/name"),
    ({"demand": {}}, 422, "demand.zero", "/demand"),
    ({"demand": {"cpu": 0}}, 422, "demand.zero", "/demand"),
    ({"demand": {"cpu": -0.5}}, 422, "quantity.negative", "/demand/cpu"),
    ({"demand": {"gpu": 1}}, 422, "resource.unknown", "/demand/gpu"),
    ({"demand": 1}, 422, "field.type", "/demand"),
    ({"tasks": -1}, 422, "field.range", "/tasks"),
    ({"tasks": 10**13}, 422, "field.range", "/tasks"),
    ({"tasks": 10**30}, 422, "field.range", "/tasks"),
    ({"tasks": 1.5}, 422, "field.type", "/tasks"),
    ({"tasks": "5"}, 422, "field.type", "/tasks"),
    ({"tasks": True}, 422, "field.type", "/tasks"),
    ({"priority": 10**7}, 422, "field.range", "/priority"),
    ({"priority": None}, 422, "field.type", "/priority"),
    ({"minimum_run": "PT0S"}, 422, "duration.zero", "/minimum_run"),
    ({"minimum_run": "P31D"}, 422, "duration.too_long", "/minimum_run"),
    ({"minimum_run": "P1000Y"}, 422, "duration.too_long", "/minimum_run"),
    ({"minimum_run": "soon"}, 422, "duration.syntax", "/minimum_run"),
    ({"server_selector": {"zone": []}}, 422, "selector.count", "/server_selector/zone"),
    ({"server_selector": {"zone": {"in": []}}}, 422, "field.type", "/server_selector/zone"),
    ({"server_selector": None}, 422, "field.type", "/server_selector"),
    ({"state": "paused"}, 400, "field.unknown", "/state"),
    ({"colour": "red"}, 400, "field.unknown", "/colour"),
]


@pytest.mark.parametrize(("change", "status", "expected", "pointer"), BAD)
def test_a_bad_workload_is_refused_alone_and_in_a_batch(
    change, status, expected, pointer, lab, operator
):
    good = {"tenant": "ada", "name": "w1", "demand": {"cpu": 1}}
    alone = operator.post(WORKLOADS, {**good, **change})
    assert code(alone) == (status, expected)
    assert alone.json()["errors"][0]["pointer"] == pointer
    batch = operator.post(WORKLOADS, [good, {**good, "name": "w2", **change}])
    assert code(batch) == (status, expected)
    assert batch.json()["errors"][0]["pointer"] == f"/1{pointer}"
    assert not Workload.objects.exists()
    assert not Membership.objects.exists()


def test_a_batch_and_csv_are_all_or_nothing(lab, operator):
    batch = [{"tenant": "ada", "name": name, "demand": {"cpu": 1}} for name in ("a", "b", "a")]
    response = operator.post(WORKLOADS, batch)
    assert code(response) == (409, "workload.exists")
    assert response.json()["errors"][0]["pointer"] == "/2/name"
    rows = (
        "tenant,name,demand.cpu,tasks,priority,server_selector.zone\nada,a,1,,,a\nada,b,1,3,-2,\n"
    )
    made = operator.send("POST", WORKLOADS, rows.encode(), "text/csv")
    assert (made.status_code, made.json()["created"]) == (201, 2)
    listed = operator.get(WORKLOADS).json()["results"]
    assert [(w["tasks"], w["priority"], w["server_selector"]) for w in listed] == [
        (None, 0, {"zone": "a"}),
        (3, -2, {}),
    ]


def test_more_than_ten_thousand_are_413(lab, operator):
    batch = [{"tenant": "ada", "name": f"w{n}", "demand": {"cpu": 1}} for n in range(10_001)]
    assert code(operator.post(WORKLOADS, batch)) == (413, "workloads.too_many")
    assert not Workload.objects.exists()


def test_states_change_by_patch(world):
    path = f"{WORKLOADS}{world.ada_workload.pk}/"
    assert (
        world.as_ada.patch(path, {"state": "paused"}, If_Match='"v1"').json()["state"] == "paused"
    )
    assert (
        world.as_ada.patch(path, {"state": "active"}, If_Match='"v2"').json()["state"] == "active"
    )
    document = world.as_ada.patch(path, {"state": "withdrawn"}, If_Match='"v3"').json()
    assert (document["state"], document["withdrawn_at"][-1]) == ("withdrawn", "Z")
    again = world.as_ada.patch(path, {"state": "active"}, If_Match='"v4"')
    assert code(again) == (409, "workload.withdrawn")
    assert code(world.as_ada.patch(path, {"state": "lost"}, If_Match='"v4"')) == (
        422,
        "field.choice",
    )


def test_null_takes_the_limit_of_tasks_away(world):
    path = f"{WORKLOADS}{world.ada_workload.pk}/"
    assert world.as_ada.patch(path, {"tasks": 7}, If_Match='"v1"').json()["tasks"] == 7
    assert world.as_ada.patch(path, {"priority": 2}, If_Match='"v2"').json()["tasks"] == 7
    assert world.as_ada.patch(path, {"tasks": None}, If_Match='"v3"').json()["tasks"] is None


def test_a_selector_is_merged_by_label(world):
    path = f"{WORKLOADS}{world.ada_workload.pk}/"
    world.as_ada.patch(path, {"server_selector": {"zone": ["a"], "disk": "ssd"}}, If_Match='"v1"')
    document = world.as_ada.patch(path, {"server_selector": {"disk": None}}, If_Match='"v2"').json()
    assert document["server_selector"] == {"zone": ["a"]}
    assert document["conditions"] == [unsatisfiable("no_eligible_server")]


def test_a_deleted_workload_is_withdrawn_and_its_name_free_again(world):
    path = f"{WORKLOADS}{world.ada_workload.pk}/"
    assert world.as_ada.delete(path, If_Match='"v1"').status_code == 204
    assert world.as_ada.get(path).json()["state"] == "withdrawn"
    assert world.as_ada.get(WORKLOADS).json()["results"] == []
    again = {"name": "analysis", "demand": {"cpu": 1}}
    assert world.as_ada.post(WORKLOADS, again).status_code == 201


def test_a_withdrawn_name_cannot_be_taken_over_by_a_patch(world):
    world.as_ada.post(WORKLOADS, {"name": "second", "demand": {"cpu": 1}})
    path = f"{WORKLOADS}{world.ada_workload.pk}/"
    response = world.as_ada.patch(path, {"name": "second"}, If_Match='"v1"')
    assert code(response) == (409, "workload.exists")
    assert world.as_ada.get(path).json()["name"] == "analysis"


def test_half_an_object_in_a_cell_is_refused_with_its_row(lab, operator):
    rows = b'tenant,name,demand.cpu,server_selector\nada,w,1,"{"\n'
    response = operator.send("POST", WORKLOADS, rows, content_type="text/csv")
    assert code(response) == (422, "json.syntax")
    assert response.json()["errors"][0]["pointer"] == "/0/server_selector"
    assert response.json()["detail"].startswith("Row 1: ")


def test_too_many_workloads_are_refused_before_any_is_read(world, operator):
    """The items are not even objects: a request that is too long is refused for its length."""
    answer = operator.post("/api/v1/pools/lab/workloads/", [0] * 10_001)
    assert (answer.status_code, answer.json()["code"]) == (413, "workloads.too_many")
    assert world.lab.workloads.count() == 2
