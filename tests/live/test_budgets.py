"""A budget on the real clock, by the service's own processes: exhausted and opened by itself."""

import time
from datetime import datetime
from decimal import Decimal

POOL, CORES, INTERVAL = "/api/v1/pools/clock-budget", 4, 2
# 36 core-seconds last nine seconds.
HOURS, PATIENCE = "0.01", 60


def test_a_group_stops_when_its_budget_is_exhausted_and_a_correction_opens_it(operator, decided):
    operator.post("/api/v1/tenants/", {"slug": "spender", "name": "Spender"})
    resources = [{"name": "cpu", "unit": "core"}]
    body = {"slug": "clock-budget", "name": "Budget", "resources": resources}
    body |= {
        "policy": {"name": "drf"},
        "weights": "explicit",
        "decision_interval": f"PT{INTERVAL}S",
    }
    operator.post("/api/v1/pools/", body)
    operator.post(f"{POOL}/servers/", {"name": "s", "capacity": {"cpu": CORES}})
    operator.post(f"{POOL}/groups/", {"slug": "ml", "name": "ML"})
    operator.request("PUT", f"{POOL}/members/spender/", {"weight": 1, "group": "ml"})
    budget = {"group": "ml", "resource": "cpu", "amount": HOURS, "per": "P1Y", "then": "stop"}
    assert operator.post(f"{POOL}/budgets/", budget).status == 201
    workload = {"tenant": "spender", "name": "work", "demand": {"cpu": 1}}
    written = operator.post(f"{POOL}/workloads/", workload)
    first = decided("clock-budget", int(written.headers["Pool-Generation"]))["run"]

    assert round(allocation(operator)["tasks"], 9) == CORES
    stopped = eventually(operator, lambda row: row["tasks"] == 0)
    assert stopped["limited_by"] == "limit:group:ml"
    lasted = instant(operator.get(f"{POOL}/decision/").body["run"]["effective_from"])
    seconds = (lasted - instant(first["effective_from"])).total_seconds()
    # To the end of the interval that exhausts it, and what a busy machine takes for a decision.
    assert 9 <= seconds <= 9 + INTERVAL + 3

    (balance,) = metered(operator, lasted)
    rows = operator.pages("/api/v1/ledger-entries/?pool=clock-budget&kind=usage")
    spent = sum(Decimal(row["amount"]) for row in rows)
    assert abs(Decimal(balance["spent"]) * 3600 - spent) < Decimal("1e-8")
    assert balance["exhausted"]

    for row in rows:
        path = f"/api/v1/ledger-entries/{row['id']}/corrections/"
        corrected = operator.post(path, {"quantity": "0", "reason": "it did not run"})
        assert corrected.status == 201, corrected.body
    eventually(operator, lambda row: round(row["tasks"], 9) == CORES)


def allocation(operator):
    (row,) = operator.pages(f"{POOL}/allocations/")
    return row


def eventually(operator, holds):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        row = allocation(operator)
        if holds(row):
            return row
        time.sleep(0.2)
    raise AssertionError(f"the allocation stays {row}")


def metered(operator, until):
    """The balances once the ledger has everything before an instant."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        rows = operator.pages("/api/v1/ledger-entries/?pool=clock-budget&kind=usage")
        if rows and max(instant(row["end"]) for row in rows) >= until:
            return operator.get(f"{POOL}/entitlements/?group=ml").body["group"]["budgets"]
        time.sleep(0.2)
    raise AssertionError(f"use until {until} is not metered")


def instant(text):
    return datetime.fromisoformat(text)
