"""What must be true when a storm is over, asked of the API's answers and of the database."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import psycopg

from launcher.client import Client


def wrongs(
    client: Client,
    database: str,
    accepted: Mapping[str, Iterable[str]],
    unanswered: Collection[str] = (),
) -> list[str]:
    """Everything that is not as promised; `accepted` are the ids of workloads by pool.

    Whether a workload named in `unanswered` is stored is open: its client has had no answer.
    """
    found: list[str] = []
    with psycopg.connect(database) as connection:
        for pool, ids in accepted.items():
            found += _pool_wrongs(client, connection, pool, set(ids), unanswered)
        found += _run_wrongs(connection)
    return found


def _pool_wrongs(
    client: Client,
    connection: psycopg.Connection[Any],
    pool: str,
    accepted: set[str],
    unanswered: Collection[str],
) -> Iterable[str]:
    stored: dict[str, str] = dict(connection.execute(
        "SELECT w.id::text, w.name FROM workload w JOIN pool p ON p.id = w.pool_id"
        " WHERE p.slug = %s", [pool]
    ).fetchall())  # fmt: skip
    if lost := accepted - stored.keys():
        yield f"{pool}: {len(lost)} accepted workloads are not stored"
    told = {id_ for id_, name in stored.items() if name in unanswered} | accepted
    if doubled := stored.keys() - told:
        yield f"{pool}: {len(doubled)} workloads are stored that no client was told of"
    withdrawn = {
        id_
        for (id_,) in connection.execute(
            "SELECT w.id::text FROM workload w JOIN pool p ON p.id = w.pool_id"
            " WHERE p.slug = %s AND w.state = 'withdrawn'",
            [pool],
        )
    }
    decision = client.get(f"/api/v1/pools/{pool}/decision/").body
    decided = [row["workload"]["id"] for row in client.pages(f"/api/v1/pools/{pool}/allocations/")]
    if withdrawn & set(decided):
        yield f"{pool}: withdrawn workloads are in the decision in force"
    if missing := stored.keys() - withdrawn - set(decided):
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
    # Pools that remember always wait for their next boundary.
    "jobs are not settled": """
        SELECT count(*) FROM pool_recompute_job j JOIN pool p ON p.id = j.pool_id
        WHERE wanted <> settled AND (NOT p.policy_long_term OR j.run_after < now())""",
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
            OR (run.policy ->> 'mode' <> 'indivisible'
                AND NOT EXISTS (SELECT FROM run_certificate c WHERE c.run_id = run.id
                                UNION ALL SELECT FROM run_step s WHERE s.run_id = run.id)))""",
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


# What is metered: entries of decisions, and the uses that are open through where a pool is metered.
METERED = """
metered AS (
    SELECT pool_id, tenant_id, workload_id, server_owner_id, resource, kind, quantity, start, "end"
    FROM ledger_entry WHERE source = 'decisions' AND kind <> 'correction'
    UNION ALL
    SELECT o.pool_id, o.tenant_id, use.workload, use.owner, use.resource, use.kind, use.quantity,
           o.start, m.metered_until
    FROM ledger_open_use o JOIN pool_meter m ON m.pool_id = o.pool_id
    CROSS JOIN unnest(o.workloads, o.owners, o.resources, o.kinds, o.quantities)
        AS use (workload, owner, resource, kind, quantity))
"""
# Of each decision, of one pool or of all: from when on it was in force, and until when of that it has
# been metered.
IN_FORCE = """
in_force AS (
    SELECT r.id, r.pool_id, r.effective_from AS since,
           LEAST(COALESCE(r.effective_until, m.metered_until), m.metered_until) AS until
    FROM run r JOIN pool_meter m ON m.pool_id = r.pool_id JOIN pool p ON p.id = r.pool_id
    WHERE (%(pool)s::text IS NULL OR p.slug = %(pool)s)
      AND r.status = 'succeeded' AND r.effective_from < m.metered_until)
"""

_POSTED = """
SELECT i.event_id, (SELECT count(*) FROM ledger_entry e
                    WHERE e.pool_id = i.pool_id AND e.source = i.source AND e.event_id = i.event_id)
FROM ledger_identity i JOIN pool p ON p.id = i.pool_id WHERE p.slug = %s
"""
_LEDGER_CHECKS = {
    "entries are of events that nobody posted": """
        SELECT count(*) FROM ledger_entry e WHERE e.event_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM ledger_identity i WHERE i.pool_id = e.pool_id AND i.source = e.source
               AND i.event_id = e.event_id)""",
    "entries are not sealed exactly once in order": """
        SELECT (SELECT count(*) FROM ledger_entry) - (SELECT count(*) FROM ledger_seal)
             + (SELECT coalesce(max(sequence), 0) - count(*) FROM ledger_seal)""",
    "pools were not metered all the time": """
        WITH {metered}
        SELECT count(*) FROM (
            SELECT pool_id, range_agg(tstzrange(start, "end")) AS times FROM metered GROUP BY 1) AS pools
        JOIN pool_meter m USING (pool_id)
        WHERE (SELECT count(*) FROM unnest(times)) <> 1 OR upper(times) <> m.metered_until""",
    "uses are metered twice": """
        WITH {metered}
        SELECT count(*) FROM (
            SELECT start, lag("end") OVER (
                PARTITION BY pool_id, tenant_id, workload_id, server_owner_id, resource, kind
                ORDER BY start, "end") AS before
            FROM metered) AS timelines
        WHERE before > start""",
    "pools were not metered up to their last boundary but one": """
        SELECT count(*) FROM pool_meter m
        WHERE metered_until < date_trunc('minute', now()) - interval '1 minute'""",
}


def ledger_wrongs(
    database: str, accepted: Mapping[str, Iterable[str]], entries_each: int
) -> list[str]:
    """What is not as promised of the ledger; `accepted` are ids of events by pool.

    Every event makes `entries_each` entries.
    """
    found = []
    with psycopg.connect(database) as connection:
        for pool, ids in accepted.items():
            posted: dict[str, int] = dict(connection.execute(_POSTED, [pool]).fetchall())
            if lost := set(ids) - posted.keys():
                found.append(f"{pool}: {len(lost)} accepted events are not posted")
            if wrong := [id_ for id_, count in posted.items() if count != entries_each]:
                found.append(f"{pool}: {len(wrong)} events have another number of entries")
        for what, query in _LEDGER_CHECKS.items():
            statement = query.replace("{metered}", METERED)
            (count,) = connection.execute(statement).fetchone() or (0,)
            if count:
                found.append(f"{count} {what}")
    return found
