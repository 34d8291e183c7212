"""Usage, statements and budgets of a pool of two clusters, by cluster."""

import threading
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection

from allocator_service.billing.models import Closing, Statement
from allocator_service.core.clock import utc_now
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.models import Entry, Seal, UsageSource
from allocator_service.pools.models import Pool
from tests import factories
from tests.api.v1.billing.conftest import clock as clock
from tests.api.v1.billing.conftest import closed, plan, published
from tests.api.v1.test_group_reports import belonging
from tests.integration.billing.conftest import at, seal

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/api/v1/pools/lab"
UTILIZATION = f"{PATH}/reports/utilization/"
HOUR = timedelta(hours=1)


@pytest.fixture
def lab(clock, operator):
    """East has 8 CPUs, west 4 and the cluster of the pool 2, from 1 March on. It is 2 April."""
    clock(at(1))
    pool = factories.pool(metering="reported", timezone="Europe/Berlin")
    pool.tenants = {slug: factories.tenant(slug) for slug in ("ada", "bob")}
    for name, cluster, cpu in (("e", "east", 8), ("w", "west", 4), ("l", None, 2)):
        labels = {"cluster": cluster} if cluster else {}
        body = {"name": name, "capacity": {"cpu": cpu}, "labels": labels}
        assert operator.post(f"{PATH}/servers/", body).status_code == 201
    for slug in ("ada", "bob"):
        assert operator.put(f"{PATH}/members/{slug}/", {}).status_code in (200, 201)
    published(operator, plan())
    clock(at(2, 4))
    return pool


def agent(cluster):
    return factories.client("agent", pool="lab", cluster=cluster)


def posted(client, tenant, cpus, start, hours, source):
    """Post use of CPUs, as the agent of a cluster does for a job that has ended."""
    end = start + hours * HOUR
    row = f"{start:%d%H}{tenant},{tenant},{start.isoformat()},{end.isoformat()},{cpus},{source}"
    content = f"id,tenant,start,end,resources.cpu,source\n{row}\n"
    answer = client.post(f"{PATH}/imports/usage/", {"content": content})
    assert answer.status_code == 200, answer.content


@pytest.fixture
def used(lab, operator):
    """Ada has 80 CPU-hours in east, 6 in west and 3 of which no cluster is known, bob 10 in west.

    One job of ada in east was corrected by -10, and one in west began in February.
    """
    posted(agent("east"), "ada", 9, at(5), 10, "slurm-east")
    posted(agent("west"), "ada", 2, at(1) - HOUR, 4, "slurm-west")
    posted(agent("west"), "bob", 5, at(7), 2, "slurm-west")
    posted(operator, "ada", 3, at(8), 1, "by hand")
    seal()
    entry = Entry.objects.get(source="slurm-east")
    path = f"/api/v1/ledger-entries/{entry.pk}/corrections/"
    assert operator.post(path, {"quantity": "8", "reason": "measured twice"}).status_code == 201
    seal()
    return lab


def hours(amounts, name="cpu"):
    return Decimal(amounts.get(name, 0)) / 3600


def march(client, **query):
    query |= {"from": at(1).isoformat(), "to": at(1, 4).isoformat()}
    parts = "&".join(f"{name}={value}".replace("+", "%2B") for name, value in query.items())
    answer = client.get(f"{UTILIZATION}?{parts}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def by_cluster(document):
    return {row["cluster"]: hours(row["total"]["used"]) for row in document["clusters"]}


def adds_up(document):
    """Return whether capacity and use of the clusters are those of the pool in every interval."""
    pieces = [document["total"], *document["series"]]
    rows = [[row["total"], *row["series"]] for row in document["clusters"]]
    return all(
        sum(Decimal(row[at][name][resource]) for row in rows) == Decimal(of_pool[name][resource])
        for at, of_pool in enumerate(pieces)
        for name in ("capacity", "used", "idle")
        for resource in ("cpu", "memory")
    )


def test_utilization_has_each_cluster_and_they_add_up(used, operator):
    document = march(operator, step="P7D")
    assert by_cluster(document) == {"east": 80, "lab": 0, "west": 16, None: 3}
    assert adds_up(document)
    east, _, _, unknown = document["clusters"]
    assert hours(east["total"]["capacity"]) == 743 * 8  # the clock moves one hour ahead
    assert east["total"]["utilization"]["cpu"] == pytest.approx(80 / (743 * 8))
    assert unknown["total"]["utilization"]["cpu"] is None
    assert unknown["total"]["reason"] == "no_capacity"
    assert [hours(piece["used"]) for piece in east["series"]] == [80, 0, 0, 0, 0]
    assert document["definitions"]["clusters"].startswith("Use by cluster:")
    of_bob = march(operator, tenant="bob")
    assert by_cluster(of_bob) == {"east": 0, "lab": 0, "west": 10}
    assert adds_up(of_bob)


def test_utilization_of_a_group_has_each_cluster(used, operator):
    group = factories.group(used, "science")
    group.terms.update(start=at(1) - HOUR)
    belonging(used.tenants["ada"], (group, at(1) - HOUR))
    document = march(operator, group="science")
    assert by_cluster(document) == {"east": 80, "lab": 0, "west": 6, None: 3}
    assert adds_up(document)


def test_a_freed_source_has_no_cluster_until_the_next_claims_it(used, operator):
    UsageSource.objects.filter(source="slurm-west").update(cluster="")
    assert by_cluster(march(operator)) == {"east": 80, "lab": 0, "west": 0, None: 19}


def test_metered_use_is_of_the_cluster_that_its_workload_selects(operator):
    pool = factories.pool()
    pool.tenants = {"ada": factories.tenant("ada")}
    for name, cluster in (("e", "east"), ("w", "west")):
        body = {"name": name, "capacity": {"cpu": 4}, "labels": {"cluster": cluster}}
        assert operator.post(f"{PATH}/servers/", body).status_code == 201
    start = utc_now().replace(minute=0, second=0, microsecond=0) - 5 * HOUR
    selectors = {"a": "east", "b": ["west"], "c": ["east", "west"], "d": None}
    for number, (name, cluster) in enumerate(selectors.items(), start=1):
        selector = {"cluster": cluster} if cluster else {}
        body = {"tenant": "ada", "name": name, "demand": {"cpu": 1}, "server_selector": selector}
        made = operator.post(f"{PATH}/workloads/", body).json()
        metered(pool, made["id"], number, start)
    seal()
    query = f"from={start:%Y-%m-%dT%H:%M:%SZ}"
    document = operator.get(f"{UTILIZATION}?{query}").json()
    assert by_cluster(document) == {"east": 1, "west": 2, None: 7}
    assert adds_up(document)


def metered(pool, workload, quantity, start):
    """Append an entry as metering of a decision does."""
    row = {
        "pool_id": pool.pk, "tenant_id": pool.tenants["ada"].pk, "server_owner_id": None,
        "workload_id": workload, "resource": "cpu", "unit": "core", "quantity": Decimal(quantity),
        "start": start, "end": start + HOUR, "kind": "usage", "corrects": None, "reason": "",
        "source": "decisions", "event_id": None, "run_id": workload, "recorded_at": start,
    }  # fmt: skip
    entries_append([row])


def test_a_pool_without_clusters_states_none(clock, operator):
    clock(at(1))
    factories.server(factories.pool(metering="reported", timezone="Europe/Berlin"), "n", 4, 4, None)
    factories.tenant("ada")
    assert operator.put(f"{PATH}/members/ada/", {}).status_code in (200, 201)
    published(operator, plan())
    clock(at(2, 4))
    posted(operator, "ada", 3, at(8), 1, "by hand")
    seal()
    report = march(operator)
    assert "clusters" not in report
    assert "clusters" not in report["definitions"]
    history = degrees(operator)
    assert "clusters" not in history["definitions"]
    assert ["clusters" in row for row in history["tenants"]] == [False]
    factories.group(Pool.objects.get(slug="lab"), "science")
    group = degrees(operator, group="science")["group"]
    assert "clusters" not in group
    assert "clusters" not in operator.get(f"{PATH}/statements/2027-03/ada/").json()
    closed(operator)
    assert "clusters" not in operator.get(f"{PATH}/statements/2027-03/ada/").json()
    body = {"tenant": "ada", "resource": "cpu", "amount": "100"}
    budget = operator.post(f"{PATH}/budgets/", body).json()
    found = operator.get(f"{PATH}/budgets/{budget['id']}/clusters/").json()
    assert (found["clusters"], found["from"] is None) == ([], False)


def test_a_statement_has_the_use_of_each_cluster_and_keeps_it(used, operator):
    path = f"{PATH}/statements/2027-03/ada/"
    expected = [
        {"cluster": "east", "hours": {"cpu": "80"}},
        {"cluster": "west", "hours": {"cpu": "6"}},
        {"cluster": None, "hours": {"cpu": "3"}},
    ]
    assert operator.get(path).json()["clusters"] == expected
    closed(operator)
    stored = bytes(Statement.objects.get(tenant__slug="ada").document)
    # Neither late usage nor a source that changes its cluster changes what is stored.
    posted(agent("east"), "ada", 1, at(20), 1, "slurm-east")
    UsageSource.objects.all().update(cluster="west")
    seal()
    shown = operator.get(path)
    assert shown.json()["clusters"] == expected
    assert bytes(Statement.objects.get(tenant__slug="ada").document) == stored
    assert factories.client("tenant", used.tenants["ada"]).get(path).json()["clusters"] == expected
    page = operator.get(f"{path}?format=html").content.decode()
    assert "Use by cluster" in page
    assert '<data value="80">80</data> unit-hours of cpu' in page  # no line names the unit
    assert operator.get(f"{path}?format=pdf").status_code == 200
    checks = operator.post(f"{PATH}/months/2027-03/verify/").json()
    assert checks["valid"], checks


def test_a_budget_has_what_is_spent_on_each_cluster(used, operator, clock):
    clock(at(28))
    group = factories.group(used, "science")
    group.terms.update(start=at(1) - HOUR)
    belonging(used.tenants["bob"], (None, at(1) - HOUR), (group, at(7, hour=1)))
    for node, expected in (
        ({"tenant": "ada"}, {"east": "80", "west": "6", None: "3"}),
        ({"group": "science"}, {"west": "5"}),
    ):
        body = {**node, "resource": "cpu", "amount": "1000"}
        budget = operator.post(f"{PATH}/budgets/", body).json()
        found = operator.get(f"{PATH}/budgets/{budget['id']}/clusters/").json()
        assert {row["cluster"]: row["spent"] for row in found["clusters"]} == expected
    assert (found["from"], found["to"]) == ("2027-02-28T23:00:00Z", "2027-03-31T22:00:00Z")
    money = operator.post(f"{PATH}/budgets/", {"tenant": "ada", "amount": "10"}).json()
    assert operator.get(f"{PATH}/budgets/{money['id']}/clusters/").json()["clusters"] == []
    bob = factories.client("tenant", used.tenants["bob"])
    assert bob.get(f"{PATH}/budgets/{money['id']}/clusters/").status_code == 404


def test_a_groups_statement_adds_up_the_use_of_each_cluster(used, operator):
    science = factories.group(used, "science")
    science.terms.update(start=at(1) - HOUR)
    for slug in ("ada", "bob"):
        belonging(used.tenants[slug], (science, at(1) - HOUR))
    path = f"{PATH}/groups/science/statements/2027-03/"
    expected = [
        {"cluster": "east", "hours": {"cpu": "80"}},
        {"cluster": "west", "hours": {"cpu": "16"}},
        {"cluster": None, "hours": {"cpu": "3"}},
    ]
    assert operator.get(path).json()["clusters"] == expected
    closed(operator)
    UsageSource.objects.all().update(cluster="west")
    assert operator.get(path).json()["clusters"] == expected
    page = operator.get(f"{path}?format=html").content.decode()
    assert '<data value="16">16</data> unit-hours of cpu' in page
    assert page.count("Use by cluster") == 1
    assert operator.get(f"{path}?format=pdf").status_code == 200


def test_a_month_that_was_closed_without_clusters_has_none_on_a_groups_statement(clock, operator):
    clock(at(1))
    pool = factories.pool(metering="reported", timezone="Europe/Berlin")
    ada = factories.tenant("ada")
    science = factories.group(pool, "science")
    assert operator.put(f"{PATH}/members/ada/", {"group": "science"}).status_code in (200, 201)
    published(operator, plan())
    clock(at(2, 4))
    posted(operator, "ada", 3, at(8), 1, "by hand")
    seal()
    closed(operator)
    body = {"name": "e", "capacity": {"cpu": 8}, "labels": {"cluster": "east"}}
    assert operator.post(f"{PATH}/servers/", body).status_code == 201
    path = f"{PATH}/groups/{science.slug}/statements"
    document = operator.get(f"{path}/2027-03/").json()
    assert [row["tenant"] for row in document["tenants"]] == [ada.slug]
    assert "clusters" not in document
    assert operator.get(f"{path}/2027-04/").json()["clusters"] == []


DEGREE = f"{PATH}/reports/sharing-degree/"


def degrees(client, **query):
    query |= {"from": at(1).isoformat(), "to": at(1, 4).isoformat()}
    parts = "&".join(f"{name}={value}".replace("+", "%2B") for name, value in query.items())
    answer = client.get(f"{DEGREE}?{parts}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def of_clusters(row):
    return {each["cluster"]: hours(each["used"]) for each in row["clusters"]}


def adds_up_to_used(row):
    sums = sum(Decimal(each["used"]["cpu"]) for each in row["clusters"])
    return sums == Decimal(row["used"]["cpu"])


def test_the_long_term_history_of_tenants_has_each_cluster(used, operator):
    document = degrees(operator, step="P7D")
    rows = {row["tenant"]: row for row in document["tenants"]}
    assert of_clusters(rows["ada"]) == {"east": 80, "west": 6, None: 3}
    assert of_clusters(rows["bob"]) == {"west": 10}
    assert all(map(adds_up_to_used, rows.values()))
    assert document["definitions"]["clusters"].startswith("Use by cluster:")
    (ada,) = degrees(factories.client("tenant", used.tenants["ada"]))["tenants"]
    assert ada["clusters"] == rows["ada"]["clusters"]


def test_the_long_term_history_of_a_group_has_each_cluster(used, operator):
    science, optics = factories.group(used, "science"), factories.group(used, "optics", "science")
    for group in (science, optics):
        group.terms.update(start=at(1) - HOUR)
    belonging(used.tenants["ada"], (optics, at(1) - HOUR))
    belonging(used.tenants["bob"], (None, at(1) - HOUR), (science, at(7, hour=1)))
    document = degrees(operator, group="science")
    assert of_clusters(document["group"]) == {"east": 80, "west": 11, None: 3}
    (below,), (bob,) = document["groups"], document["tenants"]
    assert of_clusters(below) == {"east": 80, "west": 6, None: 3}
    assert of_clusters(bob) == {"west": 5}
    assert all(map(adds_up_to_used, (document["group"], below, bob)))


def test_late_usage_is_numbered_while_a_closing_reads_the_clusters(used, operator):
    """It counts for the next month, and is not in the clusters of the closed one."""
    late = []

    def post():
        posted(agent("east"), "ada", 1, at(20), 1, "slurm-east")
        seal()
        connection.close()

    def meanwhile(execute, sql, params, many, context):
        if "ledger_usage_source" in sql and not late:
            late.append(threading.Thread(target=post))
            late[0].start()
            late[0].join(timeout=20)
            numbered.append(not late[0].is_alive())
        return execute(sql, params, many, context)

    numbered = []
    with connection.execute_wrapper(meanwhile):
        closed(operator)
    late[0].join()
    assert numbered == [True]
    document = operator.get(f"{PATH}/statements/2027-03/ada/").json()
    assert {row["cluster"]: row["hours"]["cpu"] for row in document["clusters"]} == {
        "east": "80", "west": "6", None: "3",
    }  # fmt: skip
    assert by_cluster(march(operator))["east"] == 81
    assert Closing.objects.get().sequence < Seal.objects.latest("sequence").sequence
