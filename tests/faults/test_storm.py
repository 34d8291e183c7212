"""Whatever breaks, nothing accepted is lost, doubled or half, nothing is stuck, and the service is back.

The service is the one that `./dev serve` runs, and nobody but the launcher mends it. `FAULT_SEED`,
`FAULT_SECONDS` and `FAULT_KINDS` (separated by commas, or `all`) choose another storm than the minute
that CI sees, which leaves out the kinds that take most of it.
"""

import contextlib
import os
import re
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from launcher.client import Client
from launcher.console import StepFailed
from tests.faults.billing import (
    BILLED,
    MONTHS,
    TENANTS,
    Closer,
    Corrector,
    LateReporter,
    billing_wrongs,
    late_entries,
    months_before,
)
from tests.faults.changers import Changer, Follower, Reader, availability
from tests.faults.checker import ledger_wrongs, wrongs
from tests.faults.clients import Client as Poster
from tests.faults.clients import Reporter, Writer
from tests.faults.kinds import LONG, Storm
from tests.faults.launched import LaunchedService
from tests.faults.long_term import Boundaries, long_term_wrongs
from tests.faults.pools import CHANGED, REMEMBERING, REPORTED, pools_open
from tests.faults.whole import (
    changes_wrongs,
    consumer_wrongs,
    decisions_wrongs,
    metering_wrongs,
    seconds_until_decided,
)

SEED = int(os.environ.get("FAULT_SEED", "20261122"))
SECONDS = float(os.environ.get("FAULT_SECONDS", "60"))
CHOSEN = os.environ.get("FAULT_KINDS", "")
KINDS = tuple(filter(None, CHOSEN.split(","))) if CHOSEN != "all" else ()
SETTLING_SECONDS = 60.0
PATIENCE_SECONDS = 90.0
CALM_AFTER = timedelta(seconds=10)
WORK: tuple[dict[str, Any], ...] = (
    {"demand": {"cpu": 1, "memory": 4}, "tasks": 3},
    {"demand": {"cpu": 4, "memory": 1}, "tasks": 3},
)
ENTRIES_EACH = 2


@pytest.fixture(scope="module")
def client(launched: LaunchedService, key: str) -> Client:
    client = Client(launched.url, key)
    pools_open(client)
    return client


def settled(wrongs_now: Callable[[], list[str]], to: Sequence[str] = ()) -> list[str]:
    """What is wrong once there has been time to settle, or as soon as it is what is looked for."""
    deadline = time.monotonic() + SETTLING_SECONDS
    while True:
        try:
            found = wrongs_now()
        except (OSError, StepFailed) as error:
            found = [str(error)]
        if found == [*to] or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def test_whatever_breaks_nothing_accepted_is_lost_and_the_service_comes_back(
    launched: LaunchedService, client: Client, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = launched.url
    changers = [Changer(url, key, pool, SEED + n, 0.1) for n, pool in enumerate(CHANGED)]
    writers = [
        Writer(url, key, pool, f"{pool}-{number}", 2.0, work)
        for pool in REMEMBERING
        for number, work in enumerate(WORK, start=1)
    ]
    reporters = [
        Reporter(url, key, REPORTED, f"{REPORTED}-{n}", pause=0.3, seconds=SECONDS) for n in (1, 2)
    ]
    months = months_before(datetime.now(UTC), MONTHS)
    late = [LateReporter(url, key, tenant, months) for tenant in TENANTS]
    corrector = Corrector(url, key)
    closer = Closer(url, key, months, pause=SECONDS / MONTHS / 2)
    posters = (*writers, *reporters, *late, corrector, closer)
    reader, follower = Reader(url, key, CHANGED[0]), Follower(url, key)
    storm = Storm(launched, SEED, KINDS, without=() if CHOSEN else LONG)
    assert seconds_until_decided(client, CHANGED, PATIENCE_SECONDS) < PATIENCE_SECONDS
    for thread in (*changers, *posters, reader, follower):
        thread.start()
    began = time.monotonic()
    storm.rage(SECONDS)
    # A slow machine makes as many changes in a longer storm.
    while sum(changer.changes for changer in changers) < SECONDS and within(began, 4 * SECONDS):
        storm.rage(SECONDS / 6)
    busy: list[Changer | Poster] = [*changers, *posters]
    for each in busy:
        each.enough.set()
    for each in busy:
        each.join()
    decided_after = seconds_until_decided(client, CHANGED, PATIENCE_SECONDS)
    ended = time.monotonic()
    clock = timedelta(seconds=storm.turned)
    calm = datetime.now(UTC) + clock + CALM_AFTER
    reader.enough.set()
    follower.enough.set()
    follower.join()

    database = launched.database()
    made = {
        changer.pool: [
            path.split("/")[-2] for path in changer.accepted.objects if "/workloads/" in path
        ]
        for changer in changers
    }
    for writer in writers:
        made[writer.pool] = [*made.get(writer.pool, []), *writer.accepted.values()]
    unanswered = set().union(*(writer.unanswered for writer in writers))
    events: set[str] = set().union(*(reporter.accepted for reporter in reporters))
    reported_late: set[str] = set().union(*(each.accepted for each in late))
    reported = {REPORTED: events, BILLED: reported_late}

    def remembered() -> tuple[list[str], dict[str, Boundaries]]:
        now = datetime.now(UTC) + clock
        return long_term_wrongs(client, database, REMEMBERING, calm=calm, now=now)

    found = settled(lambda: wrongs(client, database, made, unanswered))
    found += settled(lambda: ledger_wrongs(database, reported, ENTRIES_EACH))
    found += billing_wrongs(
        database, closer.seen, {path: closer.content(path) for path in closer.seen}
    )
    accepted = [changer.accepted for changer in changers]
    found += settled(lambda: [wrong for each in accepted for wrong in changes_wrongs(client, each)])
    found += settled(lambda: decisions_wrongs(client, [*CHANGED, *REMEMBERING]))
    found += settled(lambda: metering_wrongs(database))
    found += settled(lambda: consumer_wrongs(database, follower))
    found += settled(lambda: remembered()[0])
    _, boundaries = remembered()
    verified = launched.manage("verify")

    answered, outage = availability(reader.reads, began, ended)
    with capsys.disabled():
        _print_hits(storm, reader, began)
        print(
            f"{sum(changer.changes for changer in changers)} changes of"
            f" {sum(len(each.objects) for each in accepted)} objects in"
            f" {sum(changer.attempts for changer in changers)} requests,"
            f" {sum(each.repeated for each in accepted)} keys sent again,"
            f" {sum(len(each.simulations) for each in accepted)} simulations;"
            f" {sum(len(writer.accepted) for writer in writers)} workloads of pools that remember;"
            f" {len(events)} events in batches of {Reporter.EVENTS}; {len(follower.entries)} entries"
            " consumed"
        )
        print(
            f"{len(closer.closed)} months closed over {len(reported_late)} events and"
            f" {corrector.corrected} corrections, {late_entries(database)} late entries on lines"
        )
        for pool, counted in boundaries.items():
            print(f"{pool}: {counted.passed} boundaries, {counted.missed} while nobody could work")
        for kind, reason in storm.untried.items():
            print(f"not tried: {kind} ({reason})")
        print(
            f"seed {SEED}: {len(storm.hits)} faults hit; reads answered {answered:.1%}, longest without"
            f" {outage:.1f} s; all decided {decided_after:.1f} s after the last change;"
            f" wrong: {len(found)}; {verified.splitlines()[-1]}"
        )
        print(*found, sep="\n")
    refused = [each.refused for each in posters if each.refused]
    assert (found, refused) == ([], [])
    assert len(storm.hits) >= SECONDS / 6
    assert decided_after < PATIENCE_SECONDS
    assert sum(changer.changes for changer in changers) >= SECONDS
    assert len(events) >= 5 * SECONDS
    assert len(closer.closed) >= 2
    assert late_entries(database) > len(closer.closed)
    assert len(closer.seen) == 4 * len(closer.closed)
    assert b"404" not in closer.seen.values()


def within(began: float, seconds: float) -> bool:
    return time.monotonic() - began < seconds


def _print_hits(storm: Storm, reader: Reader, began: float) -> None:
    """How often each kind hit, and what readers had of it until the next fault."""
    starts = [*(fault.begin for fault in storm.hits[1:]), time.monotonic()]
    by_kind: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for fault, following in zip(storm.hits, starts, strict=True):
        by_kind[fault.kind].append(availability(reader.reads, fault.begin, following))
    print(f"\n{'fault':<40}{'hits':>5}{'answered':>10}{'longest without':>17}")
    for kind, seen in sorted(by_kind.items()):
        answered = sum(part for part, _ in seen) / len(seen)
        print(f"{kind:<40}{len(seen):>5}{answered:>10.0%}{max(out for _, out in seen):>15.1f} s")


def test_the_checker_finds_a_change_whose_job_was_never_written(
    launched: LaunchedService, client: Client
) -> None:
    """Control: a change that is published after its commit, by a process that dies in between."""
    database = launched.database()
    with psycopg.connect(database, autocommit=True) as connection:
        before = ids_by_pool(connection)
        connection.execute(
            "INSERT INTO workload (id, pool_id, tenant_id, name, demand, priority, server_selector,"
            " state, unsatisfiable, version, created_at)"
            " SELECT gen_random_uuid(), p.id, t.id, 'unpublished', '{1,1}', 0, '{}', 'active', '', 1,"
            " now() FROM pool p, tenant t WHERE p.slug = 'changed-a' AND t.slug = 'changed-a-1'"
        )
        connection.execute("UPDATE pool SET generation = generation + 1 WHERE slug = 'changed-a'")
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
        connection.execute("UPDATE pool SET generation = generation - 1 WHERE slug = 'changed-a'")


def ids_by_pool(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
    rows = connection.execute(
        "SELECT p.slug, w.id::text FROM workload w JOIN pool p ON p.id = w.pool_id"
    ).fetchall()
    return {pool: [id_ for slug, id_ in rows if slug == pool] for pool in CHANGED}


def test_a_problem_that_kills_its_worker_is_given_up_after_three_attempts(
    launched: LaunchedService, client: Client
) -> None:
    """Each attempt's child is killed while it computes."""
    client.post("/api/v1/pools/", {
        "slug": "poison", "name": "Poison", "policy": {"name": "drfh"},
        "resources": [{"name": "cpu"}],
    })  # fmt: skip
    generation = int(client.get("/api/v1/pools/poison/").headers["Pool-Generation"])
    await_decision(client, "poison", generation)
    client.post("/api/v1/pools/poison/runs/", {"reason": "poison"})
    database = launched.database()
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
            kill_children(launched)
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


def kill_children(launched: LaunchedService) -> None:
    for child in launched.children("worker"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def await_decision(client: Client, pool: str, generation: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        answer = client.request("GET", f"/api/v1/pools/{pool}/decision/")
        if answer.status == 200 and answer.body["generation"] >= generation:
            return
        time.sleep(0.05)
    raise AssertionError(f"no decision for {pool}")


def test_the_checker_finds_events_that_were_lost_or_posted_twice(
    launched: LaunchedService, client: Client
) -> None:
    """Control: looked for, not found, and created by two at once; and answered before the commit."""
    database = launched.database()
    with psycopg.connect(database, autocommit=True) as connection:
        posted = [
            event
            for (event,) in connection.execute(
                "SELECT event_id FROM ledger_identity i JOIN pool p ON p.id = i.pool_id"
                " WHERE p.slug = %s",
                [REPORTED],
            )
        ]
        assert settled(lambda: ledger_wrongs(database, {REPORTED: posted}, ENTRIES_EACH)) == []
        accepted = {REPORTED: [*posted, "answered"]}
        lost = [f"{REPORTED}: 1 accepted events are not posted"]
        assert settled(lambda: ledger_wrongs(database, accepted, ENTRIES_EACH), to=lost) == lost
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


def test_the_checker_finds_closed_months_that_changed(
    launched: LaunchedService, client: Client
) -> None:
    """Control: closing that reads without a number to read to bills late entries twice, or never."""
    database = launched.database()
    assert billing_wrongs(database, {}, {}) == []
    changed = billing_wrongs(database, {"2026-01/a/": b"1.00"}, {"2026-01/a/": b"1.01"})
    assert changed == ["2026-01/a/: closed bytes changed"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE billing_posting DISABLE TRIGGER USER")
        # A slow machine puts several late entries on every line, so any line of a difference serves.
        connection.execute(
            "CREATE TEMP TABLE kept AS SELECT * FROM billing_posting"
            " WHERE kind = 'adjustment' AND entries IS NOT NULL AND amount <> 0 LIMIT 1"
        )
        row = connection.execute("SELECT cardinality(entries) FROM kept").fetchone()
        assert row is not None, "the storm billed no late entry"
        connection.execute("DELETE FROM billing_posting p USING kept WHERE p.id = kept.id")
        assert "1 sums of lines are not those of entries" in billing_wrongs(database, {}, {})
        connection.execute("INSERT INTO billing_posting SELECT * FROM kept")
        assert billing_wrongs(database, {}, {}) == []
        connection.execute("UPDATE kept SET id = gen_random_uuid()")
        connection.execute("INSERT INTO billing_posting SELECT * FROM kept")
        found = billing_wrongs(database, {}, {})
        assert f"{row[0]} late entries are on two lines" in found
        assert "1 sums of lines are not those of entries" in found
        connection.execute("DELETE FROM billing_posting p USING kept WHERE p.id = kept.id")
        assert billing_wrongs(database, {}, {}) == []
        connection.execute("ALTER TABLE billing_posting ENABLE TRIGGER USER")


@pytest.fixture
def changeable(launched: LaunchedService, client: Client) -> Iterator[psycopg.Connection[Any]]:
    """The database of a pool that has decided, without what keeps published rows as they are."""
    assert seconds_until_decided(client, CHANGED, PATIENCE_SECONDS) < PATIENCE_SECONDS
    tables = ("run_allocation", "ledger_entry")
    with psycopg.connect(launched.database(), autocommit=True) as connection:
        for table in tables:
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield connection
        for table in tables:
            connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def test_the_checker_finds_a_change_that_was_lost(
    launched: LaunchedService, client: Client, key: str, changeable: psycopg.Connection[Any]
) -> None:
    changer = Changer(launched.url, key, CHANGED[1], SEED + 100, 0.0)
    changer.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while changer.changes < 20 and time.monotonic() < deadline:
        time.sleep(0.1)
    changer.enough.set()
    changer.join()
    assert settled(lambda: changes_wrongs(client, changer.accepted)) == []
    path = next(path for path in changer.accepted.objects if "/servers/" in path)
    server = path.split("/")[-2]
    changeable.execute("UPDATE server SET capacity[1] = capacity[1] + 1 WHERE id = %s", [server])
    (wrong,) = changes_wrongs(client, changer.accepted)
    assert wrong.startswith(f"{path}: capacity is")
    changeable.execute("UPDATE server SET version = version + 1 WHERE id = %s", [server])
    assert len(changes_wrongs(client, changer.accepted)) == 2
    changeable.execute(
        "UPDATE server SET version = version - 1, capacity[1] = capacity[1] - 1 WHERE id = %s",
        [server],
    )


def test_the_checker_finds_a_decision_that_its_input_does_not_make(
    client: Client, changeable: psycopg.Connection[Any]
) -> None:
    pool = CHANGED[0]
    assert settled(lambda: decisions_wrongs(client, [pool])) == []
    # By a whole task: a decision in whole tasks is served without fractions.
    changeable.execute(
        "UPDATE run_allocation SET tasks = tasks + 1 WHERE position = 0 AND run_id IN ("
        " SELECT r.id FROM run r JOIN pool p ON p.id = r.pool_id"
        " WHERE p.slug = %s AND r.status = 'succeeded' AND r.effective_until IS NULL)",
        [pool],
    )
    run = client.get(f"/api/v1/pools/{pool}/decision/").body["run"]["id"]
    assert decisions_wrongs(client, [pool]) == [f"{pool}: run {run} is not what its input makes"]
    client.post(f"/api/v1/pools/{pool}/runs/", {"reason": "the one before was changed"})
    assert settled(lambda: decisions_wrongs(client, [pool])) == []


def test_the_checker_finds_metering_that_is_not_the_decision_s(
    launched: LaunchedService, changeable: psycopg.Connection[Any]
) -> None:
    database = launched.database()
    assert settled(lambda: metering_wrongs(database)) == []
    add = """
        UPDATE ledger_entry e SET quantity = quantity + %(more)s,
               amount = (quantity + %(more)s) * extract(epoch FROM "end" - start)
        WHERE e.id = (SELECT min(id::text)::uuid FROM ledger_entry
                      WHERE source = 'decisions' AND kind = 'usage' AND workload_id IS NOT NULL)
    """
    changeable.execute(add, {"more": 1})
    # One interval, and as many decisions as it lasts.
    (wrong,) = metering_wrongs(database)
    assert re.fullmatch(r"[1-9]\d* metered amounts are not their decision's", wrong)
    changeable.execute(add, {"more": -1})
    assert metering_wrongs(database) == []


def test_the_checker_finds_a_consumer_that_missed_an_entry(
    launched: LaunchedService, client: Client, key: str
) -> None:
    database = launched.database()
    for spoil in (lambda read: read.pop(3), lambda read: read.insert(3, read[0]), list.reverse):
        follower = Follower(launched.url, key)
        assert settled(partial(consumer_wrongs, database, follower)) == []
        spoil(follower.entries)
        assert consumer_wrongs(database, follower) != []
