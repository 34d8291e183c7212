"""What must be true of everything that a storm's clients changed, asked over the API when it is over."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg

from launcher.client import Client
from tests.faults.changers import Accepted, Follower

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


_METERED = """
WITH metered AS (
    SELECT e.run_id, e.workload_id, e.resource, e.start, sum(e.quantity) AS quantity
    FROM ledger_entry e WHERE e.source = 'decisions' AND e.kind = 'usage' AND e.workload_id IS NOT NULL
    GROUP BY 1, 2, 3, 4)
SELECT count(*) FROM metered m
JOIN run ON run.id = m.run_id
JOIN run_allocation a ON a.run_id = m.run_id AND a.workload_id = m.workload_id
JOIN pool_resource_type r ON r.pool_id = run.pool_id AND r.name = m.resource
WHERE NOT EXISTS (SELECT FROM run_schedule s WHERE s.run_id = m.run_id)
  AND abs(m.quantity - a.resources[r.position + 1]::numeric) > 1e-9
"""
_OUTSIDE = """
SELECT count(*) FROM ledger_entry e JOIN run ON run.id = e.run_id
WHERE e.source = 'decisions'
  AND (e.start < run.effective_from OR e."end" > COALESCE(run.effective_until, 'infinity'))
"""


def metering_wrongs(database: str) -> list[str]:
    """Metered amounts that are not those of the decision that was in force, or of another time."""
    with psycopg.connect(database) as connection:
        (other,) = connection.execute(_METERED).fetchone() or (0,)
        (outside,) = connection.execute(_OUTSIDE).fetchone() or (0,)
    found = [f"{other} metered amounts are not their decision's"] if other else []
    return found + ([f"{outside} entries are of a time without their decision"] if outside else [])


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
