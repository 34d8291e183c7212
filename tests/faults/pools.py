"""The pools of a storm: two are changed, two remember, one takes reports, one is billed."""

from datetime import UTC, datetime
from typing import Any

from launcher.client import Client
from tests.faults.billing import BILLED, MONTHS, TENANTS, first_usage, months_before
from tests.faults.long_term import Remembering

CHANGED = ("changed-a", "changed-b")
REPORTED = "storm-reported"
REMEMBERING = {
    "storm-steps": Remembering(2, "sliding", 15),
    "storm-days": Remembering(5, "tumbling", 60),
}


def pools_open(client: Client) -> None:
    """Open them, with servers and tenants, and bill the last months."""
    chosen: dict[str, dict[str, Any]] = {
        **{pool: {"policy": {"name": "drfh"}} for pool in CHANGED},
        **{pool: remembering.settings() for pool, remembering in REMEMBERING.items()},
    }
    for pool, settings in chosen.items():
        client.post("/api/v1/pools/", {
            "slug": pool, "name": pool, "weights": "explicit", **settings,
            "resources": [{"name": "cpu"}, {"name": "memory"}],
        })  # fmt: skip
        client.post(f"/api/v1/pools/{pool}/servers/", {
            "name": "first", "count": 20, "capacity": {"cpu": 16, "memory": 64},
        })  # fmt: skip
        for number in (1, 2):
            slug = f"{pool}-{number}"
            client.post("/api/v1/tenants/", {"slug": slug, "name": slug})
            client.request("PUT", f"/api/v1/pools/{pool}/members/{slug}/", {"weight": 1})
    for pool, window in (
        (REPORTED, {"window": {"kind": "sliding", "length": "PT11H"}}),
        (BILLED, {}),
    ):
        client.post("/api/v1/pools/", {
            "slug": pool, "name": pool, "policy": {"name": "drf"}, "metering": "reported", **window,
            "resources": [{"name": "cpu"}, {"name": "memory"}],
        })  # fmt: skip
    for slug in (*TENANTS, *(f"{REPORTED}-{number}" for number in (1, 2))):
        client.post("/api/v1/tenants/", {"slug": slug, "name": slug})
    rates = [{"resource": "cpu", "pool": "0.37"}, {"resource": "memory", "pool": "0.041"}]
    months = months_before(datetime.now(UTC), MONTHS)
    plan = {"pool": BILLED, "name": "2026", "from": months[0].isoformat(), "rates": rates}
    made = client.post("/api/v1/price-plans/", plan).body
    client.post(f"/api/v1/price-plans/{made['id']}/publish/", {})
    client.post(f"/api/v1/pools/{BILLED}/usage/?non_members=accept", first_usage(months))
