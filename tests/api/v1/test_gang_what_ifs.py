"""What-ifs, previews of drains and remedies of tasks of several pieces."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from allocator_service.pools.clusters import CLUSTER_LABEL
from allocator_service.pools.models import Server
from allocator_service.tenants.models import Tenant
from tests import factories
from tests.api.v1.gangs import MPI, PATH, SOLO, patch, pool_of, submit, tasks
from tests.api.v1.test_simulations import simulated

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool(operator):
    return pool_of(operator, "indivisible")


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
