"""Pools: defaults, what is refused, changing, closing."""

import pytest

from allocator_service import __version__
from allocator_service.pools.models import Pool
from tests import factories
from tests.api.v1.test_conventions import code

POOLS = "/api/v1/pools/"
LAB = f"{POOLS}lab/"
LEAST = {
    "slug": "lab",
    "name": "Research lab",
    "resources": [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}],
    "policy": {"name": "drfh"},
}


def test_what_is_left_out_has_the_defaults_of_the_contract(operator):
    response = operator.post(POOLS, LEAST)
    assert response.status_code == 201
    assert (response["Location"], response["ETag"], response["Pool-Generation"]) == (
        LAB,
        f'"v1.1-{__version__}"',
        "1",
    )
    document = response.json()
    assert document == {
        **LEAST,
        "policy": {"name": "drfh", "mode": "divisible", "options": {}},
        "window": {
            "kind": "tumbling",
            "length": "P7D",
            "anchor": "2026-01-05T00:00:00Z",
            "half_life": None,
        },
        "weights": "contribution",
        "own_servers": False,
        "count": "total",
        "decision_interval": "PT1M",
        "cluster_grace": "PT15M",
        "minimum_run": None,
        "notice": None,
        "churn": None,
        "metering": "allocation",
        "currency": "EUR",
        "timezone": "UTC",
        "transparent": False,
        "generation": 1,
        "version": 1,
        "created_at": document["created_at"],
    }
    assert operator.get(LAB).json() == document


BAD = [
    ({"slug": "Lab"}, 422, "slug.syntax", "/slug"),
    ({"name": "\u0007"}, 422, "field.text", "/name"),
    ({"resources": []}, 422, "field.count", "/resources"),
    ({"resources": [{"name": f"r{n}"} for n in range(65)]}, 422, "field.count", "/resources"),
    ({"resources": [{"name": "CPU"}]}, 422, "resource.syntax", "/resources/0/name"),
    ({"resources": [{"name": "a\n"}]}, 422, "resource.syntax", "/resources/0/name"),
    ({"resources": [{"name": "a"}, {"name": "a"}]}, 422, "resource.duplicate", "/resources/1/name"),
    ({"resources": [{"name": "a", "size": 1}]}, 400, "field.unknown", "/resources/0/size"),
    ({"resources": {"cpu": "core"}}, 422, "field.type", "/resources"),
    ({"resources": ["cpu"]}, 422, "field.type", "/resources/0"),
    ({"policy": {"name": "no-such-policy"}}, 422, "policy.unknown", "/policy/name"),
    ({"policy": {"name": "drfh", "mode": "quantum"}}, 422, "policy.mode", "/policy/mode"),
    ({"policy": {"name": "drfh", "options": {"x": 1}}}, 422, "policy.options", "/policy/options"),
    (
        {"policy": {"name": "drfh", "options": {"share": "tasks"}}},
        422,
        "policy.options",
        "/policy/options/share",
    ),
    ({"policy": {}}, 422, "field.required", "/policy/name"),
    ({"policy": "drfh"}, 422, "field.type", "/policy"),
    ({"window": {"kind": "hexagonal"}}, 422, "field.choice", "/window/kind"),
    ({"window": {"length": "P0D"}}, 422, "duration.zero", "/window/length"),
    ({"window": {"anchor": "2026-01-05"}}, 422, "timestamp.syntax", "/window/anchor"),
    ({"weights": "equal"}, 422, "field.choice", "/weights"),
    ({"decision_interval": "1 minute"}, 422, "duration.syntax", "/decision_interval"),
    ({"metering": "none"}, 422, "field.choice", "/metering"),
    ({"currency": "eur"}, 422, "currency.syntax", "/currency"),
    ({"timezone": "Mars/Olympus"}, 422, "timezone.unknown", "/timezone"),
    ({"transparent": "yes"}, 422, "field.type", "/transparent"),
    ({"generation": 9}, 400, "field.unknown", "/generation"),
    ({"retired_at": None}, 400, "field.unknown", "/retired_at"),
]


@pytest.mark.parametrize(("change", "status", "expected", "pointer"), BAD)
def test_a_bad_pool_is_refused_with_its_pointer(change, status, expected, pointer, operator):
    response = operator.post(POOLS, {**LEAST, **change})
    assert code(response) == (status, expected)
    assert response.json()["errors"][0]["pointer"] == pointer
    assert not Pool.objects.exists()


@pytest.mark.parametrize(
    "interval", ["P9999Y", "P99999M", "P99999W", "P999999D", "PT9999999H", "PT9999999999S"]
)
@pytest.mark.parametrize("field", ["decision_interval", "window"])
def test_an_endless_duration_is_no_crash(field, interval, operator):
    value = {"kind": "decay", "half_life": interval} if field == "window" else interval
    assert operator.post(POOLS, {**LEAST, field: value}).status_code in (201, 422)


def test_the_slug_of_a_pool_is_taken_for_ever(operator):
    assert operator.post(POOLS, LEAST).status_code == 201
    assert code(operator.post(POOLS, LEAST)) == (409, "pool.exists")
    closed = operator.delete(LAB, If_Match='"v1"')
    assert (closed.status_code, closed.content) == (204, b"")
    assert code(operator.get(LAB)) == (404, "pool.not_found")
    assert code(operator.post(POOLS, LEAST)) == (409, "pool.exists")


def test_a_pool_with_servers_is_not_closed(world, operator):
    assert code(operator.delete(LAB, If_Match='"v1"')) == (409, "in_use")
    assert operator.get(LAB).status_code == 200


def test_a_patch_merges_into_nested_members(operator):
    operator.post(POOLS, {**LEAST, "window": {"kind": "sliding", "length": "P3D"}})
    response = operator.patch(
        LAB, {"window": {"length": "P5D"}, "timezone": "Asia/Tokyo"}, If_Match='"v1"'
    )
    assert (response.status_code, response["ETag"], response["Pool-Generation"]) == (
        200,
        f'"v2.2-{__version__}"',
        "2",
    )
    document = response.json()
    assert (document["window"]["kind"], document["window"]["length"]) == ("sliding", "P5D")
    assert (document["timezone"], document["name"]) == ("Asia/Tokyo", "Research lab")


def test_null_in_a_patch_means_the_default(operator):
    operator.post(POOLS, {**LEAST, "currency": "CHF", "transparent": True})
    document = operator.patch(LAB, {"currency": None, "transparent": None}, If_Match='"v1"').json()
    assert (document["currency"], document["transparent"]) == ("EUR", False)
    assert code(operator.patch(LAB, {"name": None}, If_Match='"v2"')) == (422, "field.required")


def test_what_shares_count_is_an_option_of_a_pool(operator):
    operator.post(POOLS, LEAST)
    for version, share in enumerate(("alone", "dominant"), start=1):
        policy = {"name": "drfh", "mode": "divisible", "options": {"share": share}}
        changed = operator.patch(LAB, {"policy": policy}, If_Match=f'"v{version}"')
        assert changed.json()["policy"] == policy
        assert operator.get(LAB).json()["policy"] == policy


def test_another_policy_brings_its_own_mode(operator):
    operator.post(POOLS, LEAST)
    document = operator.patch(LAB, {"policy": {"name": "static"}}, If_Match='"v1"').json()
    assert document["policy"] == {"name": "static", "mode": "indivisible", "options": {}}


def test_resources_may_be_added_and_never_dropped_or_changed(world, operator):
    more = [*LEAST["resources"], {"name": "gpu"}]
    document = operator.patch(LAB, {"resources": more}, If_Match='"v1"').json()
    assert [item["name"] for item in document["resources"]] == ["cpu", "memory", "gpu"]
    for resources in (more[:1], [{"name": "cpu", "unit": "socket"}, *more[1:]]):
        refused = operator.patch(LAB, {"resources": resources}, If_Match='"v2"')
        assert code(refused) == (409, "in_use")
    assert operator.get(LAB).json() == document
    server = operator.get(f"{LAB}servers/{world.ada_server.pk}/").json()
    assert server["capacity"] == {"cpu": 2, "memory": 12, "gpu": 0}


def test_every_change_below_a_pool_tells_its_generation(world, operator):
    generations = [int(operator.get(LAB)["Pool-Generation"])]
    server = f"{LAB}servers/{world.ada_server.pk}/"
    workload = f"{LAB}workloads/{world.ada_workload.pk}/"
    answers = [
        operator.post(f"{LAB}servers/", {"name": "s", "capacity": {"cpu": 1}}),
        operator.post(f"{LAB}workloads/", [{"tenant": "ada", "name": "w", "demand": {"cpu": 1}}]),
        operator.patch(server, {"name": "t"}, If_Match='"v1"'),
        operator.post(f"{server}drain/"),
        operator.post(f"{server}activate/"),
        operator.post(f"{server}retire/"),
        operator.patch(workload, {"tasks": 1}, If_Match='"v1"'),
        operator.delete(workload, If_Match='"v2"'),
        operator.put(f"{LAB}members/eve/", {}),
        operator.patch(LAB, {"name": "N"}, If_Match='"v1"'),
    ]
    generations += [int(response["Pool-Generation"]) for response in answers]
    assert generations == list(range(generations[0], generations[0] + 11))
    assert int(operator.get(LAB)["Pool-Generation"]) == generations[-1]


def test_a_pool_has_a_list_in_the_order_of_slugs(operator):
    for slug in ("b", "a", "c"):
        factories.pool(slug)
    results = operator.get(POOLS).json()["results"]
    assert [pool["slug"] for pool in results] == ["a", "b", "c"]
