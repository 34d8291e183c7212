"""What must be true of everything that a storm's clients changed, asked over the API when it is over."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg

from launcher.client import Client
from tests.faults.changers import Accepted, Follower
from tests.faults.checker import IN_FORCE, METERED

# Members of a document that quantities make: what was sent as 4 is shown as 4 or "4".
_QUANTITIES = ("demand", "capacity", "weight")


def changes_wrongs(client: Client, accepted: Accepted) -> list[str]:
    """What a client was told is stored, and is not."""
    found = list(accepted.wrongs)
    for path, kept in accepted.objects.items():
        answer = client.request("GET", path)
        if answer.status != 200:
            if kept.members.get("state") != "withdrawn":
                found.append(f"{path}: {answer.status}, accepted as {kept.members}")
            continue
        if kept.version is not None and answer.body["version"] != kept.version:
            found.append(f"{path}: version {answer.body['version']}, accepted {kept.version}")
        for name, value in kept.members.items():
            if not _same(name, answer.body.get(name), value):
                found.append(f"{path}: {name} is {answer.body.get(name)}, accepted {value}")
    for path in accepted.simulations:
        status = client.get(path).body["status"]
        if status != "succeeded":
            found.append(f"{path}: {status}")
    return found


def _same(name: str, stored: Any, sent: Any) -> bool:
    if name in _QUANTITIES:
        if isinstance(sent, dict):
            return stored is not None and {key: Decimal(str(stored[key])) for key in stored} == {
                key: Decimal(str(sent[key])) for key in sent
            }
        return Decimal(str(stored)) == Decimal(str(sent))
    if isinstance(sent, dict):
        return all(stored.get(key) == value for key, value in sent.items())
    return bool(stored == sent)


def decisions_wrongs(client: Client, pools: Iterable[str]) -> list[str]:
    """Decisions in force that are another one than an evaluation of their own input."""
    found = []
    for pool in pools:
        decision = client.get(f"/api/v1/pools/{pool}/decision/").body
        run = decision["run"]["id"]
        document = client.get(f"/api/v1/runs/{run}/input/").body
        evaluated = client.post("/api/v1/evaluations/", document).body
        served = client.pages(f"/api/v1/runs/{run}/allocations/")
        rows = zip(served, evaluated["allocations"], strict=True)
        if any(row["tasks"] != other["tasks"] for row, other in rows):
            found.append(f"{pool}: run {run} is not what its input makes")
    return found


# Decisions for as long as they were in force and metered. A use that does not change is one interval
# of several decisions, and names the first of them.
_METERING_CHECKS = {
    "metered amounts are not their decision's": """
        SELECT count(*) FROM (
            SELECT f.id, e.workload_id, e.resource,
                   sum(e.quantity
                       * extract(epoch FROM LEAST(e."end", f.until) - GREATEST(e.start, f.since)))
                       / extract(epoch FROM f.until - f.since) AS quantity
            FROM in_force f JOIN metered e
              ON e.pool_id = f.pool_id AND e.start < f.until AND e."end" > f.since
            WHERE e.kind = 'usage' AND e.workload_id IS NOT NULL
            GROUP BY f.id, f.since, f.until, 2, 3) AS used
        JOIN run_allocation a ON a.run_id = used.id AND a.workload_id = used.workload_id
        JOIN run ON run.id = used.id
        JOIN pool_resource_type r ON r.pool_id = run.pool_id AND r.name = used.resource
        WHERE NOT EXISTS (SELECT FROM run_schedule s WHERE s.run_id = used.id)
          AND abs(used.quantity - a.resources[r.position + 1]::numeric) > 1e-9""",
    "intervals are of a time without a decision": """
        SELECT count(*) FROM metered e
        WHERE "end" - start IS DISTINCT FROM (
            SELECT sum(LEAST(e."end", f.until) - GREATEST(e.start, f.since)) FROM in_force f
            WHERE f.pool_id = e.pool_id AND f.since < e."end" AND f.until > e.start)""",
    "entries name a decision that was not in force when they start": """
        SELECT count(*) FROM ledger_entry e LEFT JOIN in_force f ON f.id = e.run_id
        WHERE e.source = 'decisions' AND e.kind <> 'correction'
          AND (f.id IS NULL OR e.start < f.since OR e.start >= f.until)""",
}


def metering_wrongs(database: str) -> list[str]:
    """Metered amounts that are not those of the decision that was in force, or of another time."""
    found = []
    with psycopg.connect(database) as connection:
        for wrong, query in _METERING_CHECKS.items():
            statement = f"WITH {IN_FORCE}, {METERED} {query}"
            (count,) = connection.execute(statement, {"pool": None}).fetchone() or (0,)
            if count:
                found.append(f"{count} {wrong}")
    return found


def consumer_wrongs(database: str, follower: Follower) -> list[str]:
    """What a consumer that followed the feed has missed, has twice, or has in another order."""
    if not follower.read():
        return ["the feed cannot be read to its end"]
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT entry_id::text FROM ledger_seal ORDER BY sequence")
        sealed = [entry for (entry,) in rows.fetchall()]
    read = follower.entries
    if read == sealed[: len(read)] and len(sealed) - len(read) < 1_000:
        return []  # metering goes on
    missed, more = len(set(sealed) - set(read)), len(read) - len(set(read))
    return [f"the consumer missed {missed} entries, has {more} twice, or another order"]


def seconds_until_decided(client: Client, pools: Sequence[str], patience: float) -> float:
    """How long it takes until every pool's decision is of its last change."""
    begin = datetime.now(UTC)
    waiting = list(pools)
    while waiting:
        elapsed = (datetime.now(UTC) - begin).total_seconds()
        if elapsed > patience:
            break
        waiting = [pool for pool in waiting if not _decided(client, pool)]
    return (datetime.now(UTC) - begin).total_seconds()


def _decided(client: Client, pool: str) -> bool:
    try:
        generation = int(client.get(f"/api/v1/pools/{pool}/").headers["Pool-Generation"])
        decision = client.request("GET", f"/api/v1/pools/{pool}/decision/")
    except Exception:  # noqa: BLE001 - whatever it is, the service does not answer yet
        return False
    return decision.status == 200 and int(decision.body["generation"]) >= generation
