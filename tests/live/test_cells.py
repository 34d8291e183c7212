"""A pool moves between two installations, each with a database and processes of its own."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from launcher.client import Client
from tests.examples import long
from tests.live.conftest import decision_of, launched
from tests.live.service import PROJECT, LiveService

pytestmark = long

LAB = "/api/v1/pools/lab"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[LiveService]:
    with launched("kept", worker_id, tmp_path_factory.mktemp("source")) as live:
        yield live


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[LiveService]:
    with launched("clocked", worker_id, tmp_path_factory.mktemp("target")) as live:
        yield live


def stated(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def months() -> tuple[datetime, datetime]:
    """The first instants of the month before this one, and of this one."""
    this = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (this - timedelta(days=1)).replace(day=1), this


def usage(name: str, tenant: str, cpu: str, start: datetime, hours: int = 1) -> dict[str, Any]:
    return {
        "source": "meter", "id": name, "tenant": tenant, "resources": {"cpu": cpu, "memory": "1"},
        "start": stated(start), "end": stated(start + timedelta(hours=hours)),
    }  # fmt: skip


def filled(operator: Client) -> None:
    """A pool with groups, limits, budgets, prices, corrections, a closed month and decisions."""
    last, this = months()
    operator.post("/api/v1/pools/", {
        "slug": "lab", "name": "Lab", "policy": {"name": "drfh"}, "metering": "reported",
        "weights": "explicit", "decision_interval": "PT1S",
        "resources": [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}],
    })  # fmt: skip
    operator.post(
        f"{LAB}/groups/",
        {"slug": "science", "name": "Science", "limit": [{"amount": {"cpu": "40"}}]},
    )
    for slug in ("ada", "bob"):
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug.title()})
        body = {"weight": 2, **({"group": "science"} if slug == "ada" else {})}
        answer = operator.request("PUT", f"{LAB}/members/{slug}/", body)
        assert answer.status in (200, 201), answer
    operator.post(
        f"{LAB}/servers/", {"name": "s", "count": 4, "capacity": {"cpu": 16, "memory": 64}}
    )
    operator.post(f"{LAB}/budgets/", {"tenant": "bob", "resource": "cpu", "amount": "5000"})
    plan = operator.post("/api/v1/price-plans/", {
        "pool": "lab", "name": "first", "from": stated(last),
        "rates": [{"resource": "cpu", "pool": "0.037"}],
        "commitments": [{
            "tenant": "ada", "resource": "cpu", "quantity": "1", "price": "0.01",
            "from": stated(last), "to": stated(this + timedelta(days=400)),
        }],
        "fixed_costs": [{"name": "Room", "amount": "90", "shares": [
            {"tenant": "bob", "share": "1"}, {"tenant": "ada", "share": "2"}]}],
    }).body  # fmt: skip
    operator.post(f"/api/v1/price-plans/{plan['id']}/publish/", {})
    events = [
        usage(f"{slug}/{day}", slug, f"{day + 1}.25", last + timedelta(days=day), 7)
        for day in range(5)
        for slug in ("ada", "bob")
    ]
    operator.post(f"{LAB}/usage/", events)
    for number in range(3):
        for slug in ("ada", "bob"):
            operator.post(
                f"{LAB}/workloads/",
                {"tenant": slug, "name": f"w{number}", "demand": {"cpu": 1 + number, "memory": 2}},
            )
        decided(operator)


def decided(operator: Client) -> dict[str, Any]:
    return decision_of(operator, "lab", int(operator.get(f"{LAB}/").headers["Pool-Generation"]))


def close(operator: Client) -> None:
    """Correct an entry, close the last month, and report usage that is late for it."""
    last, _ = months()
    entry = entries(operator, 10)[0]
    body = {"quantity": "9.5", "reason": "counted twice"}
    operator.post(f"/api/v1/ledger-entries/{entry['id']}/corrections/", body)
    deadline = time.monotonic() + 60
    while True:
        answer = operator.request("POST", f"{LAB}/statements/", {"month": f"{last:%Y-%m}"})
        if answer.status in (200, 201):
            break
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    operator.post(f"{LAB}/usage/", [usage("late", "bob", "3", last + timedelta(days=9))])
    operator.post(
        f"{LAB}/usage/", [usage("open", "ada", "2", datetime.now(UTC) - timedelta(hours=2))]
    )


def entries(client: Client, least: int) -> list[dict[str, Any]]:
    """All sealed entries of the pool, as soon as there are so many."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found: list[dict[str, Any]] = client.get(
            "/api/v1/ledger-entries/?pool=lab&limit=1000"
        ).body["results"]
        if len(found) >= least:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{least} entries are not sealed")


def stored(live: LiveService) -> dict[str, Any]:
    """The digests and amounts of the pool in the database, without keys that count rows."""
    with psycopg.connect(live.environment["DATABASE_URL"]) as connection:

        def rows(statement: str) -> list[Any]:
            return connection.execute(statement).fetchall()

        return {
            "decisions": rows(
                "SELECT run_id, d.generation, encode(input, 'hex'), encode(answer, 'hex'), block"
                " FROM ledger_decision d JOIN pool p ON p.id = d.pool_id WHERE slug = 'lab' ORDER BY 1"
            ),
            "documents": rows(
                "SELECT kind, d.name, encode(sha256, 'hex'), block FROM ledger_document d"
                " JOIN pool p ON p.id = d.pool_id WHERE slug = 'lab' ORDER BY d.id"
            ),
            "statements": rows(
                "SELECT t.slug, billed, encode(sha256(s.document), 'hex') FROM billing_statement s"
                " JOIN tenant t ON t.id = s.tenant_id JOIN billing_closing c ON c.id = s.closing_id"
                " JOIN pool p ON p.id = c.pool_id WHERE p.slug = 'lab' ORDER BY 1"
            ),
            "totals": rows(
                "SELECT t.slug, level, bucket, resource, kind, rate, moment, decayed FROM ledger_total l"
                " JOIN tenant t ON t.id = l.tenant_id JOIN pool p ON p.id = l.pool_id"
                " WHERE p.slug = 'lab' ORDER BY 1, 2, 3, 4, 5"
            ),
            "totals_of_the_ledger": rows(
                "SELECT t.slug, e.resource, e.kind, sum(e.amount) FROM ledger_entry e"
                " JOIN tenant t ON t.id = e.tenant_id JOIN pool p ON p.id = e.pool_id"
                " WHERE p.slug = 'lab' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
            ),
        }  # fmt: skip


def answered(client: Client) -> dict[str, Any]:
    last, this = months()
    # Whole days: a report of an instant that has passed does not change.
    period = f"from={stated(last)}&to={stated(this)}"
    paths = [
        "/api/v1/ledger-blocks/?pool=lab&limit=1000",
        f"{LAB}/allocations/",
        f"{LAB}/placements/",
        f"{LAB}/members/",
        f"{LAB}/groups/",
        f"{LAB}/budgets/",
        f"{LAB}/reports/sharing-degree/?{period}",
        f"{LAB}/reports/utilization/?{period}",
        f"{LAB}/months/{last:%Y-%m}/",
    ]
    found = {path: client.get(path).body for path in paths}
    found["decision"] = client.get(f"{LAB}/decision/").body["run"]["id"]
    return found


def csv(live: LiveService, key: str) -> bytes:
    return subprocess.check_output(
        ["curl", "-sS", "--fail", "-H", f"Authorization: Bearer {key}",
         f"{live.url}/api/v1/ledger-entries/export/?pool=lab&format=csv"]
    )  # fmt: skip


def key_of(live: LiveService, scope: str, *options: str) -> str:
    return live.manage("apikey", "create", "--scope", scope, "--name", f"cells-{scope}", *options)


def test_a_pool_moves_and_a_consumer_goes_on_at_the_new_address(
    source: LiveService, target: LiveService, tmp_path: Path
) -> None:
    here, there = source.client("operator", "cells"), target.client("operator", "cells")
    # The target numbers entries of its own pool with the numbers that the source gives.
    there.post("/api/v1/pools/", {"slug": "other", "name": "Other", "policy": {"name": "drf"},
                                  "metering": "reported", "resources": [{"name": "cpu"}]})  # fmt: skip
    there.post("/api/v1/tenants/", {"slug": "zoe", "name": "Zoe"})
    one = usage("z", "zoe", "1", datetime.now(UTC) - timedelta(days=1))
    del one["resources"]["memory"]
    there.post("/api/v1/pools/other/usage/?non_members=accept", [one])
    filled(here)
    close(here)
    entries(here, 25)
    agent = key_of(source, "agent", "--pool", "lab")
    billing_here, billing_there = key_of(source, "billing"), key_of(target, "billing")
    first = Client(source.url, billing_here).get("/api/v1/ledger-entries/?pool=lab&limit=15").body
    file = tmp_path / "lab.pool"
    wrote = source.manage("export_pool", "lab", str(file), "--to", target.url).splitlines()
    before, answers, export = stored(source), answered(here), csv(source, billing_here)
    refused = here.request("POST", f"{LAB}/usage/", [usage("x", "bob", "1", months()[0])])
    assert (refused.status, refused.body["code"]) == (409, "pool.moved")
    assert target.url in refused.body["detail"]
    generation = int(here.get(f"{LAB}/").headers["Pool-Generation"])

    killed_in_the_middle(target, file)
    assert there.request("GET", f"{LAB}/").status == 404
    sha256 = wrote[-1].split()[-1]
    read = target.manage("import_pool", "lab", str(file), "--sha256", sha256).splitlines()

    assert read[:3] == wrote[:3]
    assert stored(target) == before
    assert answered(there) == answers
    assert csv(target, billing_there) == export
    assert "FAILS" not in target.manage("verify")
    # The agent's key is the same at the new address, and the pool decides again.
    assert Client(target.url, agent).get(f"{LAB}/decision/").body["generation"] == generation
    there.post(
        f"{LAB}/workloads/", {"tenant": "bob", "name": "new", "demand": {"cpu": 1, "memory": 1}}
    )
    assert decided(there)["generation"] == generation + 1
    there.post(f"{LAB}/usage/", [usage("next", "bob", "1", datetime.now(UTC) - timedelta(hours=3))])
    every = entries(there, 27)
    following = Client(target.url, billing_there).get(
        f"/api/v1/ledger-entries/?pool=lab&limit=1000&after={first['next_cursor']}"
    ).body["results"]  # fmt: skip
    assert [row["id"] for row in (*first["results"], *following)] == [row["id"] for row in every]
    assert len({row["id"] for row in every}) == len(every) == 27
    assert "FAILS" not in target.manage("verify")
    assert "FAILS" not in source.manage("verify")
    # What the source did meanwhile: nothing.
    assert stored(source) == before
    with pytest.raises(subprocess.CalledProcessError):
        target.manage("import_pool", "lab", str(file))
    with pytest.raises(subprocess.CalledProcessError):
        source.manage("import_pool", "lab", str(file))


def killed_in_the_middle(live: LiveService, file: Path) -> None:
    """Kill an import while its transaction waits for a lock that the test holds."""
    with psycopg.connect(live.environment["DATABASE_URL"]) as connection:
        connection.execute("LOCK TABLE billing_posting IN SHARE MODE")
        importing = subprocess.Popen(
            [sys.executable, "manage.py", "import_pool", "lab", str(file)],
            env={**live.environment, "ALLOCATOR_PROCESS": "manage"},
            cwd=PROJECT,
        )
        deadline = time.monotonic() + 60
        waits = (
            "SELECT count(*) FROM pg_locks"
            " WHERE NOT granted AND relation = 'billing_posting'::regclass"
        )
        with psycopg.connect(live.environment["DATABASE_URL"], autocommit=True) as other:
            while other.execute(waits).fetchall() == [(0,)]:
                assert importing.poll() is None, "the import ended before it could be killed"
                assert time.monotonic() < deadline
                time.sleep(0.05)
        importing.send_signal(signal.SIGKILL)
        importing.wait()
