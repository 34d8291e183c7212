"""What must be true when a storm is over, asked of the API's answers and of the database."""

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg

from launcher.client import Client


def wrongs(client: Client, database: str, accepted: Mapping[str, Iterable[str]]) -> list[str]:
    """Everything that is not as promised; `accepted` are the ids of workloads by pool."""
    found: list[str] = []
    with psycopg.connect(database) as connection:
        for pool, ids in accepted.items():
            found += _pool_wrongs(client, connection, pool, set(ids))
        found += _run_wrongs(connection)
    return found


def _pool_wrongs(
    client: Client, connection: psycopg.Connection[Any], pool: str, accepted: set[str]
) -> Iterable[str]:
    stored = [str(id_) for (id_,) in connection.execute(
        "SELECT w.id FROM workload w JOIN pool p ON p.id = w.pool_id WHERE p.slug = %s", [pool]
    )]  # fmt: skip
    if lost := accepted - set(stored):
        yield f"{pool}: {len(lost)} accepted workloads are not stored"
    if doubled := set(stored) - accepted:
        yield f"{pool}: {len(doubled)} workloads are stored that no client was told of"
    decision = client.get(f"/api/v1/pools/{pool}/decision/").body
    decided = [row["workload"]["id"] for row in client.pages(f"/api/v1/pools/{pool}/allocations/")]
    if missing := set(stored) - set(decided):
        yield f"{pool}: {len(missing)} stored workloads are not in the decision in force"
    if len(decided) != len(set(decided)):
        yield f"{pool}: a workload is in the decision twice"
    (generation,) = connection.execute(
        "SELECT generation FROM pool WHERE slug = %s", [pool]
    ).fetchone() or (None,)
    if decision["generation"] != generation:
        yield f"{pool}: decided at {decision['generation']}, changed at {generation}"
    verdict = client.post(f"/api/v1/runs/{decision['run']['id']}/verify/", {}).body
    if not verdict["valid"]:
        yield f"{pool}: the decision in force does not verify"


_RUN_CHECKS = {
    "runs are stuck": "SELECT count(*) FROM run WHERE status IN ('pending', 'running')",
    "jobs are not settled": "SELECT count(*) FROM pool_recompute_job WHERE wanted <> settled",
    "succeeded runs were not published exactly once": """
        SELECT count(*) FROM run WHERE status = 'succeeded' AND 1 <> (
            SELECT count(*) FROM core_event e WHERE e.kind = 'decision.published'
              AND e.payload ->> 'run' = run.id::text)""",
    "decisions are half": """
        SELECT count(*) FROM run JOIN run_snapshot s ON s.digest = run.snapshot_id
        WHERE status = 'succeeded' AND (
            (SELECT count(*) FROM run_allocation a WHERE a.run_id = run.id)
                <> cardinality(s.workload_ids)
            OR run.summary IS NULL
            OR NOT EXISTS (SELECT FROM run_certificate c WHERE c.run_id = run.id))""",
    "failed or running runs have rows": """
        SELECT count(*) FROM run WHERE status <> 'succeeded'
            AND EXISTS (SELECT FROM run_allocation a WHERE a.run_id = run.id)""",
    "generations go back": """
        SELECT count(*) FROM (
            SELECT generation - lag(generation) OVER (
                PARTITION BY pool_id ORDER BY effective_from) AS step
            FROM run WHERE status = 'succeeded') AS steps
        WHERE step < 0""",
    "pools have gaps between decisions": """
        SELECT count(*) FROM (
            SELECT effective_until, lead(effective_from) OVER (
                PARTITION BY pool_id ORDER BY effective_from) AS following
            FROM run WHERE status = 'succeeded') AS decisions
        WHERE effective_until IS DISTINCT FROM following""",
    "events are not sealed exactly once in order": """
        SELECT (SELECT count(*) FROM core_event) - (SELECT count(*) FROM core_event_seal)
             + (SELECT coalesce(max(sequence), 0) - count(*) FROM core_event_seal)""",
}


def _run_wrongs(connection: psycopg.Connection[Any]) -> Iterable[str]:
    for wrong, query in _RUN_CHECKS.items():
        (count,) = connection.execute(query).fetchone() or (0,)
        if count:
            yield f"{count} {wrong}"
