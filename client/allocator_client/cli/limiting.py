"""The commands `alloc limits` and `alloc limit`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import click

from allocator_client.answers import Answer
from allocator_client.cli.arguments import PAIRS, selector_of
from allocator_client.cli.failures import Failure
from allocator_client.cli.output import echo, print_json, table
from allocator_client.cli.session import (
    Instant,
    Session,
    find_workload,
    in_zone,
    pool_argument,
    tenant_option,
    units,
    with_session,
)
from allocator_client.cli.words import NONE, counted, instant, quantities, selector

GROUP, MEMBER, WORKLOAD = "group", "member", "workload"


@dataclass(frozen=True)
class Node:
    """A group, member or workload, with the answer that shows it."""

    kind: str
    name: str
    shown: Answer[Any]


@click.command()
@pool_argument
@with_session()
def limits(session: Session, pool: str | None) -> None:
    """List the limits of groups, members and workloads that the key sees.

    A limit is the most that a decision allocates to a node and all below it. NO. is the number for
    `alloc limit --remove`.
    """
    slug = session.pool(pool)
    client = session.client
    listed: dict[str, tuple[Iterable[Any], str]] = {
        GROUP: (client.pools_groups_list(slug), "slug"),
        MEMBER: (client.pools_members_list(slug), "tenant"),
        WORKLOAD: (client.pools_workloads_list(slug), "name"),
    }
    rows = [(kind, each, name) for kind, (every, name) in listed.items() for each in every]
    if session.format == "json":
        found = [
            {"kind": kind, "name": each[name], "limit": each["limit"]}
            for kind, each, name in rows
            if each["limit"]
        ]
        print_json({"pool": slug, "nodes": found})
        return
    unit = units(client.pools_show(slug).body)
    table(
        ("NODE", "NAME", ">NO.", "LIMIT", "SERVERS", "FROM", "UNTIL"),
        (line for kind, each, name in rows for line in _lines(kind, each[name], each, unit)),
    )


def _lines(
    kind: str, name: str, node: Mapping[str, Any], unit: Mapping[str, str]
) -> Iterator[Sequence[str]]:
    for number, row in enumerate(node["limit"], start=1):
        yield (
            kind,
            name,
            str(number),
            quantities(row["amount"], unit, exact=True),
            selector(row["where"]) or "all",
            instant(row["from"]),
            instant(row["to"]) if row["to"] else NONE,
        )


@click.command()
@click.argument("pool")
@click.argument("amounts", type=PAIRS, required=False, metavar="RESOURCE=AMOUNT,...")
@click.option("--group", help="Slug of the group to limit.")
@click.option("--member", help="Slug of the tenant to limit.")
@click.option("--workload", help="Name of the workload to limit.")
@click.option("--on", type=PAIRS, multiple=True, metavar="LABEL=VALUE", help="Servers with this "
              "label only. Repeat a label to accept several of its values.")  # fmt: skip
@click.option("--from", "start", type=Instant(), help="Start; now by default.")
@click.option("--to", "end", type=Instant(), help="End, exclusive; none by default.")
@click.option("--remove", type=click.IntRange(min=1), metavar="NO.", help="Remove the limit of this "
              "number in `alloc limits` instead of adding one.")  # fmt: skip
@tenant_option
@with_session()
def limit(
    session: Session,
    *,
    pool: str,
    amounts: dict[str, str] | None,
    group: str | None,
    member: str | None,
    workload: str | None,
    on: Sequence[dict[str, str]],
    start: datetime | None,
    end: datetime | None,
    remove: int | None,
    tenant: str | None,
) -> None:
    """Add a limit to a group, member or workload, or remove one.

    \b
    alloc limit campus --group ml gpu=8 --on gpu=h100
    alloc limit campus --workload train cpu=100 --to 2027-01-31T18:00
    alloc limit campus --group ml --remove 1
    """
    if sum(each is not None for each in (group, member, workload)) != 1:
        raise click.UsageError("Name one of --group, --member and --workload.")
    if (amounts is None) == (remove is None):
        raise click.UsageError("Give amounts to add a limit, or --remove with its number.")
    node = _node(session, pool, group, member, workload, tenant)
    rows = list(node.shown.body["limit"])
    if remove is not None:
        if remove > len(rows):
            present = counted(len(rows), "limit")
            raise Failure(f"{node.kind} {node.name} has {present}: see alloc limits {pool}.")
        # Numbers are those of the version that was shown: `If-Match` refuses the change of another one.
        del rows[remove - 1]
    else:
        zone = session.client.pools_show(pool).body["timezone"]
        rows.append({"where": selector_of(on), "amount": amounts, **_dates(start, end, zone)})
    answer = _store_limits(session, pool, node, rows)
    if session.for_people:
        done = "Removed a limit of" if remove is not None else "Set a limit of"
        echo(f"{done} {node.kind} {node.name} as generation {answer.generation:,} of {pool}.")
    else:
        print_json(answer.body)


def _dates(start: datetime | None, end: datetime | None, zone: str) -> dict[str, str]:
    dates = {"from": in_zone(start, zone), "to": in_zone(end, zone)}
    return {name: at.isoformat() for name, at in dates.items() if at is not None}


def _node(
    session: Session,
    pool: str,
    group: str | None,
    member: str | None,
    workload: str | None,
    tenant: str | None,
) -> Node:
    client = session.client
    if group is not None:
        return Node(GROUP, group, client.pools_groups_show(pool, group))
    if member is not None:
        return Node(MEMBER, member, client.pools_members_show(pool, member))
    found = find_workload(session, pool, session.tenant_or(tenant), str(workload))
    return Node(WORKLOAD, found["name"], client.pools_workloads_show(pool, found["id"]))


def _store_limits(session: Session, pool: str, node: Node, rows: list[Any]) -> Answer[Any]:
    """Store the limits of a node at the version that was shown."""
    client, etag = session.client, node.shown.etag
    if node.kind == GROUP:
        return client.pools_groups_update(pool, node.name, {"limit": rows}, if_match=etag)
    if node.kind == WORKLOAD:
        workload = node.shown.body["id"]
        return client.pools_workloads_update(pool, workload, {"limit": rows}, if_match=etag)
    # A PUT replaces all terms: the others stay as they are.
    terms = {name: node.shown.body[name] for name in ("weight", "best_effort", "group", "tier")}
    body = cast("Any", {**terms, "limit": rows})
    return client.pools_members_put(pool, node.name, body, if_match=etag)
