"""Another tenant's object answers exactly as one that does not exist."""

import re
import uuid
from typing import Any

import pytest

from tests import factories
from tests.backtests import asked
from tests.factories import Client

UNKNOWN = "01a1fa35-2b84-7418-8537-e4019453fdf6"


def answer(
    client: Client, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of an answer with what names the request taken out."""
    response = client.send(method, path, body, **headers)
    text = response.content.decode().replace(path, "PATH")
    text = re.sub(r'"request_id":"[^"]*"', "", text)
    kept = {
        k: v for k, v in response.headers.items() if k not in ("X-Request-Id", "Content-Length")
    }
    return response.status_code, kept, text


@pytest.fixture
def decided(world):
    for pool, slug in ((world.lab, "bobs"), (world.other, "ours")):
        factories.group(pool, slug)
    factories.member(world.lab, world.bob, "bobs")
    world.run = factories.decision(world.lab)
    world.other_run = factories.decision(world.other)
    return world


OBJECTS = {
    "/api/v1/pools/{other}/": ("GET",),
    "/api/v1/pools/{other}/groups/": ("GET",),
    "/api/v1/pools/{other}/groups/ours/": ("GET",),
    "/api/v1/pools/{other}/groups/ours/history/": ("GET",),
    "/api/v1/pools/lab/groups/{group}/": ("GET",),
    "/api/v1/pools/lab/groups/{group}/history/": ("GET",),
    "/api/v1/pools/{other}/members/": ("GET",),
    "/api/v1/pools/{other}/members/ada/": ("GET",),
    "/api/v1/pools/{other}/servers/": ("GET", "POST"),
    "/api/v1/pools/{other}/workloads/": ("GET", "POST"),
    "/api/v1/pools/{other}/runs/": ("GET",),
    "/api/v1/pools/{other}/decision/": ("GET",),
    "/api/v1/pools/{other}/allocations/": ("GET",),
    "/api/v1/pools/{other}/placements/": ("GET",),
    "/api/v1/pools/{other}/enforcement/": ("GET",),
    "/api/v1/pools/{other}/entitlements/": ("GET",),
    "/api/v1/tenants/{bob}/": ("GET",),
    "/api/v1/pools/lab/members/{bob}/": ("GET",),
    "/api/v1/pools/lab/servers/{server}/": ("GET", "PATCH", "DELETE"),
    "/api/v1/pools/lab/servers/{server}/drain/": ("POST",),
    "/api/v1/pools/lab/members/{bob}/allocation-history/": ("GET",),
    "/api/v1/pools/lab/servers/{server}/activate/": ("POST",),
    "/api/v1/pools/lab/servers/{server}/retire/": ("POST",),
    "/api/v1/pools/lab/workloads/{workload}/": ("GET", "PATCH", "DELETE"),
    "/api/v1/runs/{run}/": ("GET",),
    "/api/v1/runs/{run}/allocations/": ("GET",),
    "/api/v1/runs/{run}/placements/": ("GET",),
    "/api/v1/runs/{run}/certificate/": ("GET",),
    "/api/v1/runs/{run}/input/": ("GET",),
    "/api/v1/runs/{run}/tree/": ("GET",),
    "/api/v1/runs/{run}/proof/": ("GET",),
    "/api/v1/runs/{run}/verify/": ("POST",),
    "/api/v1/backtests/{backtest}/": ("GET",),
    "/api/v1/backtests/{backtest}/results/": ("GET",),
    "/api/v1/backtests/{backtest}/cancel/": ("POST",),
}


@pytest.mark.django_db(transaction=True)
def test_foreign_unknown_and_malformed_names_answer_the_same(decided):
    foreign = {
        "other": "other",
        "bob": "bob",
        "group": "bobs",
        "server": str(decided.bob_server.pk),
        "workload": str(decided.bob_workload.pk),
        "run": str(decided.other_run.pk),
        "backtest": decided.as_bob.post("/api/v1/backtests/", asked()).json()["id"],
    }
    unknown = dict.fromkeys(foreign, UNKNOWN) | {
        "other": "nowhere",
        "bob": "nobody",
        "group": "none",
    }
    malformed = dict.fromkeys(foreign, "NO%20such%00%C3%A4thing")
    for template, methods in OBJECTS.items():
        for method in methods:
            body = {"name": "x"} if method != "GET" and "cancel" not in template else None
            headers = {"If_Match": '"v1"'} if method in ("PATCH", "DELETE") else {}
            answers = [
                answer(decided.as_ada, method, template.format(**names), body, **headers)
                for names in (foreign, unknown)
            ]
            assert answers[0][0] == 404, (method, template)
            assert answers[0] == answers[1], (method, template)
            odd = decided.as_ada.send(method, template.format(**malformed), body, **headers)
            assert odd.status_code == 404
            assert odd.json()["code"] in answers[0][2]
    decided.bob_server.refresh_from_db()
    decided.bob_workload.refresh_from_db()
    assert (decided.bob_server.version, decided.bob_workload.version) == (1, 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("transparent", [False, True])
def test_no_text_of_another_tenant_is_in_any_answer(transparent):
    ada, bob = factories.tenant("ada"), factories.tenant("bobtext-slug")
    lab = factories.pool("lab", transparent=transparent)
    factories.server(lab, "ada-server", 4, 4, ada, labels={"zone": "here"})
    factories.server(lab, "bobtext-server", 4, 4, bob, labels={"bobtext-label": "bobtext-value"})
    factories.server(lab, "bobtext-many", 8, 8, bob, count=3)
    factories.workload(lab, "ada-work", 1, 1, ada)
    factories.workload(
        lab, "bobtext-work", 1, 2, bob, server_selector={"bobtext-label": ["bobtext-value"]}
    )
    factories.group(lab, "shared")
    factories.group(lab, "bobtext-group", "shared")
    factories.member(lab, ada, "shared")
    factories.member(lab, bob, "bobtext-group")
    where = {"bobtext-label": ["bobtext-value"]}
    factories.limit(lab, "bobtext-group", {"memory": 1}, where)
    run = factories.decision(lab)
    assert run.allocations.get(tenant=bob).limited_by == "limit:group:bobtext-group"
    factories.enforcement_report(run, problems=["bobtext-slug has no account"])
    as_ada = factories.client("tenant", ada)
    paths = ["/api/v1/tenants/", "/api/v1/pools/", "/api/v1/pools/lab/"]
    paths += [
        f"/api/v1/pools/lab/{part}/"
        for part in (
            "groups",
            "groups/shared",
            "groups/shared/history",
            "members",
            "members/ada/allocation-history",
            "servers",
            "workloads",
            "runs",
            "decision",
            "allocations",
            "placements",
            "enforcement",
            "entitlements",
        )
    ]
    parts = ("", "allocations/", "allocations/?by=tenant", "placements/", "tree/")
    parts += ("certificate/", "input/")
    paths += [f"/api/v1/runs/{run.pk}/{part}" for part in parts]
    answers = [as_ada.get(path) for path in paths]
    answers.append(as_ada.post(f"/api/v1/runs/{run.pk}/verify/"))
    for path, response in zip([*paths, "verify"], answers, strict=True):
        assert b"bobtext" not in response.content, path
    assert {response.status_code for response in answers} <= {200, 404}
    hidden = [
        path for path, response in zip(paths, answers, strict=False) if response.status_code == 404
    ]
    assert hidden == ([] if transparent else [f"/api/v1/runs/{run.pk}/{p}" for p in parts[-2:]])
    assert answers[-1].status_code == (200 if transparent else 404)


@pytest.mark.django_db(transaction=True)
def test_a_transparent_input_replays_to_the_same_shares():
    ada, bob = factories.tenant("ada"), factories.tenant("bob")
    lab = factories.pool("lab", transparent=True)
    factories.server(lab, "a", 4, 4, ada)
    factories.server(lab, "b", 4, 4, bob, labels={"gpu": "yes"})
    factories.workload(lab, "x", 1, 1, ada)
    factories.workload(lab, "y", 1, 2, bob, server_selector={"gpu": "yes"})
    factories.group(lab, "g")
    factories.member(lab, bob, "g")
    factories.limit(lab, "g", {"memory": 3}, {"gpu": ["yes"]})
    run = factories.decision(lab)
    as_ada = factories.client("tenant", ada)
    document = as_ada.get(f"/api/v1/runs/{run.pk}/input/").json()
    replayed = as_ada.post("/api/v1/evaluations/", document).json()["allocations"]
    stored = as_ada.get(f"/api/v1/runs/{run.pk}/allocations/").json()["results"]
    assert [row["tasks"] for row in replayed] == [row["tasks"] for row in stored]
    assert [row["tenant"] for row in replayed] == [row["tenant"] for row in stored]


@pytest.mark.django_db(transaction=True)
def test_what_happens_elsewhere_changes_no_byte_for_a_tenant(decided):
    def seen() -> list[bytes]:
        parts = (
            "", "groups/", "members/", "servers/", "workloads/", "runs/", "allocations/", "placements/",
            "enforcement/",
        )  # fmt: skip
        return [decided.as_ada.get(f"/api/v1/pools/lab/{part}").content for part in parts] + [
            decided.as_ada.get("/api/v1/pools/").content,
            decided.as_ada.get("/api/v1/tenants/").content,
            decided.as_ada.get(f"/api/v1/runs/{decided.run.pk}/tree/").content,
        ]

    factories.enforcement_report(decided.run)
    before = seen()
    factories.enforcement_report(decided.other_run)
    factories.server(decided.other, "more", 9, 9, decided.eve)
    factories.workload(decided.other, "more", 1, 1, decided.eve)
    factories.decision(decided.other)
    factories.pool("third")
    assert seen() == before


def test_a_tenant_sees_its_own_rows_only(world):
    def slugs(path: str, field: str) -> list[str]:
        return [row[field] for row in world.as_ada.get(path).json()["results"]]

    assert slugs("/api/v1/tenants/", "slug") == ["ada"]
    assert slugs("/api/v1/pools/", "slug") == ["lab"]
    assert slugs("/api/v1/pools/lab/members/", "tenant") == ["ada"]
    assert slugs("/api/v1/pools/lab/servers/", "contributed_by") == ["ada"]
    assert slugs("/api/v1/pools/lab/workloads/", "tenant") == ["ada"]
    assert slugs("/api/v1/pools/lab/servers/?contributed_by=bob", "name") == []
    assert slugs("/api/v1/pools/lab/workloads/?tenant=bob", "name") == []


def test_a_write_for_another_tenant_is_refused_as_for_an_unknown_one(world):
    bodies = {
        "servers": {"name": "x", "capacity": {"cpu": 1}, "contributed_by": "NAME"},
        "workloads": {"name": "x", "demand": {"cpu": 1}, "tenant": "NAME"},
    }
    for part, body in bodies.items():
        field = "contributed_by" if part == "servers" else "tenant"
        path = f"/api/v1/pools/lab/{part}/"
        told = []
        for name in ("bob", "nobody"):
            response = world.as_ada.post(path, {**body, field: name})
            assert response.status_code == 422
            assert response.json()["code"] == "tenant.unknown"
            told.append(response.json()["detail"].replace(name, "NAME"))
        assert told[0] == told[1]
    assert world.lab.servers.count() == 2
    assert world.lab.workloads.count() == 2


def test_names_are_taken_per_tenant_so_that_no_conflict_tells_of_others(world):
    body = {"name": "simulation", "demand": {"cpu": 1}}
    assert world.as_ada.post("/api/v1/pools/lab/workloads/", body).status_code == 201
    assert world.as_bob.post("/api/v1/pools/lab/workloads/", body).status_code == 409


def test_two_keys_of_a_tenant_are_two_holders_of_idempotency_keys(world):
    body = {"name": "new", "demand": {"cpu": 1}}
    path = "/api/v1/pools/lab/workloads/"
    assert world.as_ada.post(path, body, Idempotency_Key="k").status_code == 201
    foreign = world.as_bob.post(path, body, Idempotency_Key="k")
    assert foreign.status_code == 201
    assert "Idempotency-Replayed" not in foreign
    assert uuid.UUID(foreign.json()["id"])
    assert foreign.json()["tenant"] == "bob"
