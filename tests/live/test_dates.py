"""Amounts with dates on the real clock: at each date the pool decides again, without a request."""

import time
from datetime import UTC, datetime, timedelta

import pytest

POOL, CORES = "/api/v1/pools/dated", 8
LIMITED, GUARANTEED = 2, 6
# From an instant to the decision that counts from it.
PROMPT_SECONDS = 2.0
# From the last request to the first date, and from each date to the next.
APART = timedelta(seconds=6)


@pytest.fixture
def pool(operator):
    """Eight cores that `one` and `other` want, and no interval at which it decides by itself."""
    resources = [{"name": "cpu", "unit": "core"}]
    body = {"slug": "dated", "name": "Dated", "resources": resources, "policy": {"name": "drf"}}
    operator.post("/api/v1/pools/", body | {"weights": "explicit"})
    operator.post(f"{POOL}/servers/", {"name": "s", "capacity": {"cpu": CORES}})
    for slug in ("one", "other"):
        operator.post("/api/v1/tenants/", {"slug": f"dated-{slug}", "name": slug})
        operator.request("PUT", f"{POOL}/members/dated-{slug}/", {"weight": 1})
        workload = {"tenant": f"dated-{slug}", "name": "work", "demand": {"cpu": 1}}
        operator.post(f"{POOL}/workloads/", workload)


def test_a_pool_decides_again_at_each_date_within_two_seconds(operator, pool, decided):
    """A limit begins, ends as a guarantee begins, and the guarantee ends."""
    first = datetime.now(UTC) + APART
    dates = [first + APART * number for number in range(3)]
    begins, changes, ends = (date.isoformat() for date in dates)
    written = operator.request(
        "PUT",
        f"{POOL}/members/dated-one/",
        {
            "weight": 1,
            "limit": [{"amount": {"cpu": LIMITED}, "from": begins, "to": changes}],
            "guarantee": [{"amount": {"cpu": GUARANTEED}, "from": changes, "to": ends}],
        },
        {"If-Match": operator.get(f"{POOL}/members/dated-one/").headers["ETag"]},
    )
    assert written.status == 200, written.body
    decided("dated", int(written.headers["Pool-Generation"]))
    assert tasks(operator) == CORES / 2
    for date, expected in zip(dates, (LIMITED, GUARANTEED, CORES / 2), strict=True):
        late = seconds_until(operator, date, expected)
        assert late <= PROMPT_SECONDS, f"{late:.1f} s after {date}"
        run = operator.get(f"{POOL}/decision/").body["run"]
        assert date <= datetime.fromisoformat(run["effective_from"])


def tasks(operator):
    rows = operator.pages(f"{POOL}/allocations/")
    (mine,) = [row["tasks"] for row in rows if row["tenant"] == "dated-one"]
    return round(mine, 9)


def seconds_until(operator, date, expected):
    """Seconds from a date until the tenant has the expected tasks."""
    while datetime.now(UTC) < date:
        time.sleep(0.02)
    while datetime.now(UTC) < date + APART:
        if tasks(operator) == expected:
            return (datetime.now(UTC) - date).total_seconds()
        time.sleep(0.05)
    raise AssertionError(f"{APART.total_seconds():.0f} s after {date}: {tasks(operator)} tasks")
