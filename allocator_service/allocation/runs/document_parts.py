"""Rows of the database as parts of an evaluation document."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from orjson import loads

from allocator_service.allocation.runs.known import Document, Row
from allocator_service.core.quantities import Resource, decimal_text, json_number
from allocator_service.pools.clusters import CLUSTER_LABEL
from allocator_service.pools.limits import limits_from
from allocator_service.pools.models import OwnServers, Pool
from allocator_service.pools.selectors import ServerGroup, group_terms_of
from allocator_service.workloads.gangs import pieces_from


def document_groups(pool: Pool, now: datetime) -> dict[str, Any]:
    """Return the groups of the pool, by the key of the document.

    Without any the key is absent, so that flat pools keep their digests.
    """
    rows = (
        group_terms_of(pool=pool)
        .order_by("group_id")
        .values_list("group__slug", "parent__slug", "weight", "tier", "guarantee", "limit")
    )
    groups = [
        {"name": slug, "parent": parent, "weight": document_number(weight), "tier": tier}
        | amounts_in_force(now, guarantee=guarantee, limit=limit)
        for slug, parent, weight, tier, guarantee, limit in rows
    ]
    return {"groups": groups} if groups else {}


def document_tenant(row: Row) -> Document:
    """Return a tenant of the document, without amounts.

    `group` and `tier` are absent where they are the defaults.
    """
    slug, weight, best_effort, group, tier = row
    tenant = {"name": slug, "weight": document_number(weight), "best_effort": best_effort}
    if group is not None:
        tenant["group"] = group
    if tier:
        tenant["tier"] = tier
    return tenant


def document_workload(resources: Sequence[Resource], has_clusters: bool, row: Row) -> Document:
    """Return a workload of the document, without limits."""
    slug, name, amounts, tasks, priority, selector, pieces, *gang = row
    # PostgreSQL's text of an array, which is parsed only for rows that have changed.
    vector = [Decimal(amount) for amount in amounts[1:-1].split(",") if amount]
    demand = document_quantities(vector, resources)
    return {
        "tenant": slug,
        "name": name,
        "demand": demand,
        **in_one_cluster(document_gang(demand, loads(pieces), *gang), has_clusters),
        "tasks": tasks,
        "priority": priority,
        "server_selector": loads(selector),
    }


def document_servers(
    groups: Sequence[ServerGroup], resources: Sequence[Resource]
) -> list[dict[str, Any]]:
    """Return the servers of the document, a row for each group of identical ones."""
    servers, names = [], set[str]()
    for position, group in enumerate(groups):
        name = group.first
        if name in names:  # names are unique per contributor, in a document among all servers
            name = f"{group.first}/{position}"
        names.add(name)
        server: dict[str, Any] = {
            "name": name,
            "capacity": document_quantities(group.capacity, resources),
            "count": group.count,
            "labels": group.labels,
            "contributed_by": group.contributed_by,
        }
        if group.draining:
            server["draining"] = True
        servers.append(server)
    return servers


class OwnServerSettings:
    """The members' setting to always have on their own servers what they would get there alone.

    The setting of the member counts, else that of the nearest group that has one, else the pool's.
    """

    def __init__(self, pool: Pool, contributors: Collection[str | None]) -> None:
        self.contributors = contributors
        self._pool = pool.own_servers
        rows = group_terms_of(pool=pool).values_list("group__slug", "parent__slug", "own_servers")
        self._groups = {slug: (parent, setting) for slug, parent, setting in rows}

    def of(self, slug: str, group: str | None, setting: str) -> dict[str, bool]:
        """Return the field of a member's document, absent if it is not so."""
        while setting == OwnServers.INHERIT and group is not None:
            group, setting = self._groups[group]
        is_so = self._pool if setting == OwnServers.INHERIT else setting == OwnServers.YES
        return {"own_servers": True} if is_so and slug in self.contributors else {}


def amounts_in_force(now: datetime, **stored: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the limits, guarantees and loans in force at an instant, by the keys of the document.

    A key without any is absent, so that nodes without them keep their digests.
    """
    found = {
        kind: [
            {
                "where": limit.where,
                "amount": {name: document_number(amount) for name, amount in limit.amount.items()},
            }
            for limit in limits_from(entries)
            if limit.is_in_force(now)
        ]
        for kind, entries in stored.items()
    }
    return {kind: rows for kind, rows in found.items() if rows}


def document_gang(
    demand: Mapping[str, Any],
    pieces: Sequence[Mapping[str, Any]],
    per_server: int | None,
    together: str,
    at_least: int,
) -> dict[str, Any]:
    """Return the fields of a workload with a gang in an evaluation document, none for others."""
    if not pieces and at_least == 1:
        return {}
    rows = [
        {
            "count": each.count,
            "demand": {name: document_number(amount) for name, amount in each.demand.items()},
        }
        for each in pieces_from(pieces)
    ]
    return {
        "pieces": rows or [{"count": 1, "demand": dict(demand)}],
        "per_server": per_server,
        "together": together or None,
        "at_least": at_least,
    }


def in_one_cluster(gang: dict[str, Any], has_clusters: bool) -> dict[str, Any]:
    """Return the fields of a gang, whose pieces no scheduler can start in another one's cluster."""
    if not gang or gang["together"] or not has_clusters:
        return gang
    return {**gang, "together": CLUSTER_LABEL}


def document_quantities(vector: Sequence[Decimal], resources: Sequence[Resource]) -> dict[str, Any]:
    """Return a vector as in an evaluation document, by resource name and without zeros."""
    return {
        resource.name: document_number(quantity)
        for resource, quantity in zip(resources, vector, strict=False)
        if quantity
    }


def document_number(quantity: Decimal) -> int | float | str:
    """Return a quantity as a JSON number, or as text where a double would change it."""
    number = json_number(quantity)
    # A double that differs in its last digit would give the document another digest than its text.
    return number if Decimal(repr(number)) == quantity else decimal_text(quantity)
