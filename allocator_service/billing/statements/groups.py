"""Statements of groups, composed of the statements of the tenants below them when they are read.

Nothing of a group is stored: a closed month's statements and the tree at its end never change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from allocator_service.billing.models import Closing, Posting, Statement
from allocator_service.billing.months import Month, month_named, months_between
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.statements.closing import closing_of, tenants_of
from allocator_service.billing.statements.clusters import month_clusters
from allocator_service.billing.statements.documents import (
    CLOSED,
    OPEN,
    clusters_document,
    document_of,
    instant_text,
    money_text,
    statement_lines,
)
from allocator_service.billing.statements.drafting import first_month, month_draft, open_month
from allocator_service.billing.statements.selectors import StatementRow
from allocator_service.core.money import exactly
from allocator_service.core.quantities import decimal_text
from allocator_service.core.snapshots import one_snapshot
from allocator_service.ledger.amounts.clusters import cluster_order
from allocator_service.pools.models import Group, Pool
from allocator_service.pools.selectors import group_missing
from allocator_service.pools.tree_history import Place, group_named, groups_before, places_before

TOTALS = ("charges", "credits", "billed", "effective")
TREE = (
    "A tenant's statement counts as a whole for the group that the tenant belonged to at `tree_at`: the"
    " end of the month, or now where the month is open. A membership that had ended counts where it was"
    " last. What tenants of the group charge each other is in charges and in credits."
)


@dataclass(frozen=True)
class _Part:
    """A tenant's part of a group's statement. `clusters` are None where its statement has none."""

    totals: Mapping[str, str]
    clusters: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True)
class GroupMonth:
    """A month in the list of a group's statements. `billed` is None while it is open."""

    month: str
    group: str
    state: str
    tenants: int
    billed: str | None
    closed_at: datetime | None


@exactly
def group_statement(
    *, pool: Pool, month: Month, slug: str, now: datetime, within: Group | None = None
) -> dict[str, Any]:
    """Return the statement of a group for a month.

    Raises `Missing` for a group that the pool never had, or that was not `within` another one.
    """
    tree_at = min(month.end, now)
    group = group_named(pool=pool, slug=slug, before=tree_at)
    if not _is_within(group, within, tree_at):
        raise group_missing()
    with one_snapshot():
        places = places_before(group=group, before=tree_at)
        closing = closing_of(pool, month)
        # A closed month is read from its statements, whatever prices and entries are by now.
        parts = _stored(closing, places) if closing else _drafted(pool, month, places)
    totals = {key: part.totals for key, part in parts.items()}
    clusters = [part.clusters for part in parts.values() if part.clusters is not None]
    digits = minor_digits(pool)
    by_group: dict[str, list[Mapping[str, str]]] = {}
    for key, of_tenant in totals.items():
        child = places[key].child
        if child.is_group:
            by_group.setdefault(child.slug, []).append(of_tenant)
    return {
        "pool": pool.slug,
        "group": slug,
        "month": str(month),
        "state": CLOSED if closing else OPEN,
        "currency": pool.currency,
        "timezone": pool.timezone,
        "from": instant_text(month.start),
        "to": instant_text(month.end),
        "closed_at": instant_text(closing.closed_at) if closing else None,
        "tree_at": instant_text(tree_at),
        "totals": _sum(totals.values(), digits),
        "groups": [
            {"group": each, "tenants": len(rows), **_sum(rows, digits)}
            for each, rows in sorted(by_group.items())
        ],
        "tenants": [
            {"tenant": places[key].tenant, "group": places[key].group, **of_tenant}
            for key, of_tenant in sorted(totals.items(), key=lambda item: places[item[0]].tenant)
        ],
        "definition": TREE,
        # As on the statements of tenants: absent without clusters, and from earlier closed months.
        **({"clusters": _cluster_sums(clusters)} if clusters else {}),
    }


def group_months(
    *, pool: Pool, slug: str, now: datetime, within: Group | None = None
) -> list[GroupMonth]:
    """Return the months of a group with statements of tenants below it, oldest first.

    Months are left out in which it was not `within` another one, if given. Raises `Missing` for a
    group that the pool never had, or that is not within the other one now.
    """
    group = group_named(pool=pool, slug=slug, before=now)
    if not _is_within(group, within, now):
        raise group_missing()
    first, earliest = first_month(pool), open_month(pool)
    if first is None or first.start > now:
        return []
    closings = {each.month: each for each in Closing.objects.filter(pool=pool).defer("document")}
    billed: dict[Any, dict[int, Decimal]] = {}
    rows = Statement.objects.filter(closing__pool=pool).values_list(
        "closing__month", "tenant", "billed"
    )
    for of_month, tenant, amount in rows:
        billed.setdefault(of_month, {})[tenant] = amount
    digits, months = minor_digits(pool), []
    for month in months_between(first.start, now, pool.timezone):
        tree_at = min(month.end, now)
        # A slug may have named another group then, whose statements these were.
        of = group if tree_at == now else group_named(pool=pool, slug=slug, before=tree_at)
        if not _is_within(of, within, tree_at):
            continue
        places = places_before(group=of, before=tree_at)
        closing = closings.get(month.first)
        if closing is not None:
            amounts = [
                amount for key, amount in billed.get(month.first, {}).items() if key in places
            ]
            total = money_text(_added(amounts), digits)
            row = GroupMonth(str(month), slug, CLOSED, len(amounts), total, closing.closed_at)
        # Before the first prices there are no statements.
        elif earliest is None or month < earliest:
            continue
        else:
            row = GroupMonth(str(month), slug, OPEN, len(places), None, None)
        if row.tenants:
            months.append(row)
    return months


def rows_within(rows: Iterable[StatementRow], *, group: Group, now: datetime) -> list[StatementRow]:
    """Return the statements of tenants that were below a group when their month ended."""
    places: dict[str, set[str]] = {}
    kept = []
    for row in rows:
        # Rows are by month, and the tree is read once for each.
        if row.month not in places:
            month = month_named(row.month, group.pool.timezone)
            before = now if month is None else min(month.end, now)
            found = places_before(group=group, before=before)
            places[row.month] = {place.tenant for place in found.values()}
        if row.tenant in places[row.month]:
            kept.append(row)
    return kept


def _is_within(group: Group, outer: Group | None, before: datetime) -> bool:
    return outer is None or group.pk in groups_before(group=outer, before=before)


def _stored(closing: Closing, places: Mapping[int, Place]) -> dict[int, _Part]:
    stored = Statement.objects.filter(closing=closing, tenant__in=list(places))
    parts = {}
    for tenant, content in stored.values_list("tenant", "document").iterator():
        document = document_of(bytes(content))
        parts[tenant] = _Part(document["totals"], document.get("clusters"))
    return parts


def _drafted(pool: Pool, month: Month, places: Mapping[int, Place]) -> dict[int, _Part]:
    draft = month_draft(pool=pool, month=month)
    tenants = tenants_of(pool, month, draft.lines)
    lines: dict[int, list[Posting]] = {key: [] for key in places.keys() & tenants.keys()}
    for line in draft.lines:
        # A line of two tenants of the group is in both of their statements.
        for key in {line.tenant_id, line.owner_id or line.tenant_id} & lines.keys():
            lines[key].append(line)
    used = month_clusters(pool, month, list(lines))
    return {
        key: _Part(
            statement_lines(pool, key, own, tenants)[1],
            None if used is None else clusters_document(used.get(key, {})),
        )
        for key, own in lines.items()
    }


def _cluster_sums(statements: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the sums of the hours that statements of tenants state for each cluster."""
    hours: dict[str | None, dict[str, list[Decimal]]] = {}
    for clusters in statements:
        for row in clusters:
            of_cluster = hours.setdefault(row["cluster"], {})
            for name, amount in row["hours"].items():
                of_cluster.setdefault(name, []).append(Decimal(amount))
    return [
        {
            "cluster": cluster,
            "hours": {
                name: decimal_text(_added(amounts))
                for name, amounts in sorted(hours[cluster].items())
            },
        }
        for cluster in sorted(hours, key=cluster_order)
    ]


def _sum(rows: Iterable[Mapping[str, str]], digits: int) -> dict[str, str]:
    rows = list(rows)
    return {name: money_text(_added(Decimal(row[name]) for row in rows), digits) for name in TOTALS}


@exactly
def _added(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))
