"""The commands `alloc usage` and `alloc statement`."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal

import click

from allocator_client._generated.documents.money import StatementDocument
from allocator_client._generated.documents.reports import SharingDegreeDocument
from allocator_client.cli.output import (
    echo,
    print_file,
    print_json,
    print_pieces,
    print_rows,
    table,
)
from allocator_client.cli.session import (
    Instant,
    Session,
    find_time_zone,
    in_zone,
    pool_argument,
    tenant_option,
    units,
    with_session,
)
from allocator_client.cli.words import SECONDS_PER_HOUR, instant, money, month_name, number


@click.command()
@pool_argument
@click.option("--from", "start", type=Instant(), help="By default 7 days before the end.")
@click.option("--to", "end", type=Instant(), help="Now by default.")
@click.option("--step", metavar="P1D", help="Cut the time into days (P1D), hours (PT1H), ...")
@click.option("--entries", is_flag=True, help="The ledger's entries one by one, all of them.")
@tenant_option
@with_session(csv=True)
def usage(
    session: Session,
    pool: str | None,
    start: datetime | None,
    end: datetime | None,
    step: str | None,
    entries: bool,
    tenant: str | None,
) -> None:
    """Show the usage of members, beside their usage without sharing.

    Amounts are unit × hours. ALONE is the amount that the member would have used in its own part of the
    pool. Times without an offset are in the pool's time zone.
    """
    slug = session.pool(pool)
    if entries:
        if start or end or step:
            raise click.UsageError(
                "--entries are all of them: --from, --to and --step are for sums."
            )
        _entries(session, slug, tenant)
        return
    document = session.client.pools_show(slug).body
    begin, until = (in_zone(time, document["timezone"]) for time in (start, end))
    client = session.client
    if session.format == "csv":
        print_file(
            client.pools_reports_sharing_degree_show_as(
                slug, format="csv", from_=begin, to=until, step=step, tenant=tenant
            )
        )
        return
    report = client.pools_reports_sharing_degree_show(
        slug, from_=begin, to=until, step=step, tenant=tenant
    ).body
    if session.format == "json":
        print_json(report)
        return
    cut = ("START",) if step else ()
    table(
        ("TENANT", *cut, "RESOURCE", ">USED", ">ALONE", ">DEGREE"),
        _usage_rows(report, units(document), cut=bool(step)),
    )
    echo(f"\nFrom {instant(report['from'])} to {instant(report['to'])}.")


def _usage_rows(
    report: SharingDegreeDocument, unit: dict[str, str], *, cut: bool
) -> Iterator[Sequence[str]]:
    for row in report["tenants"]:
        # A part of a series has the fields of the row.
        for part in row["series"] if cut else (row,):
            start = (instant(part["start"]),) if cut else ()  # type: ignore[typeddict-item]
            for name in unit:
                yield (
                    row["tenant"],
                    *start,
                    f"{name} ({unit[name]}·h)" if unit[name] else f"{name} (h)",
                    number(Decimal(part["used"].get(name, "0")) / SECONDS_PER_HOUR),
                    number(Decimal(part["alone"].get(name, "0")) / SECONDS_PER_HOUR),
                    number(part["sharing_degree"]["resources"].get(name)),
                )


def _entries(session: Session, slug: str, tenant: str | None) -> None:
    listed = session.client.ledger_entries_list(pool=slug, tenant=tenant)
    if session.format == "csv":
        print_pieces(listed.text("csv"))
    elif session.format == "json":
        print_rows(listed)
    else:
        table(
            ("START", "END", "TENANT", "KIND", "RESOURCE", ">QUANTITY", ">UNIT·HOURS", "SOURCE"),
            (
                (
                    instant(row["start"], seconds=True),
                    instant(row["end"], seconds=True),
                    row["tenant"],
                    row["kind"],
                    f"{row['resource']} ({row['unit']})" if row["unit"] else row["resource"],
                    number(row["quantity"]),
                    number(Decimal(row["amount"]) / SECONDS_PER_HOUR),
                    row["source"],
                )
                for row in listed
            ),
        )


@click.command()
@pool_argument
@click.argument("month", required=False)
@tenant_option
@with_session(csv=True)
def statement(session: Session, pool: str | None, month: str | None, tenant: str | None) -> None:
    """Show the statement of a month.

    MONTH is written 2027-01. By default it is the current month so far. For an operator or a billing
    system without --tenant, the command lists the month's statements.
    """
    slug = session.pool(pool)
    client = session.client
    if month is None:
        # The pool's month, not that of this machine: they differ for some hours at its ends.
        zone = find_time_zone(client.pools_show(slug).body["timezone"])
        month = f"{datetime.now(zone):%Y-%m}"
    who = tenant or session.tenant
    if who is None:
        _statements(session, slug, month)
    elif session.format == "csv":
        print_file(client.pools_statements_show_as(slug, month, who, format="csv"))
    else:
        found = client.pools_statements_show(slug, month, who).body
        if session.format == "json":
            print_json(found)
        else:
            _show_statement(found)


def _statements(session: Session, slug: str, month: str) -> None:
    listed = session.client.pools_statements_list(slug, month=month)
    if session.format == "csv":
        print_pieces(listed.text("csv"))
    elif session.format == "json":
        print_rows(listed)
    else:
        table(
            ("MONTH", "TENANT", "STATE", ">BILLED", "CURRENCY"),
            (
                (
                    month_name(row["month"]),
                    row["tenant"],
                    row["state"],
                    money(row["billed"]),
                    row["currency"],
                )
                for row in listed
            ),
        )


def _show_statement(found: StatementDocument) -> None:
    state = "closed" if found["state"] == "closed" else "open: as of now"
    month = f"{month_name(found['month'])} ({found['timezone']})"
    echo(f"{found['tenant']} in {found['pool']}, {month}, {state}\n")
    table(
        ("KIND", "RESOURCE", "SERVERS OF", ">HOURS", ">PRICE", f">{found['currency']}", "NOTE"),
        (
            (
                line["kind"],
                line["resource"] or "-",
                line["server_owner"] or "-",
                number(line["hours"]),
                money(line["price"]),
                money(line["billed"]),
                line["note"] or "",
            )
            for line in found["lines"]
        ),
    )
    totals, savings = found["totals"], found["savings"]
    echo(f"\nTotal {money(totals['billed'], found['currency'])}.")
    if savings["saved"] is not None:
        echo(f"Saved by sharing: {money(savings['saved'], found['currency'])}.")
    elif savings["why"]:
        echo(f"What sharing saved is not known: {savings['why']}")
    # A pool without clusters, and an older service, state none.
    if found.get("clusters"):
        echo()
        table(
            ("CLUSTER", "RESOURCE", ">HOURS"),
            (
                (of_cluster["cluster"] or "not known", name, number(hours))
                for of_cluster in found["clusters"]
                for name, hours in of_cluster["hours"].items()
            ),
        )
    for text in found["notes"]:
        echo(text)
