"""Rows in the lists of the admin that fill only by money, schedulers and people.

Names are as long as they come, and amounts have many digits.
"""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from launcher.client import Client
from tests.live.conftest import decision_of
from tests.live.service import LiveService

LISTS = {
    "/admin/billing/statement/", "/admin/billing/posting/", "/admin/billing/closing/",
    "/admin/billing/creditnote/", "/admin/billing/rerating/", "/admin/billing/budget/",
    "/admin/billing/unitgrant/", "/admin/enforcement/agent/", "/admin/enforcement/report/",
    "/admin/enforcement/drift/", "/admin/enforcement/blockage/", "/admin/tenants/person/",
    "/admin/tenants/groupgrant/", "/admin/pools/group/", "/admin/core/poollimit/",
}  # fmt: skip
PATIENCE = 60


def fill(service: LiveService, operator: Client, tenant: str, other: str) -> str:
    """Make a pool in which a tenant of this slug has been billed, and return the pool's slug.

    `other` is the slug of a pool without an agent, in which the service looks for no blockages.
    """
    pool = f"{tenant}-money"
    path = f"/api/v1/pools/{pool}/"
    this = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    last = (this - timedelta(days=1)).replace(day=1)
    before = (last - timedelta(days=1)).replace(day=1)
    _made(operator, "POST", "/api/v1/pools/", {
        "slug": pool, "name": tenant.replace("-", " ").title(), "policy": {"name": "drfh"},
        "metering": "reported", "weights": "explicit", "transparent": True,
        "resources": [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}],
    })  # fmt: skip
    _made(operator, "POST", f"{path}groups/", {"slug": tenant, "name": tenant})
    _made(operator, "PUT", f"{path}members/{tenant}/", {"group": tenant})
    server = {"name": f"{tenant}-server", "contributed_by": tenant}
    _made(operator, "POST", f"{path}servers/", {**server, "capacity": {"cpu": 64, "memory": 512}})
    workload = {"tenant": tenant, "name": "training", "demand": {"cpu": 4, "memory": 16}}
    _made(operator, "POST", f"{path}workloads/", workload)
    _bill(operator, pool, tenant, [before, last])
    decision = decision_of(operator, pool, operator.get(path).body["generation"])
    _report(operator, pool, tenant, decision["run"]["id"])
    with psycopg.connect(service.environment["DATABASE_URL"]) as connection:
        _admit(connection, pool, tenant)
        _grant(connection, tenant)
        _differ(connection, other, tenant)
    return pool


def _bill(operator: Client, pool: str, tenant: str, months: list[datetime]) -> None:
    path = f"/api/v1/pools/{pool}/"
    rates = [
        {
            "resource": "cpu",
            "own": "0.010000000001",
            "pool": "0.03",
            "shared": "0.04",
            "outside": "0.12",
        },
        {"resource": "memory", "own": "0.001", "pool": "0.001234567891"},
    ]
    plan: dict[str, Any] = {"pool": pool, "name": tenant, "from": months[0].isoformat()}
    first = _made(operator, "POST", "/api/v1/price-plans/", {**plan, "rates": rates})
    _made(operator, "POST", f"/api/v1/price-plans/{first['id']}/publish/", {})
    for number, month in enumerate(months):
        used = {"source": tenant, "id": f"{number}", "tenant": tenant}
        period = {"start": month.isoformat(), "end": (month + timedelta(days=9)).isoformat()}
        amounts = {"cpu": "987654.321012345678", "memory": "9876543210.123456789"}
        _made(operator, "POST", f"{path}usage/", [{**used, **period, "resources": amounts}])
    for month in months:
        _close(operator, pool, month)
    note = {"tenant": tenant, "amount": "12345678.90", "reason": f"The service of {tenant} failed."}
    _made(operator, "POST", f"{path}credit-notes/", note)
    rates[0]["pool"] = "0.029999999999"
    end = (months[-1] + timedelta(days=32)).replace(day=1).isoformat()
    anew = _made(operator, "POST", "/api/v1/price-plans/", {**plan, "to": end, "rates": rates})
    rerating = {"plan": anew["id"], "reason": f"The rate of {tenant} was wrong."}
    _made(operator, "POST", f"{path}reratings/", rerating)
    budget = {"tenant": tenant, "resource": "cpu", "amount": "987654321.012345678901", "per": "P1Y"}
    _made(operator, "POST", f"{path}budgets/", {**budget, "then": "stop"})
    grant = {"tenant": tenant, "units": "987654321.012345678901", "reason": f"For {tenant}."}
    _made(operator, "POST", f"{path}service-units/", grant)


def _close(operator: Client, pool: str, month: datetime) -> None:
    deadline = time.monotonic() + PATIENCE
    path = f"/api/v1/pools/{pool}/statements/"
    body = {"month": f"{month:%Y-%m}"}
    while (answer := operator.request("POST", path, body)).status not in (200, 201):
        assert answer.body["code"] == "statement.entries_pending", answer
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _report(operator: Client, pool: str, tenant: str, run: str) -> None:
    row = {
        "tenant": tenant, "applied": {"cpu": 8, "memory": 16}, "used": {"cpu": 8, "memory": 16},
        "running_tasks": 2, "pending_tasks": 3, "pending_reason": "AssocGrpCpuLimit", "problems": [],
    }  # fmt: skip
    report = {
        "agent": f"slurm-{tenant}"[:63].rstrip("-"), "target": "slurm", "run": run, "interval": "PT15M",
        "reported_at": datetime.now(UTC).isoformat(), "tenants": [row], "problems": [],
    }  # fmt: skip
    _made(operator, "PUT", f"/api/v1/pools/{pool}/enforcement/", report)


def _admit(connection: psycopg.Connection[Any], pool: str, tenant: str) -> None:
    """Store a person that signed in, and a limit of this person to the pool."""
    name = tenant.replace("-", " ").title()
    (user,) = connection.execute(
        "INSERT INTO auth_user (password, is_superuser, username, first_name, last_name, email,"
        " is_staff, is_active, date_joined) VALUES ('!', false, %s, '', '', '', true, true, now())"
        " RETURNING id",
        [f"https://sign-in.{tenant}.example.org#{tenant}"[:150]],
    ).fetchone() or (0,)
    connection.execute(
        "INSERT INTO person (id, user_id, issuer, subject, name, groups, created_at,"
        " last_signed_in_at) VALUES (gen_random_uuid(), %s, %s, %s, %s, %s, now(), now())",
        [user, f"https://sign-in.{tenant}.example.org", tenant, name, [f"/{tenant}/heads", tenant]],
    )
    connection.execute(
        "INSERT INTO core_pool_limit (user_id, pools) VALUES (%s, %s)", [user, [pool]]
    )


def _grant(connection: psycopg.Connection[Any], tenant: str) -> None:
    connection.execute(
        'INSERT INTO group_grant ("group", tenant_id, pool, access, granted_at)'
        " SELECT %s, id, '', 'manage', now() FROM tenant WHERE slug = %s",
        [f"/{tenant}/{tenant}/heads", tenant],
    )


def _differ(connection: psycopg.Connection[Any], pool: str, tenant: str) -> None:
    """Store what the service finds if a scheduler differs for some minutes."""
    payload = json.dumps({"reason": "AssocGrpCpuLimit", "used": {"cpu": "8"}})
    for table in ("enforcement_drift", "enforcement_blockage"):
        connection.execute(
            f"INSERT INTO {table} (pool_id, tenant_id, since, told_at, payload)"
            " SELECT pool.id, tenant.id, now(), now(), %s FROM pool, tenant"
            " WHERE pool.slug = %s AND tenant.slug = %s ON CONFLICT DO NOTHING",
            [payload, pool, tenant],
        )


def _made(operator: Client, method: str, path: str, body: object) -> Any:
    answer = operator.request(method, path, body)
    assert answer.status < 300, (path, answer.body)
    return answer.body
