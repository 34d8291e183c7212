"""Every policy that is offered decides in a pool, is verified from what is stored, and explained."""

import pytest

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.core.clock import utc_now
from allocator_service.pools.recompute import decision_request
from policies import policies_available
from policies.verification import handed_out
from tests.factories import client, decision, pool, server, tenant, workload

pytestmark = pytest.mark.django_db(transaction=True)

CHOICES = [(info.name, mode) for info in policies_available() for mode in info.modes]


@pytest.mark.parametrize(("name", "mode"), CHOICES)
def test_it_decides_is_proven_and_explained(name, mode):
    lab = pool(policy=name, mode=mode)
    ada, bob = tenant("ada"), tenant("bob")
    server(lab, "high-memory", 2, 12, ada)
    server(lab, "high-cpu", 12, 2, bob)
    workload(lab, "analysis", 0.2, 1, ada, tasks=7)
    workload(lab, "simulation", 1, 0.2, bob)
    run = decision(lab)
    verification = run_verify(run)
    assert verification["valid"] is True, verification
    shown = client().get("/api/v1/pools/lab/allocations/").json()["results"]
    assert sum(row["tasks"] for row in shown) > 0
    for slug in ("ada", "bob"):
        answer = client().get(f"/api/v1/runs/{run.pk}/explanation/{slug}/")
        assert answer.status_code == 200, answer.content
        assert answer.json()["sentence"]


@pytest.mark.parametrize("name", ["drfh", "h-mrf"])
def test_more_tasks_than_are_handed_out_again_are_too_large_to_verify(name, monkeypatch):
    lab = pool(policy=name, mode="indivisible")
    ada = tenant("ada")
    server(lab, "rack", 12, 12, ada)
    workload(lab, "analysis", 1, 1, ada, tasks=7)
    run = decision(lab)
    monkeypatch.setattr(handed_out, "MOST_REPLAYED", 6)
    answer = client().post(f"/api/v1/runs/{run.pk}/verify/")
    assert (answer.status_code, answer.json()["code"]) == (413, "problem.too_large")
    assert "7 tasks" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["drfh", "h-mrf"])
def test_a_tenant_of_an_open_pool_reads_the_input_without_a_name_of_the_others(name):
    """What runs now and what is remembered is in the input too, and replays to the same answer."""
    lab = pool(policy=name, mode="indivisible", transparent=True)
    ada, bob = tenant("ada"), tenant("bob")
    server(lab, "secret-rack", 12, 12, bob)
    workload(lab, "analysis", 1, 1, ada, tasks=3)
    workload(lab, "hidden-project", 1, 2, bob, tasks=2)
    decision(lab)
    decision_request(lab, now=utc_now())
    run = decision(lab)
    answer = client("tenant", ada).get(f"/api/v1/runs/{run.pk}/input/")
    assert answer.status_code == 200
    text = answer.content.decode()
    assert not [word for word in ("bob", "secret-rack", "hidden-project") if word in text]
    document = answer.json()
    assert ("running" in document, "history" in document) == (True, name == "h-mrf")
    replayed = client().post("/api/v1/evaluations/", document).json()
    assert [row["tasks"] for row in replayed["allocations"]] == [3, 2]
    assert replayed["summary"]["moved_tasks"] == 0
