"""A launched service under every fault of a machine: nothing accepted is lost, and it comes back.

The service is the one that `./dev serve` runs, and nobody but the launcher mends it. `FAULT_SEED`,
`FAULT_SECONDS` and `FAULT_KINDS` (separated by commas, or `all`) choose another storm than the minute
that CI sees, which leaves out the kinds that take most of it.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from launcher.client import Client
from tests.faults.changers import Changer, Follower, Reader, availability
from tests.faults.checker import ledger_wrongs, wrongs
from tests.faults.kinds import LONG, Storm
from tests.faults.launched import LaunchedService
from tests.faults.storm import Reporter
from tests.faults.test_storm import settled
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
CHANGED = ("changed-a", "changed-b")
REPORTED, REMEMBERING = "reported", "remembering"
ENTRIES_EACH = 2
DECIDED_WITHIN_SECONDS = 15.0
PATIENCE_SECONDS = 90.0
AVAILABLE = 0.95


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaunchedService]:
    with LaunchedService(tmp_path_factory.mktemp("launched") / "log") as service:
        yield service


@pytest.fixture(scope="module")
def key(launched: LaunchedService) -> str:
    return launched.manage("apikey", "create", "--scope", "operator", "--name", "storm")


@pytest.fixture(scope="module")
def client(launched: LaunchedService, key: str) -> Client:
    client = Client(launched.url, key)
    chosen: dict[str, dict[str, Any]] = {
        **{pool: {"policy": {"name": "drfh"}} for pool in CHANGED},
        REPORTED: {"policy": {"name": "drf"}, "metering": "reported"},
        REMEMBERING: {
            "policy": {"name": "h-mrf"}, "decision_interval": "PT5S",
            "window": {"kind": "sliding", "length": "PT1M"},
        },
    }  # fmt: skip
    for pool, settings in chosen.items():
        client.post("/api/v1/pools/", {
            "slug": pool, "name": pool, "weights": "explicit", **settings,
            "resources": [{"name": "cpu"}, {"name": "memory"}],
        })  # fmt: skip
        client.post(f"/api/v1/pools/{pool}/servers/", {
            "name": "first", "count": 10, "capacity": {"cpu": 16, "memory": 64},
        })  # fmt: skip
        for number in (1, 2):
            slug = f"{pool}-{number}"
            client.post("/api/v1/tenants/", {"slug": slug, "name": slug})
            client.request("PUT", f"/api/v1/pools/{pool}/members/{slug}/", {"weight": 1})
    for number in (1, 2):
        client.post(f"/api/v1/pools/{REMEMBERING}/workloads/", {
            "tenant": f"{REMEMBERING}-{number}", "name": "work", "demand": {"cpu": number, "memory": 3},
        })  # fmt: skip
    return client


def test_whatever_breaks_nothing_accepted_is_lost_and_the_service_comes_back(
    launched: LaunchedService, client: Client, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = launched.url
    changers = [Changer(url, key, pool, SEED + n, 0.1) for n, pool in enumerate(CHANGED)]
    reporters = [Reporter(url, key, REPORTED, f"{REPORTED}-{n}", pause=0.3) for n in (1, 2)]
    reader, follower = Reader(url, key, CHANGED[0]), Follower(url, key)
    storm = Storm(launched, SEED, KINDS, without=() if CHOSEN else LONG)
    clients: list[Changer | Reporter] = [*changers, *reporters]
    assert seconds_until_decided(client, CHANGED, PATIENCE_SECONDS) < PATIENCE_SECONDS
    for each in (*clients, reader, follower):
        each.start()
    began = time.monotonic()
    storm.rage(SECONDS)
    for busy in clients:
        busy.enough.set()
    for busy in clients:
        busy.join()
    decided_after = seconds_until_decided(client, CHANGED, PATIENCE_SECONDS)
    ended = time.monotonic()
    reader.enough.set()
    follower.enough.set()
    follower.join()

    database = launched.database()
    accepted = {
        changer.pool: [
            path.split("/")[-2] for path in changer.accepted.objects if "/workloads/" in path
        ]
        for changer in changers
    }
    events: set[str] = set().union(*(reporter.accepted for reporter in reporters))
    found = settled(lambda: wrongs(client, database, accepted))
    found += settled(lambda: ledger_wrongs(database, {REPORTED: events}, ENTRIES_EACH))
    accepted_all = [changer.accepted for changer in changers]
    found += settled(
        lambda: [wrong for each in accepted_all for wrong in changes_wrongs(client, each)]
    )
    found += settled(lambda: decisions_wrongs(client, [*CHANGED, REMEMBERING]))
    found += settled(lambda: metering_wrongs(database))
    found += settled(lambda: consumer_wrongs(database, follower))
    verified = launched.manage("verify")

    answered, outage = availability(reader.reads, began, ended)
    with capsys.disabled():
        _print_hits(storm, reader, began)
        objects = sum(len(changer.accepted.objects) for changer in changers)
        print(
            f"{sum(changer.changes for changer in changers)} changes of {objects} objects in"
            f" {sum(changer.attempts for changer in changers)} requests,"
            f" {sum(changer.accepted.repeated for changer in changers)} keys sent again,"
            f" {sum(len(changer.accepted.simulations) for changer in changers)} simulations;"
            f" {len(events)} events; {len(follower.entries)} entries consumed"
        )
        print(
            f"seed {SEED}: {len(storm.hits)} faults hit; reads answered {answered:.1%}, longest without"
            f" {outage:.1f} s; all decided {decided_after:.1f} s after the last change;"
            f" wrong: {len(found)}; {verified.splitlines()[-1]}"
        )
        for kind, reason in storm.untried.items():
            print(f"not tried: {kind} ({reason})")
        print(*found, sep="\n")
    refused = [reporter.refused for reporter in reporters if reporter.refused]
    assert (found, refused) == ([], [])
    assert len(storm.hits) >= SECONDS / 6
    assert decided_after < PATIENCE_SECONDS


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
    assert changes_wrongs(client, changer.accepted) == []
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
    run = client.get(f"/api/v1/pools/{pool}/decision/").body["run"]["id"]
    change = "UPDATE run_allocation SET tasks = tasks + 1e-9 WHERE run_id = %s AND position = 0"
    changeable.execute(change, [run])
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
    assert metering_wrongs(database) == ["1 metered amounts are not their decision's"]
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
