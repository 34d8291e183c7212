"""What must be true of pools that remember when a storm is over: boundaries, metering, windows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from allocator_service.allocation.runs.publication import TICK
from launcher.client import Client
from tests.faults.checker import IN_FORCE, METERED

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Remembering:
    """A pool's steps and window, in seconds."""

    interval: int
    kind: str
    length: int

    def settings(self) -> dict[str, Any]:
        """As the API is told."""
        return {
            "policy": {"name": "h-mrf"},
            "decision_interval": f"PT{self.interval}S",
            "window": {"kind": self.kind, "length": f"PT{self.length}S"},
        }

    def since(self, begin: datetime) -> datetime:
        """Where the window of the step that begins then begins."""
        if self.kind == "sliding":
            return begin + timedelta(seconds=self.interval - self.length)
        return begin - (begin - EPOCH) % timedelta(seconds=self.length)


@dataclass(frozen=True)
class Boundaries:
    """How many boundaries there were, and how many of them nobody decided."""

    passed: int
    missed: int


_STEPS = """
SELECT r.id::text, s.begin, s.since, r.started_at, r.finished_at
FROM run_step s JOIN run r ON r.id = s.run_id JOIN pool p ON p.id = r.pool_id
WHERE p.slug = %s AND r.status = 'succeeded'
ORDER BY s.begin, r.effective_from
"""
# What lies in each step's window, entry by entry.
_WINDOWS = """
WITH {metered}
SELECT s.run_id::text, t.slug, e.kind, e.resource,
       sum(e.quantity * extract(epoch FROM LEAST(e."end", s.begin) - GREATEST(e.start, s.since)))
FROM run_step s JOIN run r ON r.id = s.run_id JOIN pool p ON p.id = r.pool_id
JOIN metered e ON e.pool_id = p.id AND e.start < s.begin AND e."end" > s.since
JOIN tenant t ON t.id = e.tenant_id
WHERE p.slug = %s AND r.status = 'succeeded' GROUP BY 1, 2, 3, 4
""".replace("{metered}", METERED)
_METERED = {
    "timelines have gaps, or intervals twice": """
        WITH {in_force}, {metered}
        SELECT count(*) FROM (
            SELECT f.until - f.since AS lasted,
                   sum(LEAST(e."end", f.until) - GREATEST(e.start, f.since)) AS metered
            FROM in_force f JOIN metered e
              ON e.pool_id = f.pool_id AND e.start < f.until AND e."end" > f.since
            GROUP BY f.id, f.since, f.until, tenant_id, workload_id, server_owner_id, resource, kind
        ) AS timelines
        WHERE lasted <> metered""",
    "intervals of a timeline overlap": """
        WITH {metered}
        SELECT count(*) FROM (
            SELECT start, lag("end") OVER (
                PARTITION BY tenant_id, workload_id, server_owner_id, resource, kind
                ORDER BY start, "end") AS before
            FROM metered e JOIN pool p ON p.id = e.pool_id WHERE p.slug = %(pool)s) AS timelines
        WHERE before > start""",
    "amounts are not what decisions gave for as long as they were in force": """
        WITH {in_force}, {metered},
        given AS (
            SELECT a.workload_id, t.name AS resource,
                   sum(a.resources[t.position + 1]::numeric
                       * extract(epoch FROM in_force.until - in_force.since)) AS amount
            FROM in_force JOIN run_allocation a ON a.run_id = in_force.id
            JOIN pool_resource_type t ON t.pool_id = in_force.pool_id
            WHERE a.tasks > 0 GROUP BY 1, 2),
        used AS (
            SELECT workload_id, resource, sum(quantity * extract(epoch FROM "end" - start)) AS amount
            FROM metered e JOIN pool p ON p.id = e.pool_id
            WHERE p.slug = %(pool)s AND kind = 'usage' GROUP BY 1, 2)
        SELECT count(*) FROM given FULL JOIN used USING (workload_id, resource)
        WHERE given.amount IS DISTINCT FROM used.amount""",
}


def long_term_wrongs(
    client: Client,
    database: str,
    pools: Mapping[str, Remembering],
    *,
    calm: datetime,
    now: datetime,
) -> tuple[list[str], dict[str, Boundaries]]:
    """Everything that is not as promised of these pools, and how many boundaries each had.

    A boundary that comes while no worker can work is missed; from `calm` on, none may be.
    """
    found: list[str] = []
    counts = {}
    with psycopg.connect(database) as connection:
        # All of it as of one moment: the service decides further steps meanwhile.
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for pool, chosen in pools.items():
            steps = connection.execute(_STEPS, [pool]).fetchall()
            begins = [begin for _, begin, *_ in steps]
            counts[pool] = boundaries(begins, chosen)
            found += [f"{pool}: {wrong}" for wrong in _boundary_wrongs(begins, chosen, calm, now)]
            for wrong, query in _METERED.items():
                statement = query.replace("{in_force}", IN_FORCE).replace("{metered}", METERED)
                (count,) = connection.execute(statement, {"pool": pool}).fetchone() or (0,)
                if count:
                    found.append(f"{pool}: {count} {wrong}")
            if any(map(_decides_twice, steps, steps[1:])):
                found.append(
                    f"{pool}: a boundary is decided twice by a clock that was not set back"
                )
            if moved := [begin for _, begin, since, *_ in steps if since != chosen.since(begin)]:
                found.append(f"{pool}: {len(moved)} windows reach elsewhere")
            sums = connection.execute(_WINDOWS, [pool]).fetchall()
            if others := _other_windows(client, [run for run, *_ in steps], sums):
                found.append(
                    f"{pool}: {len(others)} amounts in windows are not the ledger's: {others[0]}"
                )
    return found, counts


def _decides_twice(before: tuple[Any, ...], step: tuple[Any, ...]) -> bool:
    """Whether a boundary is decided again without a clock that was set back.

    A run that began before it was set back, and whose worker died, keeps the instant at which it
    began. Its end shows the clock: never before the end of the decision that it follows.
    """
    (_, decided, _, _, ended), (_, begin, _, started, finished) = before, step
    set_back = started < begin or finished - ended <= TICK
    return bool(begin == decided and not set_back)


def boundaries(begins: list[datetime], chosen: Remembering) -> Boundaries:
    """Those from the first that was decided to the last."""
    if not begins:
        return Boundaries(0, 0)
    passed = (begins[-1] - begins[0]) // timedelta(seconds=chosen.interval) + 1
    return Boundaries(passed, passed - len(set(begins)))


def _boundary_wrongs(
    begins: list[datetime], chosen: Remembering, calm: datetime, now: datetime
) -> Iterable[str]:
    since_then = [begin for begin in begins if begin >= calm]
    step = timedelta(seconds=chosen.interval)
    if not since_then or now - since_then[-1] > 2 * step:
        yield "its boundaries pass undecided"
    elif since_then[0] - calm >= step or boundaries(since_then, chosen).missed:
        yield "a boundary was not decided though all was calm"
    if any((begin - EPOCH) % step for begin in begins):
        yield "a step begins between boundaries"


def _other_windows(client: Client, runs: list[str], sums: list[tuple[Any, ...]]) -> list[str]:
    """The amounts that the inputs of runs have otherwise, over HTTP: whose, theirs and the ledger's."""
    # Of a window that begins with its step, intervals that go on over that instant have nothing.
    expected = {tuple(key): float(amount) for *key, amount in sums if amount}
    told: dict[tuple[str, ...], float] = {}
    for run in runs:
        history = client.get(f"/api/v1/runs/{run}/input/").body["history"]
        for tenant, row in history["tenants"].items():
            for what, kind in (("used", "usage"), ("alone", "alone")):
                told |= {
                    (run, tenant, kind, resource): amount
                    for resource, amount in row[what].items()
                    if amount
                }
    return [
        f"{' '.join(key)} is {told.get(key)}, not {expected.get(key)}"
        for key in sorted(told.keys() | expected.keys())
        if told.get(key) != expected.get(key)
    ]
