"""The command `alloc share`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

import click

from allocator_client._generated.documents.decisions import (
    TreeNodeDocument,
)
from allocator_client._generated.documents.enforcement import (
    EntitlementsDocument,
    EntitlementsGroupBudget,
)
from allocator_client._generated.documents.reports import SharingDegreeDocument
from allocator_client.cli.failures import Failure
from allocator_client.cli.guarantees import guarantee_texts, loan_texts, stop_text
from allocator_client.cli.output import (
    echo,
    print_file,
    print_json,
    table,
)
from allocator_client.cli.session import (
    Session,
    pool_argument,
    tenant_option,
    units,
    with_session,
)
from allocator_client.cli.words import (
    SECONDS_PER_HOUR,
    balance_number,
    instant,
    limit_text,
    number,
    quantities,
)
from allocator_client.client import Client


@click.command()
@pool_argument
@click.option("--all", "everyone", is_flag=True, help="All members that the key sees.")
@tenant_option
@with_session(csv=True)
def share(session: Session, pool: str | None, everyone: bool, tenant: str | None) -> None:
    """Show your entitlement, allocation, loans and usage.

    ENTITLED is the part of the pool by weight. GUARANTEED is the part of the demand that is guaranteed,
    shown if there is any. ALLOCATED is the amount that the decision in force allocates. USED·HOURS is
    the usage of the last 7 days, in the resource's unit × hours. The sharing DEGREE is this usage
    divided by the usage that was possible alone in one's own part of the pool. Above 1, sharing was
    worth it. Below the table are budgets, limits, guarantees, loans and, if the pool has prices, the
    cost of the allocation per hour and over 30 days. A key of a
    group has rows of the group, of the groups directly below it and of its own members.
    """
    if everyone and tenant:
        raise click.UsageError("--all and --tenant exclude each other.")
    slug = session.pool(pool)
    client = session.client
    # None for a key that sees several tenants, which are then all shown.
    tenant = tenant or (None if everyone else session.tenant)
    if session.format == "csv":
        print_file(client.pools_reports_sharing_degree_show_as(slug, format="csv", tenant=tenant))
        return
    shares = client.pools_entitlements_show(slug).body
    group = None
    if tenant and "group" in shares:
        # A group's key gets the sum of its group: the tenant is in it or in one of those below.
        group = _group_of(client, shares["run"], tenant)
        shares = client.pools_entitlements_show(slug, group=group).body
    report = client.pools_reports_sharing_degree_show(
        slug, tenant=None if group else tenant, group=group
    ).body
    nodes = cast("list[TreeNodeDocument]", list(client.runs_tree_list(shares["run"])))
    if tenant:
        shares.pop("group", None), shares.pop("groups", None)
        shares["tenants"] = [row for row in shares["tenants"] if row["tenant"] == tenant]
        nodes = _path_of(nodes, tenant)
    if session.format == "json":
        print_json({"entitlements": shares, "sharing_degree": report, "nodes": nodes})
        return
    unit = units(client.pools_show(slug).body)
    guaranteed = _guaranteed_amounts(nodes)
    table(
        (
            "TENANT",
            "RESOURCE",
            ">ENTITLED",
            *((">GUARANTEED",) if guaranteed else ()),
            ">ALLOCATED",
            ">LENT",
            ">BORROWED",
            ">USED·HOURS",
            ">DEGREE",
        ),
        _share_rows(shares, report, unit, guaranteed),
    )
    echo(
        f"\nBy the decision of generation {shares['generation']:,} of {slug}, {instant(shares['at'])}."
    )
    if of_group := shares.get("group"):
        for each in of_group.get("budgets", ()):  # an older service has none
            echo(_balance_text(f"group {of_group['group']}", each))
    for row in shares["tenants"]:
        for balance in row.get("budgets", ()):
            echo(_balance_text(row["tenant"], balance))
        if cost := row.get("cost"):  # an older service has none
            echo(cost["words"])
        for part in row.get("clusters", ()):
            has = quantities(part["has"], unit)
            echo(f"{row['tenant']} has in the cluster {part['cluster']}: {has}.")
        back = row["returns"]
        # The sentence addresses one tenant.
        if back and len(shares["tenants"]) == 1:
            when = {"at_once": "at once", "next_boundary": "at the next boundary",
                    "next_slot": "in the next slot"}[back["when"]]  # fmt: skip
            at = f", {instant(back['at'])}" if back["at"] else ""
            echo(f"If you need more, the pool decides again {when}{at}.")
    if tenant:
        stated = {
            balance["budget"] for row in shares["tenants"] for balance in row.get("budgets", ())
        }
        for node in nodes:
            _print_amounts(node, unit, stated)


def _group_of(client: Client, run: str, tenant: str) -> str:
    """Return the group of a member below a key's group. Raises `Failure` if it is not below."""
    nodes = cast("list[TreeNodeDocument]", list(client.runs_tree_list(run)))
    path = _path_of(nodes, tenant)
    if not path or path[0]["parent"] is None:
        raise Failure(f"The decision in force has no member {tenant} below the key's group.")
    return path[0]["parent"]


def _path_of(nodes: Sequence[TreeNodeDocument], tenant: str) -> list[TreeNodeDocument]:
    """Return the node of a member and of the groups above it, the nearest first."""
    by_name = {node["name"]: node for node in nodes if node["kind"] == "group"}
    node = next(
        (node for node in nodes if (node["kind"], node["name"]) == ("member", tenant)), None
    )
    path = []
    while node is not None:
        path.append(node)
        node = by_name.get(node["parent"]) if node["parent"] else None
    return path


def _guaranteed_amounts(nodes: Iterable[TreeNodeDocument]) -> dict[str, Mapping[str, Any]]:
    """Return the guaranteed amounts by the names of rows, empty if nothing is guaranteed."""
    # An older service has no guarantees.
    found: dict[str, Mapping[str, Any]] = {
        f"{node['name']}{'/' if node['kind'] == 'group' else ''}": node.get("guaranteed") or {}
        for node in nodes
    }
    return found if any(any(amounts.values()) for amounts in found.values()) else {}


def _print_amounts(node: TreeNodeDocument, unit: dict[str, str], stated: Collection[str]) -> None:
    """Print the limits, guarantees and loans in force of a node.

    `stated` are the budgets whose balances are printed already.
    """
    whose = node["name"] if node["kind"] == "member" else f"group {node['name']}"
    # An older service has no limits.
    for limit in node.get("limit", []):
        if budget := limit.get("budget"):
            if budget["budget"] not in stated:
                echo(f"Budget of {whose}: {stop_text(limit)}.")
            continue
        echo(
            f"Limit of {whose}: {limit_text(limit['amount'], limit['has'], limit['where'], unit)}."
        )
    for text in guarantee_texts(node, unit):
        echo(f"Guaranteed to {whose}: {text}.")
    for text in loan_texts(node, unit):
        echo(f"Lent by {whose}: {text}.")


def _balance_text(node: str, balance: EntitlementsGroupBudget) -> str:
    """Return the balance of a budget, with the effect of its exhaustion."""
    unit = f"hours of {balance['resource']}" if balance["resource"] else "of money"
    # What was carried over has digits of its own, and without it the amount is as it was set.
    amount = "0" if float(balance["carried"]) else balance["available"]
    left, available, spent = (
        balance_number(balance[name], amount) for name in ("left", "available", "spent")
    )
    text = (
        f"Budget of {node} until {instant(balance['to'])}: {left} of {available} {unit} left,"
        f" {spent} spent."
    )
    if balance["exhausted_on"]:
        text += (
            f" At the rate of the last day it is exhausted on {instant(balance['exhausted_on'])}."
        )
    if balance["exhausted"] and balance["then"]:
        effect = {"last": "served after everybody else", "stop": "allocated none"}[balance["then"]]
        text += f" It is exhausted: until then {node} is {effect}."
    return text


def _share_rows(
    shares: EntitlementsDocument,
    report: SharingDegreeDocument,
    unit: dict[str, str],
    guaranteed: Mapping[str, Mapping[str, Any]],
) -> Iterator[Sequence[str]]:
    for label, row, past in _named_rows(shares, report):
        for name in unit:
            degree = past["sharing_degree"]["resources"].get(name) if past else None
            floor = guaranteed.get(label, {}).get(name, 0)
            # The service states use in unit × seconds.
            hours = Decimal(past["used"].get(name, "0")) / SECONDS_PER_HOUR if past else None
            yield (
                label,
                f"{name} ({unit[name]})" if unit[name] else name,
                number(row["entitled"].get(name, 0)),
                *((number(floor),) if guaranteed else ()),
                *(
                    number(amounts.get(name, 0))
                    for amounts in (row["has"], row["lent"], row["borrowed"])
                ),
                number(hours),
                number(degree),
            )


def _named_rows(
    shares: EntitlementsDocument, report: SharingDegreeDocument
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the entitlement and the usage of the group, of those below it and of tenants."""
    groups = [*filter(None, [shares.get("group")]), *shares.get("groups", ())]
    usage = [*filter(None, [report.get("group")]), *report.get("groups", ())]
    used_by_group = {row["group"]: row for row in usage}
    for group in groups:
        yield f"{group['group']}/", group, used_by_group.get(group["group"])
    used = {row["tenant"]: row for row in report["tenants"]}
    for row in shares["tenants"]:
        yield row["tenant"], row, used.get(row["tenant"])
