"""Names that people read on a statement beside the slugs of its document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from allocator_service.pools.models import Group, Pool
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_with_retired


@dataclass(frozen=True)
class Names:
    """Names of a pool, tenants and groups by slug. Those without a name keep their slug."""

    pools: Mapping[str, str] = field(default_factory=dict)
    tenants: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)


SLUGS_ALONE = Names()


def statement_names(pool: Pool, tenant: Tenant) -> Names:
    """Return the names on a tenant's statement, of which other tenants have none."""
    return Names({pool.slug: pool.name}, {tenant.slug: tenant.name})


def group_statement_names(pool: Pool, document: Mapping[str, Any]) -> Names:
    """Return the names on the statement of a group."""
    slugs = {row["tenant"] for row in document["tenants"]}
    tenants = tenants_with_retired().filter(slug__in=slugs)
    groups = {
        document["group"],
        *(row["group"] for row in (*document["groups"], *document["tenants"])),
    }
    named = Group.objects.filter(pool=pool, slug__in=groups).order_by("created_at", "pk")
    return Names(
        {pool.slug: pool.name},
        dict(tenants.values_list("slug", "name")),
        dict(named.values_list("slug", "name")),
    )


def named(document: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return a document with the names of its pool, tenant, group and rows."""
    by_field = {"pool": names.pools, "tenant": names.tenants, "group": names.groups}
    shown = {**document, **_named(document, by_field)}
    for table in ("groups", "tenants"):
        if table in document:
            shown[table] = [{**row, **_named(row, by_field)} for row in document[table]]
    return shown


def _named(row: Mapping[str, Any], by_field: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {
        name: _name(row[name], names) for name, names in by_field.items() if row.get(name) in names
    }


def _name(slug: str, names: Mapping[str, str]) -> str:
    name = names[slug]
    return name if name.casefold() == slug else f"{name} ({slug})"
