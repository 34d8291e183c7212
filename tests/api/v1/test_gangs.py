"""Tasks of several pieces: REST, decisions, placements, proofs, what-if, and what is refused."""

import csv
import io
import json
import re
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.core.quantities import Resource
from allocator_service.pools.clusters import CLUSTER_LABEL
from allocator_service.pools.models import Server
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload
from tests import factories
from tests.api.v1.test_simulations import simulated
from tests.kueue_cases import pod_set, workload
from tests.pages.browser import browser_of
from tests.placements import placed
from tests.references.ledger import metered_entries

PATH = "/api/v1/pools/shared"
RACKS = ("a", "a", "b", "b")
MPI = {"tenant": "mpi", "name": "mpi", "pieces": [{"count": 3, "demand": {"gpu": 8}}], "tasks": 2}
SOLO = {"tenant": "solo", "name": "solo", "demand": {"gpu": 1}, "tasks": 40}

pytestmark = pytest.mark.django_db(transaction=True)


def pool_of(operator, mode, policy="drfh", **options):
    """Return a pool with two racks of two servers, each with 8 GPUs."""
    pool = factories.pool(
        "shared", resources=[Resource("gpu", "")], mode=mode, policy=policy, options=options
    )
    pool.tenants = {slug: factories.tenant(slug) for slug in ("mpi", "solo")}
    for slug in pool.tenants:
        assert operator.put(f"{PATH}/members/{slug}/", {"weight": 1}).status_code == 201
    for number, rack in enumerate(RACKS):
        server = {"name": f"s{number}", "capacity": {"gpu": 8}, "labels": {"rack": rack}}
        assert operator.post(f"{PATH}/servers/", server).status_code == 201
    return pool


@pytest.fixture
def pool(operator):
    return pool_of(operator, "indivisible")


def submit(operator, *bodies):
    for body in bodies:
        answer = operator.post(f"{PATH}/workloads/", body)
        assert answer.status_code == 201, answer.json()
    return answer.json()


def tasks(run):
    return {row.workload.name: row.tasks for row in run.allocations.select_related("workload")}


def patch(operator, path, body):
    return operator.patch(path, body, If_Match=operator.get(path)["ETag"])


def proven(operator, run):
    proof = operator.post(f"/api/v1/runs/{run.pk}/verify/").json()
    assert proof["valid"], proof


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
    only = "even on empty servers with one value of rack, only 2 of 6 pieces"
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


def test_a_what_if_keeps_gangs_whole(pool, operator):
    first = submit(operator, MPI)
    submit(operator, SOLO)
    factories.decision(pool)
    path = f"{PATH}/workloads/{first['id']}/"
    another = {**MPI, "name": "other", "pieces": [{"count": 5, "demand": {"gpu": 6}}]}
    changes = {
        "servers": {"add": [{"name": "new", "capacity": {"gpu": 8}, "count": 6}]},
        "workloads": {"submit": [another], "change": [{"id": first["id"], "demand": {"gpu": 24}}]},
    }
    result = simulated(operator, changes, path=f"{PATH}/simulations/")["result"]
    after = {row["workload"]: row["after"]["tasks"] for row in result["workloads"]}
    assert after == {"mpi": 2, "other": 0, "solo": 32}
    assert operator.get(path).json()["pieces"] == MPI["pieces"]
    change = changes["workloads"]["change"][0]
    change |= {
        "pieces": [{"count": 3, "demand": {"gpu": 4}}],
        "per_server": 1,
        "demand": {"gpu": 12},
    }
    result = simulated(operator, changes, path=f"{PATH}/simulations/")["result"]
    (mpi,) = [row for row in result["workloads"] if row["workload"] == "mpi"]
    assert (mpi["before"]["tasks"], mpi["after"]["tasks"]) == (1, 2)
    change["demand"] = {"gpu": 13}
    refused = simulated(operator, changes, path=f"{PATH}/simulations/")
    assert refused["error"]["code"] == "workload.pieces"
    del change["pieces"], change["per_server"]
    changes["workloads"]["change"][0]["demand"] = {"gpu": 4}
    refused = simulated(operator, changes, path=f"{PATH}/simulations/")
    assert refused["error"]["code"] == "workload.pieces"


def test_a_what_if_changes_the_pieces_of_a_task(pool, operator):
    first, solo = submit(operator, MPI), submit(operator, SOLO)
    factories.decision(pool)
    changes = [
        {"id": first["id"], "pieces": [{"count": 2, "demand": {"gpu": 4}}], "per_server": 1},
        {"id": solo["id"], "demand": {"gpu": 1}, "at_least": 60},
    ]
    body = {"workloads": {"change": changes}}
    result = simulated(operator, body, path=f"{PATH}/simulations/")["result"]
    after = {row["workload"]: row["after"]["tasks"] for row in result["workloads"]}
    assert after == {"mpi": 2, "solo": 0}  # 60 tasks never fit at once


def test_a_what_if_refuses_what_a_submission_refuses(pool, operator):
    submitted = {"tenant": "mpi", "name": "x", "demand": {"gpu": 1}, "at_least": 3, "tasks": 2}
    answer = simulated(
        operator, {"workloads": {"submit": [submitted]}}, path=f"{PATH}/simulations/"
    )
    (error,) = answer["error"]["errors"]
    assert (error["code"], error["pointer"]) == (
        "workload.at_least",
        "/workloads/submit/0/at_least",
    )


@pytest.mark.parametrize("pieces", [[], None])
def test_a_what_if_makes_single_tasks_of_a_gang(pool, operator, pieces):
    found = submit(operator, {**MPI, "per_server": 1, "together": "rack"})
    change = {"id": found["id"], "pieces": pieces, "demand": {"gpu": 4}, "tasks": 40}
    answer = simulated(operator, {"workloads": {"change": [change]}}, path=f"{PATH}/simulations/")
    assert answer["error"] is None
    assert [row["after"]["tasks"] for row in answer["result"]["workloads"]] == [8]


def test_a_what_if_changes_the_demand_of_tasks_that_start_together(pool, operator):
    """They have no pieces, so their demand is not a sum."""
    solo = submit(operator, {**SOLO, "at_least": 2})
    factories.decision(pool)
    body = {"workloads": {"change": [{"id": solo["id"], "demand": {"gpu": 8}}]}}
    result = simulated(operator, body, path=f"{PATH}/simulations/")["result"]
    assert [row["after"]["tasks"] for row in result["workloads"]] == [4]


def test_a_what_if_keeps_pieces_in_one_cluster(pool, operator):
    """As decisions do: no scheduler starts pieces on another one's servers."""
    for number, server in enumerate(Server.objects.order_by("name")):
        server.labels = {CLUSTER_LABEL: f"cluster-{number % 2}"}
        server.save()
    body = {"workloads": {"submit": [MPI]}}
    result = simulated(operator, body, path=f"{PATH}/simulations/")["result"]
    assert [row["after"]["tasks"] for row in result["workloads"]] == [0]
    submit(operator, MPI)
    assert tasks(factories.decision(pool)) == {"mpi": 0}


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ({"demand": {"gpu": 4}}, 8),
        ({"at_least": 1}, 4),
        ({"at_least": 3}, 0),
        ({"pieces": [{"count": 2, "demand": {"gpu": 4}}], "at_least": 1}, 4),
    ],
)
def test_a_what_if_of_tasks_that_start_at_once_in_clusters(pool, operator, change, after):
    """The label that the pool adds to pieces is no setting of the workload."""
    for number, server in enumerate(Server.objects.order_by("name")):
        server.labels = {CLUSTER_LABEL: f"cluster-{number % 2}"}
        server.save()
    body = {"tenant": "mpi", "name": "mpi", "demand": {"gpu": 8}, "at_least": 2}
    found = submit(operator, body)
    changes = {"workloads": {"change": [{"id": found["id"], **change}]}}
    answer = simulated(operator, changes, path=f"{PATH}/simulations/")
    assert answer["error"] is None
    (row,) = answer["result"]["workloads"]
    assert row["after"]["tasks"] == after


def test_a_what_if_removes_the_settings_of_pieces(pool, operator):
    """Four pieces of 4 GPUs of a task have room on two servers of a rack, unless they are kept apart."""
    pieces = [{"count": 4, "demand": {"gpu": 4}}]
    found = submit(operator, {**MPI, "pieces": pieces, "per_server": 1, "together": "rack"})

    def after(**change):
        changes = {"workloads": {"change": [{"id": found["id"], **change}]}}
        answer = simulated(operator, changes, path=f"{PATH}/simulations/")
        assert answer["changes"] == changes
        (row,) = answer["result"]["workloads"]
        return row["before"]["tasks"], row["after"]["tasks"]

    assert after(per_server=None) == (0, 2)
    assert after(together="") == (0, 2)
    assert after(at_least=1) == (0, 0)


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ({"at_least": 3}, 0),
        ({"at_least": 1}, 4),
        ({"demand": {"gpu": 4}}, 8),
        ({"pieces": [{"count": 2, "demand": {"gpu": 8}}]}, 2),
        ({"pieces": [{"count": 2, "demand": {"gpu": 6}}], "together": "rack", "at_least": 1}, 2),
    ],
)
def test_a_what_if_changes_how_tasks_start(pool, operator, change, after):
    """Two tasks of 8 GPUs start at once, of which two have room beside a task on each other server."""
    body = {"tenant": "mpi", "name": "mpi", "demand": {"gpu": 8}, "at_least": 2}
    found = submit(operator, body)
    changes = {"workloads": {"change": [{"id": found["id"], **change}]}}
    if change == {"at_least": 3}:
        drained = operator.get(f"{PATH}/servers/").json()["results"][:2]
        changes["servers"] = {"drain": [each["id"] for each in drained]}
    result = simulated(operator, changes, path=f"{PATH}/simulations/")["result"]
    (row,) = result["workloads"]
    assert (row["before"]["tasks"], row["after"]["tasks"]) == (4, after)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pieces": [{"count": 5, "demand": {"gpu": 8}}]}, "one more server with 8 gpu"),
        ({"pieces": [{"count": 7, "demand": {"gpu": 8}}]}, "3 more servers with 8 gpu"),
        ({"pieces": [{"count": 3, "demand": {"gpu": 8}}], "together": "rack"},
         "one more server with 8 gpu labelled rack=a"),
        ({"pieces": [{"count": 2, "demand": {"gpu": 8}}], "together": "row"},
         "mpi without together on row"),
        ({"demand": {"gpu": 8}, "at_least": 5}, "one more server with 8 gpu"),
    ],
)  # fmt: skip
def test_what_would_help_is_the_fewest_servers(pool, operator, fields, words):
    submit(operator, {"tenant": "mpi", "name": "mpi", "tasks": 5, **fields})
    run = factories.decision(pool)
    explanation = operator.get(f"/api/v1/runs/{run.pk}/explanation/mpi/").json()
    (found,) = explanation["counterfactuals"]
    assert found["words"].removesuffix(", contributed by mpi") == words
    assert found["tasks_before"] == 0
    result = simulated(operator, found["changes"], path=f"{PATH}/simulations/")["result"]
    assert [row["after"]["tasks"] for row in result["workloads"]] == [found["tasks_after"]]


def test_a_drain_states_the_gangs_that_it_ends(pool, operator):
    """Two tasks of four pieces, one on each server: every server has a piece of each task."""
    pieces = [{"count": 4, "demand": {"gpu": 2}}]
    submit(operator, {**MPI, "pieces": pieces, "per_server": 1}, {**SOLO, "tasks": 1})
    factories.decision(pool)
    servers = operator.get(f"{PATH}/servers/").json()["results"]
    changes = {"servers": {"drain": [servers[0]["id"]]}}
    result = simulated(operator, changes, path=f"{PATH}/simulations/")["result"]
    assert result["lost"] == [
        {
            "tenant": "mpi",
            "workload": "mpi",
            "least_tasks": 2,
            "tasks": 2,
            "pieces": 8,
            "pieces_on_servers": 2,
            "detail": "2 tasks of mpi end: 2 of their 8 pieces are on this server.",
        }
    ]
    changes = {"servers": {"drain": [servers[0]["id"]], "retire": [servers[1]["id"]]}}
    (both,) = simulated(operator, changes, path=f"{PATH}/simulations/")["result"]["lost"]
    assert both["detail"] == "2 tasks of mpi end: 4 of their 8 pieces are on these servers."
    as_solo = factories.client("tenant", tenant=Tenant.objects.get(slug="solo"))
    own = {"workloads": {"submit": [{"name": "x", "demand": {"gpu": 1}, "tasks": 1}]}}
    assert simulated(as_solo, own, path=f"{PATH}/simulations/")["result"]["lost"] == []


def page_of_a_drain(client, server):
    """Return the admin's page that asks whether to drain a server."""
    sent = {"action": "drain", "_selected_action": str(server)}
    return client.post(reverse("admin:pools_server_changelist"), sent).content.decode()


def test_the_admin_states_the_gangs_that_a_drain_ends(pool, operator, client):
    pieces = [{"count": 4, "demand": {"gpu": 2}}]
    submit(operator, {**MPI, "pieces": pieces, "per_server": 1})
    factories.decision(pool)
    client.force_login(get_user_model().objects.create_superuser("olga"))
    page = page_of_a_drain(client, pool.servers.order_by("pk").first().pk)
    lost = ">2 tasks of mpi end: 2 of their 8 pieces are on this server.<"
    assert 0 < page.index(lost) < page.index("tenant would run")
    assert re.search("(No|[0-9]+) pieces? of running tasks would move to another server", page)


@pytest.mark.parametrize(
    ("count", "per_server", "detail"),
    [
        (2, None, "1 to 2 tasks of mpi end: 2 of their 4 pieces are on this server."),
        (2, 1, "2 tasks of mpi end: 2 of their 4 pieces are on this server."),
    ],
)
def test_which_pieces_are_of_one_task_is_not_recorded(pool, operator, count, per_server, detail):
    """Pieces of 4 GPUs: two of one task, or one of each of two, are on a server."""
    pieces = [{"count": count, "demand": {"gpu": 4}}]
    submit(operator, {**MPI, "pieces": pieces, "per_server": per_server})
    factories.decision(pool)
    servers = operator.get(f"{PATH}/servers/").json()["results"]
    for server in servers:
        changes = {"servers": {"drain": [server["id"]]}}
        lost = simulated(operator, changes, path=f"{PATH}/simulations/")["result"]["lost"]
        assert [row["detail"] for row in lost] in ([], [detail])
    assert any(
        simulated(operator, {"servers": {"drain": [each["id"]]}}, path=f"{PATH}/simulations/")[
            "result"
        ]["lost"]
        for each in servers
    )


def test_a_drain_counts_pieces_that_changed_after_the_decision(pool, operator, client):
    """A task of a head and a worker runs, and is to have four pieces of one kind."""
    kinds = [{"demand": {"gpu": 8}}, {"demand": {"gpu": 6}}]
    found = submit(operator, {**MPI, "tenant": "solo", "pieces": kinds, "tasks": 1})
    run = factories.decision(pool)
    rows = operator.get(f"/api/v1/runs/{run.pk}/placements/").json()["results"]
    names = {row["kind"]: row["server"] for row in rows}
    ids = {row["name"]: row["id"] for row in operator.get(f"{PATH}/servers/").json()["results"]}
    head, worker = ids[names[0]], ids[names[1]]
    pieces = [{"count": 4, "demand": {"gpu": 8}}]
    path = f"{PATH}/workloads/{found['id']}/"
    assert patch(operator, path, {"pieces": pieces}).status_code == 200

    def lost(server):
        changes = {"servers": {"drain": [server]}}
        answer = simulated(operator, changes, path=f"{PATH}/simulations/")
        assert answer["status"] == "succeeded", answer["error"]
        return [(row["tasks"], row["pieces"], row["detail"]) for row in answer["result"]["lost"]]

    assert lost(head) == [(1, 4, "1 task of mpi ends: 1 of its 4 pieces is on this server.")]
    assert lost(worker) == []  # the workload no longer has pieces of this kind
    client.force_login(get_user_model().objects.create_superuser("olga"))
    page = page_of_a_drain(client, head)
    assert "1 task of solo&#x27;s mpi ends: 1 of its 4 pieces is on this server." in page
    page = page_of_a_drain(client, worker)
    assert "tenants would run" in page or "No tenant would run" in page
    assert "Tasks of several pieces that end" not in page


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


GANG_COLUMNS = "pieces,second_pieces,second_demand.gpu,per_server,together,at_least"
COLUMNS = f"tenant,name,tasks,demand.gpu,{GANG_COLUMNS}"


def imported(operator, *rows, **options):
    content = "\n".join([COLUMNS, *rows])
    return operator.post(f"{PATH}/imports/workloads/", {"content": content, **options}).json()


def stored(name):
    found = Workload.objects.get(name=name)
    pieces = [(each["count"], float(each["demand"]["gpu"])) for each in found.pieces]
    gang = (pieces, found.per_server, found.together, found.at_least)
    return [float(amount) for amount in found.demand], *gang


def test_gangs_come_from_csv_and_the_same_file_changes_nothing(pool, operator):
    rows = (
        "mpi,mpi,2,8,3,,,1,rack,",
        "mpi,train,2,1,,4,0.5,,,2",
        "solo,solo,40,1,,,,,,",
    )
    assert imported(operator, *rows)["counts"]["added"] == 3
    assert stored("mpi") == ([24.0], [(3, 8.0)], 1, "rack", 1)
    assert stored("train") == ([3.0], [(1, 1.0), (4, 0.5)], None, "", 2)
    assert stored("solo") == ([1.0], [], None, "", 1)
    assert imported(operator, *rows)["counts"]["unchanged"] == 3
    assert imported(operator, "mpi,mpi,2,8,4,,,,,")["counts"]["changed"] == 1
    assert stored("mpi")[1:4] == ([(4, 8.0)], None, "")
    # A row without any of the columns keeps the pieces, whose sum is the demand.
    assert imported(operator, "mpi,mpi,3,32,,,,,,")["counts"]["changed"] == 1
    assert stored("mpi")[1] == [(4, 8.0)]
    assert imported(operator, "mpi,mpi,3,8,1,,,,,")["counts"]["changed"] == 1
    assert stored("mpi")[:2] == ([8.0], [])


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("mpi,a,1,1,0,,,,,", "field.range"),
        ("mpi,a,1,1,x,,,,,", "field.type"),
        ("mpi,a,1,1,10001,,,,,", "field.range"),
        ("mpi,a,1,1,6000,,,,,2", "workload.pieces"),
        ("mpi,a,1,1,2,3,,,,", "demand.zero"),
        ("mpi,a,1,1,1,,,3,,", "workload.per_server"),
        ("mpi,a,1,1,1,,,,rack,", "workload.together"),
        ("mpi,a,1,1,2,3,-1,,,", "quantity.negative"),
        ("mpi,a,2,1,2,,,,,3", "workload.at_least"),
    ],
)
def test_a_row_with_a_gang_that_no_pool_can_run_is_refused(pool, operator, row, code):
    answer = imported(operator, row)
    assert answer["code"] == "import.refused"
    assert answer["errors"][0]["code"] == code
    assert not Workload.objects.exists()


def test_a_gang_that_the_pool_cannot_run_is_refused_with_its_row(operator):
    """Other rows are written, and the agent learns by a dry run that it cannot send any."""
    pool_of(operator, "indivisible", policy="mrfs")
    rows = ("mpi,mpi,2,8,3,,,,,", "solo,solo,4,1,,,,,,")
    dry = imported(operator, *rows, dry_run=True, skip_refused=True)
    assert [row["errors"][0]["code"] for row in dry["rows"] if row["errors"]] == ["workload.pieces"]
    assert imported(operator, *rows, skip_refused=True)["counts"]["added"] == 1
    assert [each.name for each in Workload.objects.all()] == ["solo"]


PODS = [pod_set("head", 1, 4), pod_set("workers", 3, 1)]


def kueue_imported(operator, *items):
    body = {"format": "kubernetes", "content": {"items": list(items)}, "register_tenants": True}
    return operator.post(f"{PATH}/imports/workloads/", body).json()


def test_pod_sets_of_kueue_become_gangs_and_the_same_file_changes_nothing(operator):
    factories.pool("shared", mode="indivisible")
    assert kueue_imported(operator, workload(*PODS))["counts"]["added"] == 1

    def pieces():
        found = Workload.objects.get(tenant__slug="a")
        assert (found.name, found.tasks) == ("w", 1)
        return [(each["count"], float(each["demand"]["cpu"])) for each in found.pieces]

    assert pieces() == [(3, 1), (1, 4)]
    assert kueue_imported(operator, workload(*PODS))["counts"]["unchanged"] == 1
    assert kueue_imported(operator, workload(pod_set("main", 4, 1)))["counts"]["changed"] == 1
    assert pieces() == [(4, 1)]
    assert kueue_imported(operator, workload(pod_set("main", 1, 1)))["counts"]["changed"] == 1
    assert pieces() == []


@pytest.mark.parametrize("policy", ["mrfs", "static"])
def test_pod_sets_are_single_tasks_where_the_pool_cannot_run_gangs(operator, policy):
    factories.pool("shared", policy=policy)
    assert kueue_imported(operator, workload(*PODS))["counts"]["added"] == 2
    found = Workload.objects.order_by("name")
    told = [(each.name, each.tasks, float(each.demand[0]), each.pieces) for each in found]
    assert told == [("w", 3, 1, []), ("w-2", 1, 4, [])]
    assert kueue_imported(operator, workload(*PODS))["counts"]["unchanged"] == 2


def test_only_gangs_of_two_kinds_are_single_tasks_where_one_kind_is_taken(operator):
    """A pool of divisible tasks counts the sum of pieces that are all alike."""
    factories.pool("shared", mode="divisible")
    alike = workload(pod_set("main", 4, 2), name="mpi")
    answer = kueue_imported(operator, workload(*PODS), alike)
    assert answer["counts"]["added"] == 3
    found = Workload.objects.order_by("name")
    told = [(each.name, each.tasks, float(each.demand[0]), len(each.pieces)) for each in found]
    assert told == [("mpi", 1, 8, 1), ("w", 3, 1, 0), ("w-2", 1, 4, 0)]
    assert kueue_imported(operator, workload(*PODS), alike)["counts"]["unchanged"] == 3


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
