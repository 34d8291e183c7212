"""Runs and decisions: DRFH Fig. 2 read back over HTTP, proven, replayed."""

from datetime import timedelta

import pytest

from allocator_service.allocation.models import Run
from allocator_service.core.clock import utc_now
from tests import factories
from tests.api.v1.test_conventions import code

pytestmark = pytest.mark.django_db(transaction=True)
LAB = "/api/v1/pools/lab/"


@pytest.fixture
def decided(world):
    world.run = factories.decision(world.lab)
    world.path = f"/api/v1/runs/{world.run.pk}/"
    return world


def test_a_run_tells_what_it_did(decided, operator):
    response = operator.get(decided.path)
    document = response.json()
    assert response.status_code == 200
    assert (document["id"], document["pool"], document["status"]) == (
        str(decided.run.pk),
        "lab",
        "succeeded",
    )
    assert document["policy"] == {"name": "drfh", "mode": "divisible", "options": {}}
    assert document["generation"] == 5
    assert document["input_digest"] == decided.run.snapshot_id
    assert document["error"] is None
    summary = document["summary"]
    assert (summary["tenants"], summary["workloads"], summary["servers"]) == (2, 2, 2)
    assert summary["min_weighted_share"] == pytest.approx(5 / 7, rel=1e-12)
    assert operator.get(f"{LAB}runs/").json()["results"] == [document]


def test_allocations_are_those_of_the_figure(decided, operator):
    rows = operator.get(f"{decided.path}allocations/").json()["results"]
    assert [(row["tenant"], row["workload"]["name"]) for row in rows] == [
        ("ada", "analysis"),
        ("bob", "simulation"),
    ]
    assert [row["tasks"] for row in rows] == pytest.approx([10, 10], rel=1e-12)
    assert [row["dominant_resource"] for row in rows] == ["memory", "cpu"]
    assert [row["dominant_share"] for row in rows] == pytest.approx([5 / 7, 5 / 7], rel=1e-12)
    assert rows[0]["resources"] == pytest.approx({"cpu": 2, "memory": 10}, rel=1e-12)
    assert rows[0]["workload"]["id"] == str(decided.ada_workload.pk)


def test_sums_by_tenant_add_up_its_workloads(world, operator):
    factories.workload(world.lab, "more", 0.2, 1, world.ada, tasks=3)
    run = factories.decision(world.lab)
    rows = operator.get(f"/api/v1/runs/{run.pk}/allocations/").json()["results"]
    sums = operator.get(f"/api/v1/runs/{run.pk}/allocations/?by=tenant").json()["results"]
    assert [(row["tenant"], row["workloads"]) for row in sums] == [("ada", 2), ("bob", 1)]
    of_ada = [row for row in rows if row["tenant"] == "ada"]
    assert sums[0]["tasks"] == pytest.approx(sum(row["tasks"] for row in of_ada), rel=1e-12)
    for resource in ("cpu", "memory"):
        total = sum(row["resources"][resource] for row in of_ada)
        assert sums[0]["resources"][resource] == pytest.approx(total, rel=1e-12)
    assert code(operator.get(f"/api/v1/runs/{run.pk}/allocations/?by=server"))[0] == 400


def test_placements_name_servers_and_ranges(world, operator):
    factories.server(world.lab, "many", 4, 4, None, count=3, labels={"zone": "a"})
    run = factories.decision(world.lab)
    rows = operator.get(f"/api/v1/runs/{run.pk}/placements/").json()["results"]
    ranges = [row["servers"] for row in rows if "servers" in row]
    assert ranges[0] == {
        "count": 3,
        "capacity": {"cpu": 4, "memory": 4},
        "labels": {"zone": "a"},
        "first": "many-0001",
        "last": "many-0003",
    }
    assert {row["server"] for row in rows if "server" in row} <= {"high-memory", "high-cpu"}
    allocated = operator.get(f"/api/v1/runs/{run.pk}/allocations/").json()["results"]
    for row in allocated:
        placed = [p for p in rows if p["workload"] == row["workload"]]
        tasks = sum(p["tasks"] * p.get("servers", {"count": 1})["count"] for p in placed)
        assert tasks == pytest.approx(row["tasks"], rel=1e-9)
        for p in placed:
            demand = {"ada": [0.2, 1], "bob": [1, 0.2]}[p["tenant"]]
            assert list(p["resources"].values()) == pytest.approx([p["tasks"] * d for d in demand])


def test_what_a_workload_became_since_does_not_change_a_placement(decided, operator):
    before = operator.get(f"{decided.path}placements/").content
    path = f"{LAB}workloads/{decided.ada_workload.pk}/"
    operator.patch(path, {"demand": {"cpu": 100}}, If_Match=operator.get(path)["ETag"])
    assert operator.get(f"{decided.path}placements/").content == before


def test_a_decision_is_verified_from_what_is_stored(decided, operator, billing):
    for client in (operator, billing):
        response = client.post(f"{decided.path}verify/")
        assert (response.status_code, response.json()["valid"]) == (200, True)
    assert {check["name"] for check in response.json()["checks"]} >= {
        "pool_capacity",
        "task_limits",
    }
    assert all(check["holds"] for check in response.json()["checks"])


def test_a_tampered_decision_is_not_valid(falsifiable, decided, operator):
    decided.run.allocations.filter(position=0).update(tasks=11.0)
    document = operator.post(f"{decided.path}verify/").json()
    assert document["valid"] is False
    assert [check for check in document["checks"] if not check["holds"]]


def test_replaying_the_input_gives_the_same_decision(decided, operator):
    document = operator.get(f"{decided.path}input/").json()
    answer = operator.post("/api/v1/evaluations/", {**document, "include": ["certificate"]}).json()
    rows = operator.get(f"{decided.path}allocations/").json()["results"]
    assert [row["tasks"] for row in answer["allocations"]] == [row["tasks"] for row in rows]
    assert answer["summary"] == operator.get(decided.path).json()["summary"]
    assert answer["certificate"] == operator.get(f"{decided.path}certificate/").json()


def test_a_run_is_asked_for_and_answers_with_its_address(decided, operator):
    response = operator.post(f"{LAB}runs/", {"reason": "after maintenance"})
    assert response.status_code == 202
    assert response["Location"] == f"/api/v1/runs/{response.json()['id']}/"
    assert response["Retry-After"] == "1"
    pending = operator.get(response["Location"]).json()
    assert (pending["status"], pending["reason"], pending["summary"]) == (
        "pending",
        "after maintenance",
        None,
    )
    assert operator.get(f"{response['Location']}allocations/").json()["results"] == []
    assert code(operator.get(f"{response['Location']}certificate/")) == (404, "certificate.none")
    assert code(operator.post(f"{response['Location']}verify/")) == (409, "run.not_succeeded")
    assert code(operator.get(f"{response['Location']}proof/")) == (409, "run.not_succeeded")
    assert code(operator.get(f"{response['Location']}input/")) == (404, "run.no_input")
    assert operator.get(f"{LAB}runs/").json()["results"][0] == pending


@pytest.mark.parametrize("body", [{"reason": 1}, {"reason": "x" * 501}, {"why": "x"}, []])
def test_a_bad_request_for_a_run_makes_none(body, decided, operator):
    assert operator.post(f"{LAB}runs/", body).status_code in (400, 422)
    assert Run.objects.filter(pool=decided.lab).count() == 1


def test_before_the_first_decision_there_is_none(world, operator):
    for part in ("decision", "allocations", "placements"):
        assert code(operator.get(f"{LAB}{part}/")) == (404, "decision.none")


def test_the_decision_in_force_now_and_then(decided, operator):
    first = operator.get(f"{LAB}decision/").json()
    assert (first["pool"], first["generation"], first["slot"]) == ("lab", 5, None)
    assert first["run"]["id"] == str(decided.run.pk)
    factories.workload(decided.lab, "more", 1, 1, decided.ada)
    second = factories.decision(decided.lab)
    now = operator.get(f"{LAB}decision/")
    assert (now.json()["run"]["id"], now.json()["generation"]) == (str(second.pk), 6)
    assert now["Pool-Generation"] == "6"
    then = decided.run.effective_from.isoformat().replace("+00:00", "Z")
    past = operator.get(f"{LAB}decision/?at={then}").json()
    assert past["run"]["id"] == str(decided.run.pk)
    assert past["at"] == then
    before = (decided.run.effective_from - timedelta(microseconds=1)).isoformat()
    early = before.replace("+00:00", "Z")
    assert code(operator.get(f"{LAB}decision/?at={early}")) == (404, "decision.none")
    future = (utc_now() + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert code(operator.get(f"{LAB}decision/?at={future}")) == (404, "decision.none")


@pytest.mark.parametrize("at", ["now", "2026-01-05", "2026-01-05T00:00:00+01:00", "", "%00"])
def test_a_bad_instant_is_400(at, decided, operator):
    assert code(operator.get(f"{LAB}decision/?at={at}")) == (400, "parameter.value")


def test_a_walk_through_the_decision_stays_with_it(decided, operator):
    first = operator.get(f"{LAB}allocations/?limit=1").json()
    factories.workload(decided.lab, "more", 1, 1, decided.ada)
    factories.decision(decided.lab)
    second = operator.get(first["next"]).json()
    rows = operator.get(f"{decided.path}allocations/").json()["results"]
    assert first["results"] + second["results"] == rows
    assert second["next"] is None
    other = operator.get(first["next"].replace("/lab/", "/other/"))
    assert code(other) == (400, "cursor.invalid")


def test_a_tenant_sees_its_own_part_of_the_decision(decided):
    rows = decided.as_ada.get(f"{LAB}allocations/").json()["results"]
    assert [row["tenant"] for row in rows] == ["ada"]
    placed = decided.as_ada.get(f"{LAB}placements/").json()["results"]
    assert {row["tenant"] for row in placed} == {"ada"}
    run = decided.as_ada.get(decided.path).json()
    assert (run["status"], run["generation"]) == ("succeeded", 5)
    hidden = ("summary", "input_digest", "solve_seconds", "reason")
    assert [run[field] for field in hidden] == [None] * 4


@pytest.mark.parametrize(("count", "field"), [(1, "server"), (3, "servers")])
def test_a_tenant_sees_where_it_runs_without_others_names(count, field):
    ada, bob = factories.tenant("ada"), factories.tenant("bob")
    lab = factories.pool("lab")
    factories.server(lab, "secret", 4, 4, bob, count=count, labels={"rack": "secret"})
    factories.workload(lab, "w", 1, 1, ada)
    run = factories.decision(lab)
    response = factories.client("tenant", ada).get(f"/api/v1/runs/{run.pk}/placements/")
    (row,) = response.json()["results"]
    assert b"secret" not in response.content
    shown = row[field]
    if count > 1:
        assert (shown["count"], shown["labels"]) == (3, {})
        assert shown["first"] != shown["last"]
        shown = shown["first"]
    assert shown.startswith("server-")


def test_rows_come_as_csv(decided, operator):
    for part in ("allocations", "allocations/?by=tenant", "placements"):
        path, _, query = part.partition("/")
        url = f"{decided.path}{path}/{query}{'&' if query else '?'}format=csv"
        lines = operator.get(url).content.decode().splitlines()
        assert lines[0].startswith("tenant,")
        assert [line.split(",")[0] for line in lines[1:]] == ["ada", "bob"]


def test_pruned_parts_are_410(decided, operator):
    Run.objects.filter(pk=decided.run.pk).update(pruned_at=utc_now())
    for part in ("placements", "certificate"):
        assert code(operator.get(f"{decided.path}{part}/")) == (410, "run.pruned")
    assert operator.get(f"{decided.path}allocations/").status_code == 200


def test_a_failed_run_says_why_to_operators_and_that_it_failed_to_tenants(decided, operator):
    error = {"code": "solve.failed", "detail": "the workload simulation of bob"}
    Run.objects.create(
        pool=decided.lab, status="failed", error=error, created_at=utc_now(), finished_at=utc_now()
    )
    assert operator.get(f"{LAB}runs/").json()["results"][0]["error"] == error
    seen = decided.as_ada.get(f"{LAB}runs/").json()["results"][0]["error"]
    assert seen == {"code": "solve.failed", "detail": "The previous decision stays in force."}
