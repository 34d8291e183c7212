"""Placed tasks that keep their servers: fields, decisions, explanations and what-if over REST."""

from datetime import datetime

import pytest

from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import Resource
from allocator_service.workloads.models import Workload
from tests import factories
from tests.api.v1.test_simulations import simulated
from tests.pages.browser import browser_of

PATH = "/api/v1/pools/young"
WORK = {"name": "work", "demand": {"gpu": 1}}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool(operator):
    """Return a pool with two servers of 4 GPUs, where a has 8 tasks that keep their servers."""
    pool = factories.pool(
        "young", resources=[Resource("gpu", "")], mode="indivisible", policy="drfh", options={}
    )
    pool.tenants = {slug: factories.tenant(slug) for slug in ("a", "b")}
    for slug in pool.tenants:
        assert operator.put(f"{PATH}/members/{slug}/", {"weight": 1}).status_code == 201
    for name in ("n1", "n2"):
        server = {"name": name, "capacity": {"gpu": 4}}
        assert operator.post(f"{PATH}/servers/", server).status_code == 201
    assert patch(operator, f"{PATH}/", {"minimum_run": "PT30M"}).status_code == 200
    return pool


@pytest.fixture
def decided(pool, operator):
    """Return the decision in which b waits for the tasks of a."""
    submit(operator, "a")
    factories.decision(pool)
    submit(operator, "b")
    return factories.decision(pool)


def submit(client, tenant, **more):
    answer = client.post(f"{PATH}/workloads/", {**WORK, "tenant": tenant, **more})
    assert answer.status_code == 201, answer.json()
    return answer.json()


def patch(client, path, body):
    return client.patch(path, body, If_Match=client.get(path)["ETag"])


def tasks(run):
    return {row.tenant.slug: row.tasks for row in run.allocations.select_related("tenant")}


def test_a_workload_has_its_own_minimum_or_that_of_the_pool(pool, operator):
    made = submit(operator, "a", minimum_run="PT5M")
    assert made["minimum_run"] == "PT5M"
    path = f"{PATH}/workloads/{made['id']}/"
    assert patch(operator, path, {"tasks": 3}).json()["minimum_run"] == "PT5M"
    assert patch(operator, path, {"minimum_run": None}).json()["minimum_run"] is None
    assert operator.get(f"{PATH}/workloads/").json()["results"][0]["minimum_run"] is None


def test_a_tenant_may_only_shorten_the_minimum_of_the_pool(pool, operator):
    as_a = factories.client("tenant", pool.tenants["a"])
    long = as_a.post(f"{PATH}/workloads/", {**WORK, "minimum_run": "PT31M"})
    assert (long.status_code, long.json()["code"]) == (422, "workload.minimum_run")
    assert long.json()["errors"][0]["pointer"] == "/minimum_run"
    assert not Workload.objects.exists()
    made = submit(as_a, "a", minimum_run="PT30M")
    path = f"{PATH}/workloads/{made['id']}/"
    assert patch(as_a, path, {"minimum_run": "PT1H"}).json()["code"] == "workload.minimum_run"
    assert patch(operator, path, {"minimum_run": "PT1H"}).status_code == 200
    # What an operator set stays while the tenant changes something else.
    assert patch(as_a, path, {"tasks": 2}).json()["minimum_run"] == "PT1H"


def test_an_explanation_states_until_when_tasks_keep_their_servers(decided, operator):
    assert tasks(decided) == {"a": 8, "b": 0}
    path = f"/api/v1/runs/{decided.pk}/explanation"
    mine = operator.get(f"{path}/a/").json()
    (kept,) = mine["kept"]
    assert (kept["workload"], kept["tasks"]) == ("work", 8)
    assert datetime.fromisoformat(kept["until"]) > utc_now()
    assert "8 tasks of work keep their servers until" in mine["sentence"]
    other = operator.get(f"{path}/b/").json()
    assert other["kept"] == []
    assert "Tasks of others keep their servers until" in other["sentence"]


def test_the_page_of_a_tenant_that_waits_states_it_too(decided, pool):
    client = factories.client("tenant", pool.tenants["b"])
    page = browser_of(client).get("/my/pools/young/why/").content.decode()
    assert "Tasks of others keep their servers until" in page


def test_the_stored_input_states_what_is_kept_and_hides_names(decided, pool, operator):
    path = f"/api/v1/runs/{decided.pk}/input/"
    (kept,) = operator.get(path).json()["kept"]
    assert kept == {
        "tenant": "a", "workload": "work", "server": "n1", "offset": 0, "servers": 2, "tasks": 4,
    }  # fmt: skip
    assert patch(operator, f"{PATH}/", {"transparent": True}).status_code == 200
    (veiled,) = factories.client("tenant", pool.tenants["b"]).get(path).json()["kept"]
    assert (veiled["tenant"], veiled["workload"]) != ("a", "work")
    assert {**veiled, "tenant": "a", "workload": "work"} == kept
    assert operator.post(f"/api/v1/runs/{decided.pk}/verify/").json()["valid"] is True


def test_simulations_keep_what_the_pool_keeps(decided, operator):
    drained = operator.get(f"{PATH}/servers/?name=n1").json()["results"][0]["id"]
    body = {"servers": {"drain": [drained]}}
    result = simulated(operator, body, f"{PATH}/simulations/")["result"]
    after = {row["tenant"]: row["after"]["tasks"] for row in result["workloads"]}
    assert after == {"a": 4, "b": 0}
    body = {"policy": {"name": "drf", "mode": "indivisible"}}
    result = simulated(operator, body, f"{PATH}/simulations/")["result"]
    after = {row["tenant"]: row["after"]["tasks"] for row in result["workloads"]}
    assert after == {"a": 4, "b": 4}


def test_comparisons_leave_kept_tasks_out_where_a_policy_would_refuse_them(decided, operator):
    document = operator.get(f"/api/v1/runs/{decided.pk}/input/").json()
    body = {
        "policies": ["drf", {"name": "drfh", "mode": "indivisible"}, {"name": "drfh"}],
        "input": document,
    }
    columns = operator.post("/api/v1/comparisons/", body).json()["columns"]
    found = [[row["tasks"] for row in column["allocations"]] for column in columns]
    assert found == [[4, 4], [8, 0], [4, 4]]


def test_an_evaluation_takes_kept_tasks(operator):
    kept = [{"tenant": "a", "workload": "w", "server": "n", "servers": 2, "tasks": 3}]
    body = {
        "resources": ["gpu"], "servers": [{"name": "n", "capacity": {"gpu": 4}, "count": 2}],
        "tenants": [{"name": "a"}, {"name": "b"}],
        "workloads": [{"tenant": each, "name": "w", "demand": {"gpu": 1}} for each in "ab"],
        "policy": {"name": "drfh", "mode": "indivisible"}, "kept": kept,
    }  # fmt: skip
    answer = operator.post("/api/v1/evaluations/", body).json()
    assert [row["tasks"] for row in answer["allocations"]] == [6, 2]
    refused = operator.post("/api/v1/evaluations/", {**body, "policy": {"name": "drf"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "policy.no_kept_tasks")
    guaranteed = [{"name": "a"}, {"name": "b", "guarantee": [{"amount": {"gpu": 5}}]}]
    answer = operator.post("/api/v1/evaluations/", {**body, "tenants": guaranteed}).json()
    assert [row["tasks"] for row in answer["allocations"]] == [6, 2]
    assert answer["summary"]["guarantees_unmet"][0]["met"] == 0.4


def test_minima_come_from_csv_and_an_empty_cell_changes_nothing(pool, operator):
    def imported(*rows):
        content = "\n".join(["tenant,name,tasks,demand.gpu,minimum_run", *rows])
        return operator.post(f"{PATH}/imports/workloads/", {"content": content}).json()

    assert imported("a,work,3,1,PT10M", "b,work,3,1,")["counts"]["added"] == 2
    found = dict(Workload.objects.values_list("tenant__slug", "minimum_run"))
    assert found == {"a": "PT10M", "b": ""}
    assert imported("a,work,3,1,", "b,work,3,1,")["counts"]["unchanged"] == 2
    assert imported("a,work,4,1,")["counts"]["changed"] == 1
    assert Workload.objects.get(tenant__slug="a").minimum_run == "PT10M"
    assert imported("a,work,4,1,PT20M")["counts"]["changed"] == 1
    assert Workload.objects.get(tenant__slug="a").minimum_run == "PT20M"
    refused = imported("a,work,4,1,soon")["errors"][0]
    assert refused["code"] == "duration.syntax"
