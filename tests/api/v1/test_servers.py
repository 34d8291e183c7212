"""Servers: one, many, CSV, draining and retiring."""

import csv

import pytest

from allocator_service.pools.models import Contribution, Membership, Server
from tests import factories
from tests.api.v1.test_conventions import code

SERVERS = "/api/v1/pools/lab/servers/"


@pytest.fixture
def lab(db):
    return factories.pool("lab")


def test_a_server_is_contributed_with_exact_quantities(lab, operator):
    factories.tenant("ada")
    body = {
        "name": "s1",
        "contributed_by": "ada",
        "capacity": {"cpu": "250m", "memory": "512Mi"},
        "labels": {"zone": "a"},
    }
    response = operator.post(SERVERS, body)
    assert response.status_code == 201
    document = response.json()
    assert response["Location"] == f"{SERVERS}{document['id']}/"
    assert (response["ETag"], response["Pool-Generation"]) == ('"v1"', "2")
    assert document == {
        "id": document["id"],
        "pool": "lab",
        "name": "s1",
        "contributed_by": "ada",
        "capacity": {"cpu": 0.25, "memory": 0.5},
        "labels": {"zone": "a"},
        "cluster": "lab",
        "state": "active",
        "version": 1,
        "created_at": document["created_at"],
        "retired_at": None,
    }
    assert operator.get(response["Location"]).json() == document
    assert Membership.objects.filter(pool=lab, tenant__slug="ada").exists()


def test_a_tenant_contributes_as_itself(world):
    for name, more in (("x", {}), ("y", {"contributed_by": "ada"})):
        body = {"name": name, "capacity": {"cpu": 1}, **more}
        assert world.as_ada.post(SERVERS, body).json()["contributed_by"] == "ada"


def test_an_operators_server_is_the_pools_own_unless_said(lab, operator):
    for name, more in (("x", {}), ("y", {"contributed_by": None})):
        body = {"name": name, "capacity": {"cpu": 1}, **more}
        assert operator.post(SERVERS, body).json()["contributed_by"] is None


BAD = [
    ({"name": None}, 422, "field.type", "/name"),
    ({"name": "a\nb"}, 422, "field.text", "/name"),
    ({"capacity": None}, 422, "field.type", "/capacity"),
    ({"capacity": [1]}, 422, "field.type", "/capacity"),
    ({"capacity": {}}, 422, "capacity.zero", "/capacity"),
    ({"capacity": {"cpu": 0, "memory": "0"}}, 422, "capacity.zero", "/capacity"),
    ({"capacity": {"cpu": -1}}, 422, "quantity.negative", "/capacity/cpu"),
    ({"capacity": {"cpu": 1e12}}, 422, "quantity.too_large", "/capacity/cpu"),
    ({"capacity": {"cpu": True}}, 422, "quantity.type", "/capacity/cpu"),
    ({"capacity": {"cpu": None}}, 422, "quantity.type", "/capacity/cpu"),
    ({"capacity": {"cpu": "1_000"}}, 422, "quantity.syntax", "/capacity/cpu"),
    ({"capacity": {"cpu": "١٢"}}, 422, "quantity.syntax", "/capacity/cpu"),
    ({"capacity": {"cpu": "NaN"}}, 422, "quantity.syntax", "/capacity/cpu"),
    ({"capacity": {"cpu": " 1"}}, 422, "quantity.syntax", "/capacity/cpu"),
    ({"capacity": {"cpu": "0.0000000000001"}}, 422, "quantity.precision", "/capacity/cpu"),
    ({"capacity": {"gpu": 1}}, 422, "resource.unknown", "/capacity/gpu"),
    ({"capacity": {"a/b~": 1}}, 422, "resource.unknown", "/capacity/a~1b~0"),
    ({"contributed_by": "nobody"}, 422, "tenant.unknown", "/contributed_by"),
    ({"contributed_by": "NO BODY"}, 422, "slug.syntax", "/contributed_by"),
    ({"labels": {"zone": 1}}, 422, "field.type", "/labels/zone"),
    ({"labels": []}, 422, "field.type", "/labels"),
    ({"count": 0}, 422, "field.range", "/count"),
    ({"count": "3"}, 422, "field.type", "/count"),
    ({"state": "retired"}, 400, "field.unknown", "/state"),
    ({"id": "x"}, 400, "field.unknown", "/id"),
]


@pytest.mark.parametrize(("change", "status", "expected", "pointer"), BAD)
def test_a_bad_server_is_refused_alone_and_in_a_batch(
    change, status, expected, pointer, lab, operator
):
    good = {"name": "s1", "capacity": {"cpu": 1}}
    alone = operator.post(SERVERS, {**good, **change})
    assert code(alone) == (status, expected)
    assert alone.json()["errors"][0]["pointer"] == pointer
    batch = operator.post(SERVERS, [good, {**good, "name": "s2", **change}])
    assert code(batch) == (status, expected)
    assert batch.json()["errors"][0]["pointer"] == f"/1{pointer}"
    assert not Server.objects.exists()


@pytest.mark.parametrize("number", [b"1.0", b"1e0", b"100000000000000000000000000000000000000000"])
def test_counts_are_json_integers(number, lab, operator):
    body = b'{"name": "s", "capacity": {"cpu": 1}, "count": ' + number + b"}"
    assert operator.post(SERVERS, body).status_code in (400, 422)
    assert not Server.objects.exists()


def test_count_makes_numbered_servers(lab, operator):
    response = operator.post(SERVERS, {"name": "s", "capacity": {"cpu": 1}, "count": 3})
    assert response.status_code == 201
    names = list(Server.objects.order_by("id").values_list("name", flat=True))
    assert names == ["s-0001", "s-0002", "s-0003"]
    ids = [str(pk) for pk in Server.objects.order_by("id").values_list("pk", flat=True)]
    assert response.json() == {"created": 3, "first": ids[0], "last": ids[2]}
    assert Contribution.objects.filter(end=None).count() == 3


def test_a_batch_is_all_or_nothing_and_names_the_item(lab, operator):
    operator.post(SERVERS, {"name": "taken", "capacity": {"cpu": 1}})
    batch = [{"name": name, "capacity": {"cpu": 1}} for name in ("a", "b", "taken", "a")]
    response = operator.post(SERVERS, batch)
    assert code(response) == (409, "server.exists")
    pointers = [error["pointer"] for error in response.json()["errors"]]
    assert pointers == ["/2/name", "/3/name"]
    assert Server.objects.count() == 1


def test_a_hundred_thousand_servers_are_made_by_one_request(lab, operator):
    batch = [
        {"name": f"s{n}", "capacity": {"cpu": 1 + n % 7, "memory": "1Gi"}} for n in range(100_000)
    ]
    response = operator.post(SERVERS, batch)
    assert response.status_code == 201
    assert response.json()["created"] == Server.objects.count() == 100_000
    assert response["Pool-Generation"] == "2"
    page = operator.get(f"{SERVERS}?limit=2").json()["results"]
    assert [row["name"] for row in page] == ["s0", "s1"]


@pytest.mark.parametrize("count", [100_001, 10**9, 10**12])
def test_more_than_that_is_413(count, lab, operator):
    response = operator.post(SERVERS, {"name": "s", "capacity": {"cpu": 1}, "count": count})
    assert code(response) == (413, "servers.too_many")
    assert not Server.objects.exists()


def test_csv_rows_are_servers(lab, operator):
    factories.tenant("ada")
    rows = (
        "\ufeffname,contributed_by,capacity.cpu,capacity.memory,labels.zone,count\r\n"
        "s1,ada,2,12Gi,a,\r\n"
        '"s, 2",,500m,,,2\r\n'
    )
    response = operator.send("POST", SERVERS, rows.encode(), "text/csv")
    assert (response.status_code, response.json()["created"]) == (201, 3)
    servers = operator.get(SERVERS).json()["results"]
    assert [(s["name"], s["contributed_by"], s["capacity"], s["labels"]) for s in servers] == [
        ("s1", "ada", {"cpu": 2, "memory": 12}, {"zone": "a"}),
        ("s, 2-0001", None, {"cpu": 0.5, "memory": 0}, {}),
        ("s, 2-0002", None, {"cpu": 0.5, "memory": 0}, {}),
    ]


@pytest.mark.parametrize(
    ("rows", "status", "expected", "detail"),
    [
        ("name,capacity.cpu\ns1,1\ns2,-1\n", 422, "quantity.negative", "Row 2: "),
        ("name,capacity.cpu,count\ns1,1,1\ns2,1,1.0\n", 422, "field.type", "Row 2: "),
        ("name,capacity.cpu\ns1,1\ns1,1\n", 409, "server.exists", "Row 2: "),
        ("name,capacity.cpu,colour\ns1,1,red\n", 400, "field.unknown", "Row 1: "),
        ("name,capacity.cpu\ns1\n", 400, "csv.row", "Row 1"),
        ("name,contributed_by,capacity.cpu\ns1,nobody,1\n", 422, "tenant.unknown", "Row 1: "),
        ("name\n", 422, "bulk.empty", "The array"),
    ],
)
def test_a_bad_row_is_named(rows, status, expected, detail, lab, operator):
    response = operator.send("POST", SERVERS, rows.encode(), "text/csv; charset=utf-8")
    assert code(response) == (status, expected)
    assert response.json()["detail"].startswith(detail)
    assert not Server.objects.exists()


def test_what_a_list_writes_as_csv_a_batch_reads(lab, operator):
    operator.post(
        SERVERS, {"name": "s", "capacity": {"cpu": 1}, "labels": {"zone": "a"}, "count": 2}
    )
    exported = operator.get(f"{SERVERS}?format=csv").content.decode().splitlines()
    kept = ["name", "capacity.cpu", "capacity.memory", "labels"]
    rows = list(csv.DictReader(exported))
    text = ",".join(kept) + "\n"
    for row in rows:
        cells = [row[name].replace("s-", "t-").replace('"', '""') for name in kept]
        text += ",".join(f'"{cell}"' for cell in cells) + "\n"
    assert operator.send("POST", SERVERS, text.encode(), "text/csv").status_code == 201
    copies = Server.objects.filter(name__startswith="t-")
    assert [server.labels for server in copies] == [{"zone": "a"}, {"zone": "a"}]


def test_a_patch_merges_capacity_and_labels(world, operator):
    path = f"{SERVERS}{world.ada_server.pk}/"
    patch = {"capacity": {"cpu": "3.5"}, "labels": {"zone": "a", "rack": "1"}}
    document = operator.patch(path, patch, If_Match='"v1"').json()
    assert (document["capacity"], document["version"]) == ({"cpu": 3.5, "memory": 12}, 2)
    document = operator.patch(
        path, {"labels": {"zone": None}, "capacity": {"memory": None}}, If_Match='"v2"'
    ).json()
    assert (document["labels"], document["capacity"]) == ({"rack": "1"}, {"cpu": 3.5, "memory": 0})


@pytest.mark.parametrize(
    ("patch", "status", "expected"),
    [
        ({"contributed_by": "bob"}, 422, "field.immutable"),
        ({"contributed_by": None}, 422, "field.immutable"),
        ({"capacity": None}, 422, "field.required"),
        ({"capacity": {"cpu": 0, "memory": 0}}, 422, "capacity.zero"),
        ({"capacity": {"cpu": "x"}}, 422, "quantity.syntax"),
        ({"count": 2}, 400, "field.unknown"),
        ({"state": "retired"}, 400, "field.unknown"),
        ({"version": 7}, 400, "field.unknown"),
        ({"name": ""}, 422, "field.blank"),
    ],
)
def test_a_bad_patch_changes_nothing(patch, status, expected, world, operator):
    path = f"{SERVERS}{world.ada_server.pk}/"
    before = operator.get(path).content
    assert code(operator.patch(path, patch, If_Match='"v1"')) == (status, expected)
    assert operator.get(path).content == before


def test_exact_quantities_survive_a_patch_of_something_else(lab, operator):
    body = {"name": "s", "capacity": {"cpu": "123456789012.123456789012"}}
    response = operator.post(SERVERS, body)
    operator.patch(response["Location"], {"name": "t"}, If_Match='"v1"')
    assert str(Server.objects.get().capacity[0]) == "123456789012.123456789012"


def test_a_server_is_drained_activated_and_retired(world):
    path = f"{SERVERS}{world.ada_server.pk}/"
    drained = world.as_ada.post(f"{path}drain/")
    assert (drained.status_code, drained.json()["state"], drained["ETag"]) == (
        200,
        "draining",
        '"v2"',
    )
    assert world.as_ada.post(f"{path}drain/", {})["ETag"] == '"v2"'
    assert world.as_ada.post(f"{path}activate/").json()["state"] == "active"
    retired = world.as_ada.post(f"{path}retire/").json()
    assert retired["state"] == "retired"
    assert retired["retired_at"].endswith("Z")
    assert code(world.as_ada.post(f"{path}drain/")) == (409, "server.retired")
    assert code(world.as_ada.patch(path, {"name": "x"}, If_Match='"v4"')) == (409, "server.retired")
    assert Contribution.objects.get(server=world.ada_server).end is not None


def test_an_action_takes_no_fields(world):
    path = f"{SERVERS}{world.ada_server.pk}/drain/"
    assert code(world.as_ada.post(path, {"force": True})) == (400, "field.unknown")
    assert code(world.as_ada.post(path, [])) == (422, "field.type")
    assert world.as_ada.get(f"{SERVERS}{world.ada_server.pk}/").json()["state"] == "active"


def test_a_deleted_server_is_retired_and_its_name_free_again(world):
    path = f"{SERVERS}{world.ada_server.pk}/"
    assert world.as_ada.delete(path, If_Match='"v1"').status_code == 204
    assert world.as_ada.get(path).json()["state"] == "retired"
    assert world.as_ada.get(SERVERS).json()["results"] == []
    listed = world.as_ada.get(f"{SERVERS}?state=retired").json()["results"]
    assert [row["id"] for row in listed] == [str(world.ada_server.pk)]
    again = {"name": "high-memory", "capacity": {"cpu": 1}}
    assert world.as_ada.post(SERVERS, again).status_code == 201


def test_filters_narrow_the_list(world, operator):
    def names(query: str) -> list[str]:
        return [row["name"] for row in operator.get(f"{SERVERS}?{query}").json()["results"]]

    assert names("contributed_by=bob") == ["high-cpu"]
    assert names("name=high-memory") == ["high-memory"]
    assert names("state=active&contributed_by=ada") == ["high-memory"]
    assert names("contributed_by=nobody") == []
    assert names("state=draining") == []
    assert code(operator.get(f"{SERVERS}?state=broken")) == (400, "parameter.value")
    assert code(operator.get(f"{SERVERS}?contributed_by=NO")) == (400, "parameter.value")
