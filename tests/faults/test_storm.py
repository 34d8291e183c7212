"""Under kills, freezes and losses every accepted change is decided, once, and nothing is stuck.

`FAULT_SEED` and `FAULT_SECONDS` choose another storm than the minute that CI sees.
"""

import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from launcher.client import Client
from launcher.console import StepFailed
from launcher.servers import Servers
from tests.faults.billing import (
    BILLED,
    MONTHS,
    TENANTS,
    Closer,
    Corrector,
    LateReporter,
    billing_wrongs,
    first_usage,
    late_lines,
    months_before,
)
from tests.faults.checker import ledger_wrongs, wrongs
from tests.faults.long_term import Boundaries, Remembering, long_term_wrongs
from tests.faults.storm import Reporter, Storm, Writer
from tests.live.service import LiveService

SEED = int(os.environ.get("FAULT_SEED", "20261120"))
SECONDS = float(os.environ.get("FAULT_SECONDS", "60"))
SETTLING_SECONDS = 60.0
POOLS = ("storm-a", "storm-b")
REPORTED = "storm-reported"
REMEMBERING = {
    "storm-steps": Remembering(2, "sliding", 15),
    "storm-days": Remembering(5, "tumbling", 60),
}
CALM_AFTER = timedelta(seconds=10)
WORK: dict[str, tuple[dict[str, Any], ...]] = {
    **dict.fromkeys(POOLS, ({"demand": {"cpu": 1, "memory": 1}},) * 2),
    **dict.fromkeys(
        REMEMBERING,
        (
            {"demand": {"cpu": 1, "memory": 4}, "tasks": 3},
            {"demand": {"cpu": 4, "memory": 1}, "tasks": 3},
        ),
    ),
}
ENTRIES_EACH = 2


@pytest.fixture(scope="module")
def client(service: LiveService, key: str) -> Client:
    client = Client(service.url, key)
    chosen: dict[str, dict[str, Any]] = {
        **{pool: {"policy": {"name": "drfh"}} for pool in POOLS},
        **{pool: remembering.settings() for pool, remembering in REMEMBERING.items()},
    }
    for pool, settings in chosen.items():
        client.post("/api/v1/pools/", {
            "slug": pool, "name": pool, "weights": "explicit", **settings,
            "resources": [{"name": "cpu"}, {"name": "memory"}],
        })  # fmt: skip
        client.post(f"/api/v1/pools/{pool}/servers/", {
            "name": "node", "count": 20, "capacity": {"cpu": 16, "memory": 64},
        })  # fmt: skip
        for number in (1, 2):
            slug = f"{pool}-{number}"
            client.post("/api/v1/tenants/", {"slug": slug, "name": slug})
    client.post("/api/v1/pools/", {
        "slug": REPORTED, "name": "Reported", "policy": {"name": "drf"}, "metering": "reported",
        "window": {"kind": "sliding", "length": "PT11H"},
        "resources": [{"name": "cpu"}, {"name": "memory"}],
    })  # fmt: skip
    client.post("/api/v1/pools/", {
        "slug": BILLED, "name": "Billed", "policy": {"name": "drf"}, "metering": "reported",
        "resources": [{"name": "cpu"}, {"name": "memory"}],
    })  # fmt: skip
    for slug in TENANTS:
        client.post("/api/v1/tenants/", {"slug": slug, "name": slug})
    rates = [{"resource": "cpu", "pool": "0.37"}, {"resource": "memory", "pool": "0.041"}]
    months = months_before(datetime.now(UTC), MONTHS)
    plan = {"pool": BILLED, "name": "2026", "from": months[0].isoformat(), "rates": rates}
    made = client.post("/api/v1/price-plans/", plan).body
    client.post(f"/api/v1/price-plans/{made['id']}/publish/", {})
    client.post(f"/api/v1/pools/{BILLED}/usage/?non_members=accept", first_usage(months))
    return client


def settled(wrongs_now: Callable[[], list[str]]) -> list[str]:
    """What is wrong once there has been time to settle; nothing, as soon as nothing is."""
    deadline = time.monotonic() + SETTLING_SECONDS
    while True:
        try:
            found = wrongs_now()
        except (OSError, StepFailed) as error:
            found = [str(error)]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def test_nothing_accepted_is_lost_doubled_half_or_stuck(
    service: LiveService,
    servers: Servers,
    client: Client,
    key: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    writers = [
        Writer(
            service.url, key, pool, f"{pool}-{number}", 2.0 if pool in REMEMBERING else 0.15, work
        )
        for pool, works in WORK.items()
        for number, work in enumerate(works, start=1)
    ]
    reporters = [
        Reporter(service.url, key, REPORTED, f"storm-a-{number}", pause=0.2) for number in (1, 2)
    ]
    months = months_before(datetime.now(UTC), MONTHS)
    late = [LateReporter(service.url, key, tenant, months) for tenant in TENANTS]
    corrector = Corrector(service.url, key)
    closer = Closer(service.url, key, months, pause=SECONDS / MONTHS / 2)
    clients = (*writers, *reporters, *late, corrector, closer)
    for each in clients:
        each.start()
    storm = Storm(service, servers, SEED)
    storm.rage(SECONDS)
    for each in clients:
        each.enough.set()
    for each in clients:
        each.join()
    stopped, calm = time.monotonic(), datetime.now(UTC) + CALM_AFTER
    accepted: dict[str, list[str]] = {pool: [] for pool in WORK}
    for writer in writers:
        accepted[writer.pool] += writer.accepted.values()
    database = servers.environment["MIGRATION_DATABASE_URL"]
    unanswered = set().union(*(writer.unanswered for writer in writers))
    found = settled(lambda: wrongs(client, database, accepted, unanswered))
    events: set[str] = set().union(*(reporter.accepted for reporter in reporters))
    reported_late: set[str] = set().union(*(each.accepted for each in late))
    reported = {REPORTED: events, BILLED: reported_late}
    found += settled(lambda: ledger_wrongs(database, reported, ENTRIES_EACH))
    now = {path: closer.content(path) for path in closer.seen}
    found += billing_wrongs(database, closer.seen, now)

    def remembered() -> tuple[list[str], dict[str, Boundaries]]:
        return long_term_wrongs(client, database, REMEMBERING, calm=calm, now=datetime.now(UTC))

    found += settled(lambda: remembered()[0])
    _, boundaries = remembered()
    verified = service.manage("verify")
    with capsys.disabled():
        total = sum(map(len, accepted.values()))
        print(
            f"\nseed {SEED}: {sum(storm.done.values())} faults {dict(storm.done)}; {total} changes"
            f" accepted in {sum(writer.attempts for writer in writers)} requests; settled"
            f" {time.monotonic() - stopped:.1f} s after the last; wrong: {len(found)}"
        )
        print(
            f"{len(events)} events accepted in"
            f" {sum(reporter.attempts for reporter in reporters)} requests of"
            f" {Reporter.EVENTS}; verify: {verified.splitlines()[-1]}"
        )
        print(
            f"{len(closer.closed)} months closed over {len(reported_late)} events and"
            f" {corrector.corrected} corrections, {late_lines(database)} lines for late entries"
        )
        for pool, counted in boundaries.items():
            print(f"{pool}: {counted.passed} boundaries, {counted.missed} while nobody could work")
        print(*found, sep="\n")
    refused = [each.refused for each in clients if each.refused]
    assert (found, refused) == ([], [])
    assert len(events) >= 20 * SECONDS
    assert total >= min(200, 2 * SECONDS)
    assert len(closer.closed) >= 2
    assert late_lines(database) > len(closer.closed)
    assert len(closer.seen) == 4 * len(closer.closed)
    assert b"404" not in closer.seen.values()


def test_the_checker_finds_a_change_whose_job_was_never_written(
    service: LiveService, servers: Servers, client: Client
) -> None:
    """Control: a change that is published after its commit, by a process that dies in between."""
    database = servers.environment["MIGRATION_DATABASE_URL"]
    with psycopg.connect(database, autocommit=True) as connection:
        before = ids_by_pool(connection)
        connection.execute(
            "INSERT INTO workload (id, pool_id, tenant_id, name, demand, priority, server_selector,"
            " state, unsatisfiable, version, created_at)"
            " SELECT gen_random_uuid(), p.id, t.id, 'unpublished', '{1,1}', 0, '{}', 'active', '', 1,"
            " now() FROM pool p, tenant t WHERE p.slug = 'storm-a' AND t.slug = 'storm-a-1'"
        )
        connection.execute("UPDATE pool SET generation = generation + 1 WHERE slug = 'storm-a'")
        time.sleep(3)
        found = wrongs(client, database, ids_by_pool(connection))
        assert any("not in the decision in force" in wrong for wrong in found)
        assert any("decided at" in wrong for wrong in found)
        # Control: a request whose repetition made a second object.
        doubled = wrongs(client, database, before)
        assert any("no client was told of" in wrong for wrong in doubled)
        unknown = wrongs(client, database, before, unanswered={"unpublished"})
        assert not any("no client was told of" in wrong for wrong in unknown)
        connection.execute("DELETE FROM workload WHERE name = 'unpublished'")
        connection.execute("UPDATE pool SET generation = generation - 1 WHERE slug = 'storm-a'")


def ids_by_pool(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
    rows = connection.execute(
        "SELECT p.slug, w.id::text FROM workload w JOIN pool p ON p.id = w.pool_id"
    ).fetchall()
    return {pool: [id_ for slug, id_ in rows if slug == pool] for pool in POOLS}


def test_a_problem_that_kills_its_worker_is_given_up_after_three_attempts(
    service: LiveService, servers: Servers, client: Client
) -> None:
    """Each attempt's child is killed while it computes."""
    client.post("/api/v1/pools/", {
        "slug": "poison", "name": "Poison", "policy": {"name": "drfh"},
        "resources": [{"name": "cpu"}],
    })  # fmt: skip
    generation = int(client.get("/api/v1/pools/poison/").headers["Pool-Generation"])
    await_decision(client, "poison", generation)
    client.post("/api/v1/pools/poison/runs/", {"reason": "poison"})
    database = servers.environment["MIGRATION_DATABASE_URL"]
    deadline = time.monotonic() + 90
    with (
        psycopg.connect(database, autocommit=True) as connection,
        # The publication waits for this lock, so that every attempt is caught while it runs.
        psycopg.connect(database) as holder,
    ):
        holder.execute(
            "SELECT FROM run WHERE pool_id = (SELECT id FROM pool WHERE slug = 'poison')"
            " AND status = 'succeeded' FOR UPDATE"
        )
        for attempt in (1, 2, 3):
            while attempts(connection) < attempt and time.monotonic() < deadline:
                time.sleep(0.05)
            kill_children(service)
    runs = client.get("/api/v1/pools/poison/runs/").body["results"]
    while runs[0]["status"] == "running" and time.monotonic() < deadline:
        time.sleep(0.2)
        runs = client.get("/api/v1/pools/poison/runs/").body["results"]
    assert runs[0]["status"] == "failed"
    assert runs[0]["error"]["code"] == "run.worker_lost"
    decision = client.get("/api/v1/pools/poison/decision/").body
    assert decision["run"]["id"] == runs[1]["id"]  # the one before stays in force


def attempts(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(
        "SELECT max(attempts) FROM run WHERE status = 'running'"
        " AND pool_id = (SELECT id FROM pool WHERE slug = 'poison')"
    ).fetchone()
    return int(row[0] or 0) if row else 0


def kill_children(service: LiveService) -> None:
    parent = service.processes["worker"].pid
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)


def await_decision(client: Client, pool: str, generation: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        answer = client.request("GET", f"/api/v1/pools/{pool}/decision/")
        if answer.status == 200 and answer.body["generation"] >= generation:
            return
        time.sleep(0.05)
    raise AssertionError(f"no decision for {pool}")


def test_the_checker_finds_events_that_were_lost_or_posted_twice(
    servers: Servers, client: Client
) -> None:
    """Control: looked for, not found, and created by two at once; and answered before the commit."""
    database = servers.environment["MIGRATION_DATABASE_URL"]
    with psycopg.connect(database, autocommit=True) as connection:
        posted = [
            event
            for (event,) in connection.execute(
                "SELECT event_id FROM ledger_identity i JOIN pool p ON p.id = i.pool_id"
                " WHERE p.slug = %s",
                [REPORTED],
            )
        ]
        assert ledger_wrongs(database, {REPORTED: posted}, ENTRIES_EACH) == []
        lost = ledger_wrongs(database, {REPORTED: [*posted, "answered"]}, ENTRIES_EACH)
        assert lost == [f"{REPORTED}: 1 accepted events are not posted"]
        connection.execute(
            "WITH doubled AS (INSERT INTO ledger_entry SELECT gen_random_uuid(), pool_id, tenant_id,"
            ' server_owner_id, workload_id, resource, unit, quantity, start, "end", amount, kind,'
            " corrects, reason, source, event_id, run_id, recorded_at FROM ledger_entry"
            " WHERE event_id = %s LIMIT 1 RETURNING id, start)"
            " INSERT INTO ledger_pending SELECT id, start FROM doubled",
            [posted[0]],
        )
        found = ledger_wrongs(database, {REPORTED: posted}, ENTRIES_EACH)
        assert f"{REPORTED}: 1 events have another number of entries" in found


def test_the_checker_finds_closed_months_that_changed(servers: Servers, client: Client) -> None:
    """Control: closing that reads without a number to read to bills late entries twice, or never."""
    database = servers.environment["MIGRATION_DATABASE_URL"]
    assert billing_wrongs(database, {}, {}) == []
    changed = billing_wrongs(database, {"2026-01/a/": b"1.00"}, {"2026-01/a/": b"1.01"})
    assert changed == ["2026-01/a/: closed bytes changed"]
    once = "SELECT id FROM billing_posting WHERE entry IS NOT NULL AND amount <> 0 LIMIT 1"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE billing_posting DISABLE TRIGGER USER")
        connection.execute(
            f"CREATE TEMP TABLE kept AS SELECT * FROM billing_posting WHERE id = ({once})"
        )
        connection.execute("DELETE FROM billing_posting p USING kept WHERE p.id = kept.id")
        assert "1 sums of lines are not those of entries" in billing_wrongs(database, {}, {})
        connection.execute("INSERT INTO billing_posting SELECT * FROM kept")
        assert billing_wrongs(database, {}, {}) == []
        connection.execute("UPDATE kept SET id = gen_random_uuid()")
        connection.execute("INSERT INTO billing_posting SELECT * FROM kept")
        found = billing_wrongs(database, {}, {})
        assert "1 late entries are on two lines" in found
        assert "1 sums of lines are not those of entries" in found
        connection.execute("DELETE FROM billing_posting p USING kept WHERE p.id = kept.id")
        assert billing_wrongs(database, {}, {}) == []
        connection.execute("ALTER TABLE billing_posting ENABLE TRIGGER USER")
