"""Changes of rates of use between instants, from which the amounts in any interval follow.

Four parts are read: whole buckets of the totals, the widest that fit between two edges; the
entries that begin or end in the quarter of an hour that an edge cuts; the few entries that are
not in the totals yet; and open uses. The work grows with edges, tenants and resources, but neither
with the ledger nor with the time between edges. All edges are read by one statement, so that each
entry is seen in exactly one of the four parts.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.db import connection

from allocator_service.core.planning import indexes_only
from allocator_service.ledger.amounts.intervals import Amounts, Change, Use
from allocator_service.ledger.amounts.open_uses import IS_METERED, OPEN_ENTRIES
from allocator_service.ledger.amounts.totals import COUNTS_AS, EPOCH, buckets_between, quarter_of
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.lookups import entry_lookup
from allocator_service.ledger.models import Kind, TotalsCursor
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

K = TypeVar("K")

# `e` is an entry. An entry in a narrowest bucket that an edge cuts counts before that edge. From
# the first edge in a later bucket on it counts as part of the whole bucket instead (`gone`).
#
# The planner has no statistics that fit here. It would take the few entries beyond the totals for a
# third of the ledger. It is therefore given the end of the totals as numbers, made to seek rows one
# by one by their indexes (LATERAL ... OFFSET 0), and to look the few entries up in a hash (NOT IN).
_PLACES = """
place AS MATERIALIZED (SELECT through, owner_through FROM ledger_totals_cursor WHERE pool_id = %(pool)s),
part AS (
    SELECT * FROM unnest(%(levels)s::int[], %(firsts)s::bigint[], %(lasts)s::bigint[],
                         %(part_edges)s::int[]) AS part (level, first, last, edge)),
cut AS (
    SELECT * FROM unnest(%(begins)s::timestamptz[], %(ends)s::timestamptz[], %(cut_edges)s::int[],
                         %(gone)s::int[]) AS cut (begin, until, edge, gone)),
cut_entries AS MATERIALIZED (
    SELECT e.id, e.server_owner_id AS owner_id, e.tenant_id, e.resource, {counts_as} AS kind,
           e.quantity AS rate, extract(epoch FROM e.start) AS instant, cut.edge, cut.gone
    FROM cut, LATERAL (
        SELECT * FROM ledger_entry
        WHERE pool_id = %(pool)s AND start >= cut.begin AND start < cut.until OFFSET 0) AS e
    WHERE NOT EXISTS (SELECT FROM ledger_pending p WHERE p.entry_id = e.id)
    UNION ALL
    SELECT e.id, e.server_owner_id, e.tenant_id, e.resource, {counts_as},
           -e.quantity, extract(epoch FROM e."end"), cut.edge, cut.gone
    FROM cut, LATERAL (
        SELECT * FROM ledger_entry
        WHERE pool_id = %(pool)s AND "end" >= cut.begin AND "end" < cut.until OFFSET 0) AS e
    WHERE NOT EXISTS (SELECT FROM ledger_pending p WHERE p.entry_id = e.id)),
open_entries AS MATERIALIZED (
    {open_entries}
    AND (%(tenant)s::bigint IS NULL OR o.tenant_id = %(tenant)s OR %(tenant)s = ANY(o.owners)))
""".replace("{counts_as}", COUNTS_AS).replace("{open_entries}", OPEN_ENTRIES)

# The changes between edges, from one table of totals and its cursor.
_CHANGES = """
{name}_fresh AS MATERIALIZED (
    SELECT entry_id AS id, start FROM ledger_seal
    WHERE pool_id = %(pool)s AND sequence > %({through})s),
{name}_unadded AS (
    SELECT id, start, false AS waits FROM {name}_fresh
    UNION ALL
    SELECT entry_id, start, true FROM ledger_pending),
{name}_changes AS (
    SELECT part.edge, {owner} AS owner_id, t.tenant_id, {kind} AS kind, t.resource, t.rate, t.moment
    FROM part CROSS JOIN LATERAL ({rows} OFFSET 0) AS t
    UNION ALL
    SELECT counted.edge, owner_id, tenant_id, kind, resource,
           counted.sign * rate, counted.sign * rate * instant
    FROM cut_entries AS c CROSS JOIN LATERAL (VALUES (edge, 1), (gone, -1)) AS counted (edge, sign)
    WHERE counted.edge IS NOT NULL AND c.id NOT IN (SELECT id FROM {name}_fresh)
    UNION ALL
    SELECT width_bucket(change.instant, %(edges)s::timestamptz[]), e.server_owner_id, e.tenant_id,
           {counts_as}, e.resource, change.sign * e.quantity,
           change.sign * e.quantity * extract(epoch FROM change.instant)
    FROM {name}_unadded AS u CROSS JOIN {entry} AS e
    CROSS JOIN LATERAL (VALUES (e.start, 1), (e."end", -1)) AS change (instant, sign)
    WHERE e.pool_id = %(pool)s AND change.instant < %(last)s
      AND (NOT u.waits OR %(unsealed)s OR {is_metered})
    UNION ALL
    SELECT width_bucket(change.instant, %(edges)s::timestamptz[]), e.server_owner_id, e.tenant_id,
           e.kind, e.resource, change.sign * e.quantity,
           change.sign * e.quantity * extract(epoch FROM change.instant)
    FROM open_entries AS e
    CROSS JOIN LATERAL (VALUES (e.start, 1), (e."end", -1)) AS change (instant, sign)
    WHERE change.instant < %(last)s)
"""
# One tenant's rows have indexes of their own, because the primary key spreads them among all
# others.
_ROWS = """
SELECT * FROM {table} WHERE pool_id = %(pool)s AND level = part.level
   AND bucket >= part.first AND bucket < part.last AND {condition}
"""
_ANY, _ITS_OWN = "%(tenant)s::bigint IS NULL", "tenant_id = %(tenant)s"
_ON_ITS_SERVERS = "owner_id = %(tenant)s AND tenant_id <> %(tenant)s"


def _rows_of(table: str, conditions: Sequence[str]) -> str:
    return "UNION ALL".join(_ROWS.format(table=table, condition=each) for each in conditions)


_TOTAL = {
    "name": "total",
    "rows": _rows_of("ledger_total", [_ANY, _ITS_OWN]),
    "through": "through",
    "owner": "NULL::bigint",
    "kind": "t.kind",
    "counts_as": COUNTS_AS,
    "entry": entry_lookup("u.id", "u.start"),
    "is_metered": IS_METERED,
}
_OWNER_TOTAL = {
    "name": "owner",
    "rows": _rows_of("ledger_owner_total", [_ANY, _ITS_OWN, _ON_ITS_SERVERS]),
    "through": "owner_through",
    "owner": "t.owner_id",
    "kind": "'usage'",
    "counts_as": COUNTS_AS,
    "entry": entry_lookup("u.id", "u.start"),
    "is_metered": IS_METERED,
}
_SUMS = """
SELECT edge, owner_id, tenant_id, kind, resource, sum(rate), sum(moment) FROM ({changes}) AS changes
GROUP BY 1, 2, 3, 4, 5 HAVING sum(rate) <> 0 OR sum(moment) <> 0
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, through, owner_through FROM place
"""
_OF_TENANTS = """
SELECT edge, NULL::bigint AS owner_id, tenant_id, kind, resource, rate, moment FROM total_changes
WHERE kind = ANY(%(kinds)s) AND (%(tenant)s::bigint IS NULL OR tenant_id = %(tenant)s)
  AND (%(among)s::bigint[] IS NULL OR tenant_id = ANY(%(among)s))
"""
_IN_ALL = """
SELECT edge, NULL::bigint AS owner_id, NULL::bigint AS tenant_id, kind, resource, rate, moment
FROM total_changes WHERE kind = ANY(%(kinds)s)
"""
# What has no owner is what is left of all.
_OF_OWNERS = (
    """
SELECT edge, owner_id, tenant_id, kind, resource, rate, moment FROM owned
UNION ALL
SELECT edge, NULL, tenant_id, kind, resource, -rate, -moment FROM owned
WHERE %(tenant)s::bigint IS NULL OR tenant_id = %(tenant)s
UNION ALL
"""
    + _OF_TENANTS
)
_OWNED = """
owned AS MATERIALIZED (
    SELECT * FROM owner_changes WHERE owner_id IS NOT NULL AND kind = 'usage'
      AND (%(tenant)s::bigint IS NULL OR tenant_id = %(tenant)s OR owner_id = %(tenant)s))
"""


def _statement(tables: Sequence[str], changes: str) -> str:
    return f"WITH {', '.join([_PLACES, *tables])} {_SUMS.format(changes=changes)}"


_BY_TENANT = _statement([_CHANGES.format(**_TOTAL)], _OF_TENANTS)
_BY_RESOURCE = _statement([_CHANGES.format(**_TOTAL)], _IN_ALL)
_BY_OWNER = _statement(
    [_CHANGES.format(**_TOTAL), _CHANGES.format(**_OWNER_TOTAL), _OWNED], _OF_OWNERS
)


def amounts_between(
    *,
    pool: Pool,
    edges: Sequence[datetime],
    tenant: Tenant | None = None,
    among: Collection[int] | None = None,
    kinds: Sequence[Kind] = (Kind.USAGE, Kind.ALONE),
    unsealed: bool = False,
) -> Amounts[Use]:
    """Return the amounts used, and used alone, by tenant between ascending edges.

    `tenant` limits them to one tenant, `among` to the tenants with these keys. Metered use counts once
    it is metered. Other entries that are not sealed yet count only with `unsealed`.
    """
    limits = _limits(kinds, tenant, among, unsealed=unsealed)
    return Amounts(edges, _read(_BY_TENANT, pool, edges, limits, Use))


def used_in_all(*, pool: Pool, edges: Sequence[datetime]) -> Amounts[str]:
    """Return the sealed and metered use of each resource by all tenants together."""
    limits = _limits([Kind.USAGE])
    return Amounts(edges, _read(_BY_RESOURCE, pool, edges, limits, lambda *names: names[3]))


def used_of_owners(
    *, pool: Pool, edges: Sequence[datetime], tenant: Tenant | None = None
) -> Amounts[Use]:
    """Return the sealed and metered use by owner of the servers and tenant.

    `tenant` limits it to the use by that tenant and of its servers. `owner` is None for the pool's
    own servers and for unknown ones.
    """
    return Amounts(edges, _read(_BY_OWNER, pool, edges, _limits([Kind.USAGE], tenant), Use))


def _limits(
    kinds: Sequence[Kind],
    tenant: Tenant | None = None,
    among: Collection[int] | None = None,
    *,
    unsealed: bool = False,
) -> dict[str, Any]:
    return {
        "among": None if among is None else list(among),
        "kinds": [kind.value for kind in kinds],
        "tenant": None if tenant is None else tenant.pk,
        "unsealed": unsealed,
    }


def _read(
    statement: str,
    pool: Pool,
    edges: Sequence[datetime],
    limits: Mapping[str, Any],
    name: Callable[[int | None, int, str, str], K],
) -> dict[K, dict[int, Change]]:
    """Return the changes by edge, keyed by a name for owner, tenant, kind and resource."""
    found: dict[K, dict[int, Change]] = {}
    for edge, *names, rate, moment in _rows(
        statement, {"pool": pool.pk, **limits, **_places(edges)}
    ):
        found.setdefault(name(*names), {})[edge] = Change(rate, moment)
    return found


def _places(edges: Sequence[datetime]) -> dict[str, Any]:
    """Return the buckets between edges, and the rest between the last of them and each edge."""
    quarters = [quarter_of(edge) for edge in edges]
    parts, cuts = [], []
    for number, (edge, quarter) in enumerate(zip(edges, quarters, strict=True)):
        before = quarters[number - 1] if number else EPOCH
        parts += [(part, number) for part in buckets_between(before, quarter)]
        # The edge before may cut the same quarter. What precedes it counts there.
        begin = max(quarter, edges[number - 1]) if number else quarter
        if begin < edge:
            # The first edge in a later quarter, for which the whole bucket counts.
            later = bisect_right(quarters, quarter)
            cuts.append((begin, edge, number, later if later < len(edges) else None))
    return {
        "edges": list(edges),
        "last": edges[-1],
        "levels": [part.level for part, _ in parts],
        "firsts": [part.first for part, _ in parts],
        "lasts": [part.last for part, _ in parts],
        "part_edges": [number for _, number in parts],
        "begins": [begin for begin, *_ in cuts],
        "ends": [until for _, until, *_ in cuts],
        "cut_edges": [number for _, _, number, _ in cuts],
        "gone": [later for *_, later in cuts],
    }


def _rows(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that is given the end of the totals.

    It is run again if the totals advanced meanwhile.
    """
    place = TotalsCursor.objects.filter(pk=parameters["pool"]).first()
    cuts = list(zip(parameters["begins"], parameters["ends"], strict=True))
    ends = (0, 0) if place is None else (place.through, place.owner_through)
    while True:
        # Archived entries that an edge cuts, and those beyond totals that are built again.
        archived = [
            Selection(pool=parameters["pool"], changes=cuts),
            Selection(pool=parameters["pool"], after=min(ends)),
        ]
        with (
            indexes_only(),
            entries_with_archived(*archived) as relation,
            connection.cursor() as cursor,
        ):
            cursor.execute(
                statement.replace(ENTRIES, relation),
                {**parameters, "through": ends[0], "owner_through": ends[1]},
            )
            rows = cursor.fetchall()
        moved = next((row[5:] for row in rows if row[0] is None), (0, 0))
        # Numbers that are out of date would count entries twice, in the totals and beyond them.
        if moved == ends:
            return [row for row in rows if row[0] is not None]
        ends = int(moved[0]), int(moved[1])
