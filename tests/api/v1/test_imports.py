"""Imports over HTTP: told, refused whole, written once."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.core.models import AuditEntry
from allocator_service.ledger.models import Entry
from allocator_service.pools.models import Contribution, Server, ServerState
from tests import factories

NODES = "/api/v1/pools/lab/imports/nodes/"
WORKLOADS = "/api/v1/pools/lab/imports/workloads/"
CSV = "name,contributed_by,capacity.cpu,capacity.memory\nnew,ada,4,8Gi\nhigh-cpu,bob,12,2\n"


def generation(operator):
    return operator.get("/api/v1/pools/lab/").json()["generation"]


def test_a_dry_run_tells_every_row_and_writes_none(world, operator):
    before = Server.objects.count()
    answer = operator.post(NODES, {"content": CSV + "bad,ada,-1,1\n", "dry_run": True})
    assert answer.status_code == 200
    body = answer.json()
    assert body["counts"] == {
        "added": 1, "changed": 0, "unchanged": 1, "refused": 1, "skipped": 0,
    }  # fmt: skip
    assert [(row["line"], row["outcome"]) for row in body["rows"]] == [
        (2, "added"),
        (3, "unchanged"),
        (4, "refused"),
    ]
    assert body["rows"][2]["errors"][0]["code"] == "quantity.negative"
    assert (body["written"], Server.objects.count()) == (False, before)


def test_one_refused_row_is_422_and_nothing_is_written(world, operator):
    before = Server.objects.count()
    answer = operator.post(NODES, {"content": CSV + "bad,ada,-1,1\n"})
    body = answer.json()
    assert (answer.status_code, body["code"]) == (422, "import.refused")
    assert body["errors"] == [
        {
            "pointer": "/content",
            "code": "quantity.negative",
            "detail": "Line 4: A quantity is at least 0; -1 is negative.",
        }
    ]
    assert [(row["line"], row["name"]) for row in body["rows"]] == [(4, "bad")]
    assert Server.objects.count() == before


def test_a_file_is_written_once_and_then_changes_nothing(world, operator):
    first = operator.post(NODES, {"content": CSV})
    assert (first.status_code, first.json()["counts"]["added"]) == (200, 1)
    assert int(first.headers["Pool-Generation"]) == first.json()["generation"]
    again = operator.post(NODES, {"content": CSV})
    assert again.json()["counts"]["unchanged"] == 2
    assert again.headers["Pool-Generation"] == first.headers["Pool-Generation"]


def test_refused_rows_can_be_skipped(world, operator):
    answer = operator.post(NODES, {"content": CSV + "bad,ada,-1,1\n", "skip_refused": True})
    assert (answer.status_code, answer.json()["written"]) == (200, True)
    assert Server.objects.filter(name="new").exists()
    assert not Server.objects.filter(name="bad").exists()


def test_kubernetes_objects_come_as_json(world, operator):
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": 110}}}
    answer = operator.post(
        NODES,
        {"format": "kubernetes", "content": {"items": [node]}, "contributed_by": "ada"},
    ).json()
    assert (answer["rows"][0]["item"], answer["rows"][0]["owner"]) == (0, "ada")
    assert answer["ignored"] == ["pods"]


def kubernetes(*, number, cluster, cpu=4, drained=False):
    """The body of an import of so many nodes."""
    nodes = [
        {
            "metadata": {"name": f"n{each}", "labels": {"cluster": cluster}},
            "spec": {"unschedulable": drained},
            "status": {"allocatable": {"cpu": str(cpu)}},
        }
        for each in range(number)
    ]
    return {"format": "kubernetes", "content": {"items": nodes}, "contributed_by": "ada"}


def statements(operator, body):
    with CaptureQueriesContext(connection) as captured:
        answer = operator.post(NODES, body)
    assert answer.status_code == 200, answer.content
    return len(captured)


def test_nodes_that_change_become_one_change_of_the_pool(world, operator):
    operator.post(NODES, kubernetes(number=20, cluster="east"))
    before = generation(operator)
    operator.post(NODES, kubernetes(number=20, cluster="west", cpu=8, drained=True))
    assert generation(operator) == before + 1
    servers = Server.objects.filter(labels__cluster="west", state=ServerState.DRAINING)
    assert {(each.capacity[0], each.version) for each in servers} == {(8, 3)}
    for action, fields in (("server.update", {"capacity", "labels"}), ("server.drain", {"state"})):
        entries = AuditEntry.objects.filter(action=action)
        assert {each.object_id for each in entries} == {str(each.pk) for each in servers}
        assert {frozenset(each.after) for each in entries} == {frozenset(fields)}
        assert {frozenset(each.before) for each in entries} == {frozenset(fields)}
    now = Contribution.objects.filter(server__in=servers, end=None)
    assert [each.capacity[0] for each in now] == [8] * 20


def test_a_new_label_takes_as_many_statements_for_many_nodes_as_for_few(world, operator):
    found = []
    for number in (10, 40):
        operator.post(NODES, kubernetes(number=number, cluster="east"))
        found.append(statements(operator, kubernetes(number=number, cluster="west", drained=True)))
        statements(operator, kubernetes(number=number, cluster="east", drained=False))
    assert found[0] == found[1]


def test_workloads_are_imported_too(world, operator):
    content = "name,demand.cpu,tasks\nnew,1,5\n"
    answer = operator.post(WORKLOADS, {"content": content, "tenant": "ada"})
    assert answer.json()["counts"]["added"] == 1
    assert world.lab.workloads.get(name="new").tasks == 5


def test_a_repeated_key_is_replayed(world, operator):
    first = operator.post(NODES, {"content": CSV}, Idempotency_Key="once")
    again = operator.post(NODES, {"content": CSV}, Idempotency_Key="once")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == first.json()


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        ({}, 422, "field.required", "/content"),
        ({"content": 3}, 422, "field.type", "/content"),
        ({"content": "x", "format": "xml"}, 422, "field.choice", "/format"),
        ({"content": "x", "color": 1}, 400, "field.unknown", "/color"),
        ({"content": "name,capacity.disk\n"}, 422, "resource.unknown", "/content"),
        ({"content": "{", "format": "slurm"}, 422, "import.json", "/content"),
        ({"content": {}, "format": "csv"}, 422, "import.csv", "/content"),
        (
            {"content": "x", "contributed_by": "ada", "owner_label": "team"},
            422,
            "import.owner",
            "/owner_label",
        ),
    ],
)
def test_what_cannot_be_imported_says_why(world, operator, body, status, code, pointer):
    answer = operator.post(NODES, body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_only_operators_import(world, billing):
    assert world.as_ada.post(NODES, {"content": CSV}).status_code == 403
    assert billing.post(WORKLOADS, {"content": CSV}).status_code == 403


def test_usage_is_imported_once_into_a_pool_that_takes_reports(world, operator):
    metered = factories.pool("metered", metering="reported")
    factories.workload(metered, "jobs", 1, 1, world.ada)
    path = "/api/v1/pools/metered/imports/usage/"
    content = (
        "id,tenant,start,end,resources.cpu\nj1,ada,2026-10-05T10:00:00Z,2026-10-05T11:00:00Z,2\n"
    )
    told = operator.post(path, {"content": content, "dry_run": True}).json()
    assert (told["counts"]["added"], told["written"]) == (1, False)
    assert operator.post(path, {"content": content}).json()["counts"]["added"] == 1
    again = operator.post(path, {"content": content}).json()
    assert (again["counts"]["unchanged"], again["written"]) == (1, False)
    other = operator.post(path, {"content": content.replace(",2\n", ",3\n")})
    assert (other.status_code, other.json()["code"]) == (422, "import.refused")
    assert other.json()["rows"][0]["errors"][0]["code"] == "usage.conflict"
    refused = operator.post("/api/v1/pools/lab/imports/usage/", {"content": content})
    assert (refused.status_code, refused.json()["code"]) == (409, "usage.metering")
    assert Entry.objects.get().amount == 7200


GROUPS = "/api/v1/pools/lab/imports/groups/"
TREE = "kind,slug,parent,weight\ngroup,labs,,3\nmember,ada,labs,2\n"


def test_a_tree_is_imported_by_operators_and_by_nobody_else(world, operator):
    assert world.as_ada.post(GROUPS, {"content": TREE}).status_code == 403
    dry = operator.post(GROUPS, {"content": TREE, "dry_run": True}).json()
    assert [(row["line"], row["name"], row["owner"], row["outcome"]) for row in dry["rows"]] == [
        (2, "labs", None, "added"),
        (3, "ada", "ada", "changed"),
    ]
    assert operator.get("/api/v1/pools/lab/groups/").json()["results"] == []
    refused = operator.post(GROUPS, {"content": TREE + "group,x,nowhere,\n"})
    assert (refused.status_code, refused.json()["errors"][0]["detail"]) == (
        422, 'Line 4: Neither the pool nor the file has a group "nowhere".',
    )  # fmt: skip
    written = operator.post(GROUPS, {"content": TREE})
    assert int(written.headers["Pool-Generation"]) == generation(operator)
    member = operator.get("/api/v1/pools/lab/members/ada/").json()
    assert (member["group"], member["weight"]) == ("labs", 2)


def test_workloads_admit_their_tenants_to_groups(world, operator):
    factories.group(world.lab, "science")
    factories.group(world.lab, "physics", "science")
    rows = "tenant,name,tasks,demand.cpu,group\n"
    body = {"content": f"{rows}eve,first,0,1,physics\nada,first,0,1,physics\n"}
    body["register_tenants"] = True
    answer = operator.post(WORKLOADS, body)
    assert (answer.status_code, answer.json()["counts"]["added"]) == (200, 2)

    def groups():
        found = operator.get("/api/v1/pools/lab/members/").json()["results"]
        return {row["tenant"]: row["group"] for row in found}

    # A member stays where it is.
    assert (groups()["eve"], groups()["ada"]) == ("physics", None)
    operator.post(WORKLOADS, {"content": f"{rows}eve,second,0,1,science\n"})
    assert groups()["eve"] == "physics"
    before = generation(operator)
    body["content"] = f"{rows}mia,first,0,1,arts\nmia,second,0,1,No Slug\n"
    refused = operator.post(WORKLOADS, body).json()
    assert [error["code"] for row in refused["rows"] for error in row["errors"]] == [
        "group.unknown", "slug.syntax",
    ]  # fmt: skip
    assert generation(operator) == before
    assert "mia" not in groups()


def test_a_tree_of_slurm_is_imported_over_http(world, operator):
    text = "Account|User|Share\nroot||1\n labs||3\n  ada||2\n  ada|ada|1\n"
    answer = operator.post(GROUPS, {"content": text, "format": "sacctmgr"})
    assert answer.json()["counts"] == {
        "added": 1, "changed": 1, "unchanged": 0, "refused": 0, "skipped": 2,
    }  # fmt: skip
    assert (
        operator.post(GROUPS, {"content": {"items": []}, "format": "sacctmgr"}).status_code == 422
    )
