"""Allocations as plain rows, to the byte as objects of the ORM would be written."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.allocation.models import Run
from allocator_service.core.documents import csv_bytes, json_bytes
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from api.v1.run_documents import allocation_columns, tenant_allocation_columns
from benchmarks.reads.objects import Writer
from policies import policies_available
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

CHOICES = [(info.name, mode) for info in policies_available() for mode in info.modes]
# Doubles whose texts differ between PostgreSQL and JSON, or that only all their digits distinguish.
DOUBLES = (
    "0", "1", "1e16", "123456789012345680", "1e21", "1e22", "1e300", "1e-5", "1e-7", "5e-324",
    "0.1", "0.30000000000000004", "2.2250738585072014e-308", "9007199254740993", "1.5",
)  # fmt: skip


def compare(run, caller, tenant):
    """Compare every page, format and sum of a run's allocations with objects of the ORM."""
    run = Run.objects.select_related("pool").get(pk=run.pk)
    resources = resources_of(run.pool)
    writer = Writer(run, resources, tenant)
    for rows, columns, query in (
        (writer.rows(), allocation_columns(resources), ""),
        (writer.sums(), tenant_allocation_columns(resources), "by=tenant&"),
    ):
        assert rows
        for path in (f"/api/v1/runs/{run.pk}/allocations/", "/api/v1/pools/lab/allocations/"):
            answer = caller.get(f"{path}?{query}limit=1000")
            assert answer.content == json_bytes({"results": rows, "next": None})
            answer = caller.get(f"{path}?{query}limit=1000&format=csv")
            assert answer.content == csv_bytes(rows, columns)
            answer = caller.get(f"{path}?{query}limit=1000&format=ndjson")
            assert answer.content == b"".join(json_bytes(row) + b"\n" for row in rows)
        following, paged = f"{path}?{query}limit=2", []
        while following:
            page = caller.get(following).json()
            paged += page["results"]
            following = page["next"]
        assert json_bytes(paged) == json_bytes(rows)


@pytest.mark.parametrize(("name", "mode"), CHOICES)
def test_decisions_of_every_policy_are_written_as_before(name, mode):
    lab = factories.pool(policy=name, mode=mode)
    ada, bob = factories.tenant("ada"), factories.tenant("bob")
    factories.server(lab, "high-memory", 2, 12, ada)
    factories.server(lab, "high-cpu", 12, 2, bob)
    factories.workload(lab, "analysis", 0.2, 1, ada, tasks=7)
    factories.workload(lab, "=cmd", 0.3, 0.7, ada, priority=1)
    factories.workload(lab, "simulation ü", 1, 0.2, bob)
    run = factories.decision(lab)
    as_ada = factories.client("tenant", ada)
    compare(run, factories.client(), None)
    compare(run, as_ada, ada)
    Pool.objects.filter(pk=lab.pk).update(transparent=True)
    compare(run, as_ada, ada)


def test_reasons_with_groups_and_guarantees_are_written_as_before():
    lab = factories.pool()
    ada, bob = factories.tenant("ada"), factories.tenant("bob")
    factories.server(lab, "rack", 12, 12, None)
    factories.group(lab, "ml")
    factories.member(lab, ada, "ml")
    factories.member(lab, bob, None)
    factories.limit(lab, "ml", {"cpu": 2})
    operator = factories.client()
    body = {"guarantee": [{"amount": {"cpu": 3}}]}
    assert operator.put("/api/v1/pools/lab/members/bob/", body, If_Match='"v1"').status_code == 200
    factories.workload(lab, "analysis", 1, 1, ada)
    factories.workload(lab, "simulation", 1, 1, bob)
    Pool.objects.filter(pk=lab.pk).update(transparent=True)
    run = factories.decision(lab)
    assert "floor" in operator.get("/api/v1/pools/lab/allocations/").content.decode()
    for caller, tenant in (
        (operator, None),
        *((factories.client("tenant", t), t) for t in (ada, bob)),
    ):
        compare(run, caller, tenant)


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_every_double_is_written_as_before(mode, falsifiable):
    lab, ada = factories.pool(mode=mode), factories.tenant("ada")
    factories.server(lab, "rack", 12, 12, None)
    for index in range(len(DOUBLES)):
        factories.workload(lab, f"w{index}", 0.1, 0.1, ada)
    run = factories.decision(lab)
    with connection.cursor() as cursor:
        for position, number in enumerate(DOUBLES):
            cursor.execute(
                "UPDATE run_allocation SET tasks = %(n)s::float8, dominant_share = %(n)s::float8,"
                " resources = ARRAY[%(n)s::float8, 1], weighted_share = %(n)s::float8,"
                " tenant_share = %(n)s::float8, level = %(n)s::float8, floor = %(n)s::float8,"
                " floor_met = %(n)s::float8 WHERE run_id = %(run)s AND position = %(position)s",
                {"n": number, "run": run.pk, "position": position},
            )
    compare(run, factories.client(), None)


def test_a_page_and_a_decision_cost_few_statements():
    lab, ada = factories.pool(), factories.tenant("ada")
    factories.server(lab, "rack", 12, 12, None)
    factories.workload(lab, "w", 1, 1, ada)
    factories.decision(lab)
    operator = factories.client()
    for path, most in (("decision/", 3), ("allocations/", 4)):
        operator.get(f"/api/v1/pools/lab/{path}")
        with CaptureQueriesContext(connection) as queries:
            assert operator.get(f"/api/v1/pools/lab/{path}").status_code == 200
        assert len(queries) <= most, [each["sql"] for each in queries]
