"""Tasks of several pieces: REST, decisions, placements, proofs, and what is refused."""

import csv
import io
import json
from datetime import timedelta

import pytest

from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.core.quantities import Resource
from allocator_service.workloads.models import Workload
from tests import factories
from tests.api.v1.gangs import MPI, PATH, SOLO, patch, pool_of, proven, submit, tasks
from tests.pages.browser import browser_of
from tests.placements import placed
from tests.references.ledger import metered_entries

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool(operator):
    return pool_of(operator, "indivisible")


def test_all_pieces_run_or_none(pool, operator):
    submit(operator, MPI, SOLO)
    run = factories.decision(pool)
    assert tasks(run) == {"mpi": 1, "solo": 8}
    proven(operator, run)
    rows = operator.get(f"/api/v1/runs/{run.pk}/placements/").json()["results"]
    pieces = [row for row in rows if row["workload"]["name"] == "mpi"]
    assert sum(row["pieces"] * row.get("servers", {"count": 1})["count"] for row in pieces) == 3
    assert {row["resources"]["gpu"] for row in pieces} == {8}
    assert all(row["kind"] == 0 and "tasks" not in row for row in pieces)
    assert [row["tasks"] for row in rows if row["workload"]["name"] == "solo"] == [8]
    text = operator.get(f"/api/v1/runs/{run.pk}/placements/", Accept="text/csv").text
    assert text.splitlines()[0].endswith(",pieces,kind")


@pytest.mark.parametrize("policy", ["h-mrf", "lt-af", "lt-drf"])
def test_long_term_policies_place_pieces(operator, policy):
    pool = pool_of(operator, "indivisible", policy=policy)
    pieces = [{"demand": {"gpu": 1}}, {"count": 2, "demand": {"gpu": 6}}]
    submit(operator, MPI | {"pieces": pieces, "per_server": 1, "together": "rack"})
    run = factories.decision(pool)
    # A head and two workers need three servers of a rack, which has two.
    assert tasks(run) == {"mpi": 0}
    path = f"{PATH}/workloads/{run.allocations.get().workload_id}/"
    patch(operator, path, {"pieces": pieces, "per_server": 2})
    run = factories.decision(pool)
    assert tasks(run) == {"mpi": 2}
    proven(operator, run)
    rows = operator.get(f"/api/v1/runs/{run.pk}/placements/").json()["results"]
    assert {(row["kind"], row["resources"]["gpu"]) for row in rows} == {(0, 1), (1, 6)}


def test_a_workload_has_the_pieces_that_it_was_given(pool, operator):
    body = {**MPI, "per_server": 1, "together": "rack", "at_least": 2}
    found = submit(operator, {**body, "pieces": [{"count": 2, "demand": {"gpu": 4}}]})
    assert (found["demand"], found["pieces"]) == (
        {"gpu": 8}, [{"count": 2, "demand": {"gpu": 4}}],
    )  # fmt: skip
    assert (found["per_server"], found["together"], found["at_least"]) == (1, "rack", 2)
    run = factories.decision(pool)
    assert tasks(run) == {"mpi": 2}
    proven(operator, run)
    path = f"{PATH}/workloads/{found['id']}/"
    changed = patch(operator, path, {"pieces": [{"count": 3, "demand": {"gpu": 4}}]})
    assert changed.json()["demand"] == {"gpu": 12}
    run = factories.decision(pool)
    assert tasks(run) == {"mpi": 0}
    assert run.allocations.get().limited_by == "gang"
    explanation = operator.get(f"/api/v1/runs/{run.pk}/explanation/mpi/").json()
    only = "even on empty servers, only 2 of 6 pieces"
    assert only in explanation["sentence"]
    single = patch(
        operator, path, {"pieces": None, "per_server": None, "together": "", "at_least": 1}
    )
    assert (single.json()["pieces"], single.json()["demand"]) == (None, {"gpu": 12})


def test_pieces_are_a_cell_of_a_table(pool, operator):
    pieces = [{"count": 3, "demand": {"gpu": 2.5}}]
    table = io.StringIO()
    rows = csv.DictWriter(table, ["tenant", "name", "pieces", "per_server", "together", "at_least"])
    rows.writeheader()
    rows.writerow({"tenant": "mpi", "name": "mpi", "pieces": json.dumps(pieces), "per_server": 2})
    rows.writerow(
        {"tenant": "solo", "name": "bad", "pieces": '[{"count": 0, "demand": {"gpu": 1}}]'}
    )
    lines = table.getvalue().splitlines(keepends=True)
    path = f"{PATH}/workloads/"
    refused = operator.send("POST", path, "".join(lines).encode(), content_type="text/csv")
    assert refused.json()["errors"][0]["pointer"] == "/1/pieces/0/count", refused.json()
    made = operator.send("POST", path, "".join(lines[:-1]).encode(), content_type="text/csv")
    assert made.json()["created"] == 1
    written = operator.get(path, Accept="text/csv").text
    (row,) = csv.DictReader(io.StringIO(written))
    assert (json.loads(row["pieces"]), row["per_server"], row["at_least"]) == (pieces, "2", "1")


def test_a_head_and_its_workers(operator):
    """The head runs on a server without GPUs."""
    pool = factories.pool(
        "shared", resources=[Resource("cpu", ""), Resource("gpu", "")], mode="indivisible"
    )
    factories.tenant("ray")
    for name, capacity in (("head", {"cpu": 4}), ("gpus", {"cpu": 4, "gpu": 4})):
        operator.post(f"{PATH}/servers/", {"name": name, "capacity": capacity})
    kinds = [{"demand": {"cpu": 4}}, {"count": 2, "demand": {"cpu": 1, "gpu": 2}}]
    found = submit(operator, {"tenant": "ray", "name": "ray", "pieces": kinds})
    run = factories.decision(pool)
    assert tasks(run) == {"ray": 1}
    proven(operator, run)
    assert {row.servers.first: (row.kind, row.tasks) for row in placed(run)} == {
        "head": (0, 1),
        "gpus": (1, 2),
    }
    assert patch(operator, f"{PATH}/workloads/{found['id']}/", {"priority": 1}).status_code == 200
    again = factories.decision(pool)
    assert again.summary["moved_tasks"] == 0
    proven(operator, again)


def test_the_tenants_page_names_the_pieces(pool, operator):
    submit(operator, {**MPI, "per_server": 1, "together": "rack", "at_least": 2})
    factories.decision(pool)
    browser = browser_of(factories.client("tenant", pool.tenants["mpi"]))
    text = browser.text("/my/pools/shared/")
    assert (
        "3 pieces of 8 gpu, on servers with the same rack, at most 1 piece on a server, at least 2"
        " tasks at once"
    ) in text


def test_the_ledger_has_what_the_pieces_use(operator):
    """The head runs on its tenant's server, and its workers on another's, each GPU once."""
    pool = factories.pool(
        "shared", resources=[Resource("cpu", ""), Resource("gpu", "")], mode="indivisible"
    )
    for slug, name, capacity in (("ray", "head", {"cpu": 4}), ("other", "gpus", {"gpu": 4})):
        factories.tenant(slug)
        server = {"name": name, "capacity": {"cpu": 4, **capacity}, "contributed_by": slug}
        assert operator.post(f"{PATH}/servers/", server).status_code == 201
    kinds = [{"demand": {"cpu": 4}}, {"count": 2, "demand": {"cpu": 1, "gpu": 2}}]
    submit(operator, {"tenant": "ray", "name": "ray", "pieces": kinds})
    run = factories.decision(pool)
    assert tasks(run) == {"ray": 1}
    pool_meter_all(pool_id=pool.pk, now=run.effective_from + timedelta(minutes=2))
    entries = [each for each in metered_entries(pool) if each.kind == "usage"]
    assert {(each.owner, each.resource, each.quantity) for each in entries} == {
        ("ray", "cpu", 4), ("other", "cpu", 2), ("other", "gpu", 4),
    }  # fmt: skip


@pytest.mark.parametrize("policy", ["drfh", "drf"])
def test_divisible_tasks_are_sums(operator, policy):
    pool = pool_of(operator, "divisible", policy)
    submit(operator, MPI, SOLO)
    run = factories.decision(pool)
    assert tasks(run) == pytest.approx({"mpi": 2 / 3, "solo": 16})
    proven(operator, run)


@pytest.mark.parametrize(
    ("fields", "code", "pointer"),
    [
        ({"pieces": []}, "workload.pieces", "/pieces"),
        ({"pieces": [{"demand": {"gpu": 1}}] * 3}, "workload.pieces", "/pieces"),
        ({"pieces": "four"}, "field.type", "/pieces"),
        ({"pieces": [{"demand": {"gpu": 0}}]}, "demand.zero", "/pieces/0/demand"),
        ({"pieces": [{"demand": {"tpu": 1}}]}, "resource.unknown", "/pieces/0/demand/tpu"),
        ({"pieces": [{"demand": {"gpu": -1}}]}, "quantity.negative", "/pieces/0/demand/gpu"),
        ({"pieces": [{"count": 0, "demand": {"gpu": 1}}]}, "field.range", "/pieces/0/count"),
        ({"pieces": [{"count": 10**5, "demand": {"gpu": 1}}]}, "field.range",
         "/pieces/0/count"),
        ({"pieces": [{"count": 5000, "demand": {"gpu": 1}}], "at_least": 3}, "workload.pieces",
         "/at_least"),
        ({"pieces": [{"count": 2, "demand": {"gpu": 1}}], "demand": {"gpu": 3}}, "workload.pieces",
         "/demand"),
        ({"demand": {"gpu": 3}, "per_server": 1}, "workload.per_server", "/per_server"),
        ({"demand": {"gpu": 3}, "together": "rack"}, "workload.together", "/together"),
        ({"pieces": [{"count": 2, "demand": {"gpu": 1}}], "at_least": 5001}, "workload.pieces",
         "/at_least"),
        ({"pieces": [{"count": 2, "demand": {"gpu": 500_000_000_000}}]}, "quantity.too_large",
         "/pieces"),
        ({"demand": {"gpu": 1}, "at_least": 3, "tasks": 2}, "workload.at_least", "/at_least"),
        ({"at_least": 2}, "field.required", "/demand"),
    ],
)  # fmt: skip
def test_impossible_gangs_are_refused(pool, operator, fields, code, pointer):
    answer = operator.post(f"{PATH}/workloads/", {"tenant": "mpi", "name": "x", **fields})
    body = answer.json()
    assert answer.status_code in (400, 422), body
    found = body.get("errors") or [body]
    assert (found[0].get("code", body["code"]), found[0]["pointer"]) == (code, pointer)
    assert not Workload.objects.exists()


def test_the_demand_of_a_gang_is_changed_by_its_pieces(pool, operator):
    found = submit(operator, MPI)
    answer = patch(operator, f"{PATH}/workloads/{found['id']}/", {"demand": {"gpu": 4}})
    assert (answer.status_code, answer.json()["code"]) == (422, "workload.pieces")


@pytest.mark.parametrize(
    ("policy", "mode", "options"),
    [("static", "indivisible", {}), ("mrfs", "indivisible", {}),
     ("drfh", "indivisible", {"share": "alone"})],
)  # fmt: skip
def test_policies_that_place_single_tasks_refuse_gangs(operator, policy, mode, options):
    pool_of(operator, mode, policy, **options)
    answer = operator.post(f"{PATH}/workloads/", MPI)
    assert (answer.status_code, answer.json()["code"]) == (422, "workload.pieces")
    assert not Workload.objects.exists()


def test_two_kinds_are_for_whole_tasks(operator):
    pool_of(operator, "divisible")
    kinds = [{"demand": {"gpu": 1}}, {"demand": {"gpu": 2}}]
    answer = operator.post(f"{PATH}/workloads/", {**MPI, "pieces": kinds})
    assert (answer.status_code, answer.json()["code"]) == (422, "workload.pieces")


def test_a_pool_with_gangs_keeps_what_they_need(pool, operator):
    submit(operator, MPI)
    path, body = f"{PATH}/", {"policy": {"name": "static"}}
    answer = operator.patch(path, body, If_Match=operator.get(path)["ETag"])
    assert (answer.status_code, answer.json()["code"]) == (422, "workload.pieces")
    assert factories.decision(pool).status == "succeeded"


TOGETHER = {**MPI, "at_least": 2}


def test_tasks_that_go_on_may_become_fewer_than_start_together(pool, operator):
    found = submit(
        operator, {"tenant": "mpi", "name": "x", "demand": {"gpu": 1}, "tasks": 5, "at_least": 3}
    )
    assert tasks(factories.decision(pool)) == {"x": 5}
    answer = patch(operator, f"{PATH}/workloads/{found['id']}/", {"tasks": 2})
    assert answer.status_code == 200, answer.json()


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"own_servers": True}, "/own_servers"),
        ({"policy": {"name": "drfh", "mode": "divisible"}}, "/policy/mode"),
        (
            {"policy": {"name": "drfh", "mode": "indivisible", "options": {"share": "alone"}}},
            "/policy/options",
        ),
        ({"policy": {"name": "static"}}, "/policy/name"),
    ],
)
def test_a_setting_that_refuses_gangs_is_named(pool, operator, change, pointer):
    pieces = [{"count": 2, "demand": {"gpu": 1}}, {"count": 1, "demand": {"gpu": 2}}]
    submit(operator, {"tenant": "mpi", "name": "x", "pieces": pieces, "at_least": 2})
    answer = patch(operator, f"{PATH}/", change)
    assert (answer.status_code, answer.json()["code"]) == (422, "workload.pieces"), answer.json()
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_tasks_that_start_together_keep_guarantees_out(pool, operator):
    submit(operator, TOGETHER)
    for path, body in (
        (f"{PATH}/", {"own_servers": True}),
        (f"{PATH}/members/solo/", {"guarantee": [{"amount": {"gpu": 4}}]}),
        (f"{PATH}/members/solo/", {"own_servers": True}),
    ):
        method = operator.put if "members" in path else operator.patch
        sent = {"weight": 1, **body} if "members" in path else body
        answer = method(path, sent, If_Match=operator.get(path)["ETag"])
        assert (answer.status_code, answer.json()["code"]) == (422, "workload.pieces"), body
        assert "at_least" in answer.json()["detail"]
    body = {"slug": "ml", "name": "ML", "guarantee": [{"amount": {"gpu": 4}}]}
    answer = operator.post(f"{PATH}/groups/", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "workload.pieces")
    assert factories.decision(pool).status == "succeeded"


def test_gangs_are_guaranteed(pool, operator):
    path = f"{PATH}/members/mpi/"
    body = {"weight": 1, "guarantee": [{"amount": {"gpu": 24}}]}
    assert operator.put(path, body, If_Match=operator.get(path)["ETag"]).status_code == 200
    answer = operator.post(f"{PATH}/workloads/", TOGETHER)
    assert (answer.status_code, answer.json()["code"]) == (422, "workload.pieces")
    assert answer.json()["errors"][0]["pointer"] == "/pieces"
    submit(operator, SOLO, MPI)
    run = factories.decision(pool)
    assert tasks(run) == {"mpi": 1, "solo": 8}
    proven(operator, run)
    rows = operator.get(f"/api/v1/runs/{run.pk}/allocations/").json()["results"]
    floors = {row["tenant"]: (row.get("floor"), row.get("floor_met")) for row in rows}
    assert floors == {"mpi": (1, 1), "solo": (None, None)}
    sentence = operator.get(f"/api/v1/runs/{run.pk}/explanation/mpi/").json()["sentence"]
    assert "guaranteed" in sentence, sentence


def test_policies_state_whether_they_place_pieces(operator):
    found = operator.get("/api/v1/policies/?limit=100").json()["results"]
    assert {each["name"] for each in found if each["gangs"]} == {
        "drfh", "h-mrf", "lt-af", "lt-drf",
    }  # fmt: skip


def test_slurm_is_told_the_servers_of_each_gang(pool, operator):
    submit(operator, MPI | {"per_server": 1, "server_selector": {"rack": ["a", "b"]}}, SOLO)
    factories.decision(pool)
    path = f"{PATH}/decision/renderings/slurm/?class_label=rack"
    objects = operator.get(path).json()["objects"]
    (gang,) = [each for each in objects if each["kind"] == "gang"]
    placed = operator.get(f"{PATH}/placements/").json()["results"]
    names = [
        row["server"] if "server" in row else row["servers"]["first"]
        for row in placed
        if row["workload"]["name"] == "mpi"
    ]
    assert {
        "tasks": 1,
        "per_server": 1,
        "together": None,
        "classes": ["a", "b"],
    }.items() <= gang.items()
    assert gang["pieces"] == [{"count": 3, "limits": {"gres/gpu": 8}}]
    assert len(gang["servers"]) == 3
    assert set(names) <= {each["name"] for each in gang["servers"]}
    assert {(tuple(each["pieces"]), each["shared"]) for each in gang["servers"]} == {((1,), False)}
    script = operator.get(path, Accept="text/plain").text
    assert "mpi" in script
    # A server that is no longer as it was has no name: which of its kind it is cannot be said.
    pool.servers.filter(name=gang["servers"][0]["name"]).update(labels={"rack": "c"})
    objects = operator.get(path).json()["objects"]
    assert [each["servers"] for each in objects if each["kind"] == "gang"] == [[]]
