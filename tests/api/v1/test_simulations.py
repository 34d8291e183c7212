"""Simulations over HTTP: asked, computed by a worker's task, read by whoever asked."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.core.clock import utc_now
from tests import factories
from tests.api.v1.billing.conftest import plan, published
from tests.api.v1.test_conventions import code

pytestmark = pytest.mark.django_db(transaction=True)
LAB = "/api/v1/pools/lab/simulations/"


def simulated(client, body, path=LAB):
    asked = client.post(path, body)
    assert asked.status_code == 202
    assert asked.headers["Retry-After"]
    assert asked.json()["status"] == "pending"
    simulation_run(simulation_id=asked.json()["id"], clock=utc_now)
    return client.get(asked.headers["Location"]).json()


def test_no_change_equals_the_live_decision(world, operator):
    run = factories.decision(world.lab)
    result = simulated(operator, {})["result"]
    rows = operator.get(f"/api/v1/runs/{run.pk}/allocations/").json()["results"]
    for side in ("before", "after"):
        assert [row[side]["tasks"] for row in result["workloads"]] == [row["tasks"] for row in rows]


def test_a_weight_and_a_quantity_are_read_as_everywhere(world, operator):
    result = simulated(
        operator,
        {
            "members": [{"tenant": "ada", "weight": 2}],
            "servers": {"add": [{"name": "x", "capacity": {"cpu": "500m", "memory": "512Mi"}}]},
        },
    )
    assert result["status"] == "succeeded"
    assert result["result"]["tenants"][0]["after"]["share"] > 0.7


def test_a_tenant_simulates_its_own_demand_and_sees_its_own_rows(world, operator):
    body = {"workloads": {"submit": [{"name": "more", "demand": {"cpu": 1, "memory": 1}}]}}
    found = simulated(world.as_ada, body)
    assert {row["tenant"] for row in found["result"]["tenants"]} == {"ada"}
    assert {row["tenant"] for row in found["result"]["workloads"]} == {"ada"}
    assert found["result"]["summary"] is None
    path = f"/api/v1/simulations/{found['id']}/"
    random = "/api/v1/simulations/00000000-0000-7000-8000-000000000000/"
    foreign, unknown = world.as_bob.get(path), world.as_bob.get(random)
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json()["code"] == unknown.json()["code"]
    assert operator.get(path).json()["result"]["summary"] is not None
    assert len(world.as_bob.get(LAB).json()["results"]) == 0
    assert len(operator.get(LAB).json()["results"]) == 1


def test_a_tenant_may_not_simulate_what_it_may_not_change(world):
    assert code(world.as_ada.post(LAB, {"weights": "explicit"})) == (422, "simulation.scope")
    foreign = {"workloads": {"withdraw": [str(world.bob_workload.pk)]}}
    assert code(world.as_ada.post(LAB, foreign)) == (422, "workload.unknown")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"speed": 1}, (400, "field.unknown")),
        ({"workloads": {"submit": [{"name": "x"}]}}, (422, "field.required")),
        ({"weights": "heavy"}, (422, "field.choice")),
        ({"workloads": {"change": [{"id": "7"}]}}, (422, "field.type")),
    ],
)
def test_what_is_no_change_is_refused_at_once(world, operator, body, expected):
    status, found = code(operator.post(LAB, body))
    assert status == expected[0]
    assert found.split(".")[0] == expected[1].split(".")[0]


def test_a_change_that_cannot_be_fails_with_its_place(world, operator):
    found = simulated(operator, {"policy": {"name": "magic"}})
    assert (found["status"], found["error"]["code"]) == ("failed", "policy.unknown")
    assert found["error"]["errors"][0]["pointer"] == "/policy"


def test_a_tenant_reads_what_its_change_would_cost(world, operator):
    body = {"workloads": {"change": [{"id": str(world.ada_workload.pk), "tasks": 4}]}}
    assert simulated(world.as_ada, body)["result"]["cost"] is None  # the pool has no prices
    rates = [{"resource": "cpu", "own": "0.10", "shared": "0.10"}]
    published(operator, plan("2020-01-01T00:00:00Z", rates=rates))
    found = simulated(world.as_ada, body)
    cost = found["result"]["cost"]
    before, after = cost["before"], cost["after"]
    assert (cost["currency"], before["per_hour"], after["per_hour"]) == ("EUR", "0.20", "0.08")
    assert (before["over_30_days"], after["over_30_days_at_most"]) == ("144.00", "57.60")
    assert after["unpriced"] == ["memory"]
    assert cost["words"] == (
        "At today's prices: from 0.20 EUR to 0.08 EUR per hour, 57.60 EUR over 30 days for all your"
        " tasks in this pool. Credits, upfront prices and fixed costs are not included. The price plan"
        " has no price for memory."
    )
    rows = world.as_ada.get(LAB).json()["results"]
    assert [row["result"]["cost"] for row in rows] == [cost, cost]  # of both, at today's prices
    body["workloads"]["change"][0]["tasks"] = 5
    assert simulated(operator, body)["result"]["cost"] is None


def test_an_operator_reads_the_costs_of_each_tenant(world, operator):
    """Only ada has a commitment. Prices of the pool are read once for a page, whatever it lists."""
    rates = [{"resource": each, "own": "0.10", "shared": "0.20"} for each in ("cpu", "memory")]
    terms = {"tenant": "ada", "resource": "cpu", "quantity": "10", "price": "0.50"}
    terms |= {"from": "2020-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z"}
    published(operator, plan("2020-01-01T00:00:00Z", rates=rates, commitments=[terms]))
    own, queries = {}, []
    for slug, client in (("ada", world.as_ada), ("bob", world.as_bob)):
        own[slug] = simulated(client, {"workloads": {}})["result"]["cost"]
        operator.get(LAB)
        with CaptureQueriesContext(connection) as captured:
            rows = operator.get(LAB).json()["results"]
        queries.append(len(captured))
    assert "Commitments are included" in own["ada"]["words"]
    assert "commitments" not in own["bob"]["words"]
    assert [row["result"]["cost"] for row in rows] == [own["bob"], own["ada"]]
    assert queries[0] == queries[1]
