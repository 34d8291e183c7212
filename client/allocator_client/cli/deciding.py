"""The commands `alloc pools`, `why` and `decision`."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import click

from allocator_client._generated.documents.decisions import (
    AllocationDocument,
    DecisionDocument,
    ExplanationDocument,
)
from allocator_client.cli.failures import Failure
from allocator_client.cli.guarantees import unmet_text
from allocator_client.cli.output import (
    echo,
    note,
    print_json,
    print_json_line,
    print_pieces,
    print_rows,
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
    counted,
    instant,
    number,
    percent,
    policy_title,
    quantities,
    reason_text,
)
from allocator_client.errors import Problem, Unreachable

_WATCHED_SECONDS = 2.0
_NOT_YET = "decision.none"


@click.command()
@with_session(csv=True)
def pools(session: Session) -> None:
    """List the pools that the key sees."""
    listed = session.client.pools_list()
    if session.format == "csv":
        print_pieces(listed.text("csv"))
    elif session.format == "json":
        print_rows(listed)
    else:
        table(
            ("POOL", "NAME", "POLICY", "RESOURCES", ">GENERATION"),
            (
                (
                    pool["slug"],
                    pool["name"],
                    policy_title(pool["policy"]["name"]),
                    ", ".join(
                        f"{name} ({unit})" if unit else name for name, unit in units(pool).items()
                    ),
                    number(pool["generation"]),
                )
                for pool in listed
            ),
        )


@click.command()
@pool_argument
@click.argument("workload", required=False)
@tenant_option
@with_session()
def why(session: Session, pool: str | None, workload: str | None, tenant: str | None) -> None:
    """Explain an allocation, and list changes that would increase it."""
    slug = session.pool(pool)
    client = session.client
    who = session.tenant_or(tenant)
    run = client.pools_decision_show(slug).body["run"]["id"]
    explanation = client.runs_explanation_show(run, who).body
    if workload and workload not in [row["workload"] for row in explanation["workloads"]]:
        raise Failure(f"{who} has no workload {workload} in the decision in force in {slug}.")
    if session.format == "json":
        print_json(explanation)
        return
    echo(explanation["sentence"] + "\n")
    for held in explanation.get("holds", ()):
        where = ", ".join(held["servers"]) or counted(held["count"], "server")
        are = "is" if held["count"] == 1 else "are"
        others = sum(each["jobs"] for each in held["beside"])
        echo(f"{where} {are} held for {_jobs(held)}. Jobs that still run there: {others}.\n")
    for end in explanation.get("ending", ()):
        jobs, one = _jobs(end), len(end["jobs"]) == 1
        jobs = jobs[:1].upper() + jobs[1:]
        queue = "It queues again" if one else "They queue again"
        heir = f" for {end['heir']}" if end["heir"] else ""
        if end["ended"]:
            was = "was" if one else "were"
            echo(f"{jobs} above the decision {was} ended{heir}. {queue}.\n")
        else:
            ends = "ends" if one else "end"
            echo(f"{jobs} above the decision {ends} after {instant(end['ends_at'])}{heir}.\n")
    if blocked := explanation["blocked"]:
        reason = blocked["reason"] or "none stated"
        echo(
            f"Jobs have waited since {instant(blocked['since'])} although more was decided than is used."
            f" The scheduler's reason: {reason}.\n"
        )
    unit = units(client.pools_show(slug).body)
    rows = (row for row in session.allocations(run) if row["tenant"] == who)
    _allocations_table(
        (row for row in rows if workload in (None, row["workload"]["name"])),
        unit,
        of_one=True,
        # An older service has no sentences.
        details={each["workload"]: each.get("detail", "") for each in explanation["workloads"]},
    )
    _print_binding(explanation, unit)
    helping = [
        each for each in explanation["counterfactuals"] if workload in (None, each["workload"])
    ]
    if helping:
        echo("\nWhat would help:")
    for each in helping:
        before, after = counted(each["tasks_before"], "task"), number(each["tasks_after"])
        echo(f"  {each['words']} ({each['workload']}: {before} → {after})")


def _jobs(row: Mapping[str, Any]) -> str:
    """Return the names of jobs with their noun, such as `jobs 17, 18`."""
    return f"{'job' if len(row['jobs']) == 1 else 'jobs'} {', '.join(row['jobs'])}"


def _print_binding(explanation: ExplanationDocument, unit: dict[str, str]) -> None:
    if explanation["binding"]:
        echo("\nWhat binds:")
    for each in explanation["binding"]:
        of = "the pool"
        if kind := each["servers"]:
            count = kind["count"]
            of = f"{counted(count, 'server')} of {quantities(kind['capacity'], unit)}"
            if cluster := kind["labels"].get("cluster"):
                of += f" in {cluster}"
        one = f"1 {each['unit']}" if each["unit"] else "one"
        echo(
            f"  {each['resource']} on {of}: {one} more adds {number(each['price'])} "
            "to the least weighted share"
        )


def _allocations_table(
    rows: Iterable[AllocationDocument],
    unit: dict[str, str],
    *,
    of_one: bool,
    details: Mapping[str, str] | None = None,
) -> None:
    """Print the allocations of workloads of one tenant or of several.

    `details` are the service's sentences about the reasons, by workload name. They also name exhausted
    budgets.
    """
    # All rows first: any of them decides whether there is a column of guarantees.
    rows, details = list(rows), details or {}
    guaranteed = any("floor" in row for row in rows)
    amounts = [
        f">{name.upper()} ({unit[name]})" if unit[name] else f">{name.upper()}" for name in unit
    ]
    table(
        (
            *(() if of_one else ("TENANT",)),
            "WORKLOAD",
            ">TASKS",
            *((">GUARANTEED",) if guaranteed else ()),
            *amounts,
            ">SHARE",
            "LIMITED BY",
        ),
        (
            (
                *(() if of_one else (row["tenant"],)),
                row["workload"]["name"],
                number(row["tasks"]),
                *((number(row.get("floor")),) if guaranteed else ()),
                *(number(row["resources"].get(name, 0)) for name in unit),
                percent(row["dominant_share"]),
                details.get(row["workload"]["name"]) or reason_text(row["limited_by"]),
            )
            for row in rows
        ),
    )


@click.command()
@pool_argument
@click.option("--watch", is_flag=True, help="Go on, and show each new decision, until Ctrl-C.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=_WATCHED_SECONDS,
    show_default=True,
    help="Seconds between two looks.",
)
@with_session(csv=True)
def decision(session: Session, pool: str | None, watch: bool, every: float) -> None:
    """Show the decision in force."""
    slug = session.pool(pool)
    if watch:
        if session.format == "csv":
            raise click.UsageError("--watch shows tables, or with --json a decision a line.")
        _watch(session, slug, every)
    elif session.format == "csv":
        print_pieces(session.client.pools_allocations_list(slug).text("csv"))
    else:
        found = session.client.pools_decision_show(slug).body
        if session.format == "json":
            rows = session.client.runs_allocations_list(found["run"]["id"])
            print_rows(rows, around={"decision": found})
        else:
            _show_decision(session, found)


def _show_decision(session: Session, found: DecisionDocument) -> None:
    run, client = found["run"], session.client
    policy = run["policy"]
    by = policy_title(policy["name"]) if policy else "no policy"
    end = run["effective_until"]
    until = f" until {instant(end, seconds=True)}" if end else ""
    echo(
        f"{found['pool']}: generation {found['generation']:,} decided by {by}, in force since "
        f"{instant(run['effective_from'], seconds=True)}{until} (run {run['id']})"
    )
    unit = units(client.pools_show(found["pool"]).body)
    if summary := run["summary"]:
        used = summary["utilization"].items()
        echo("Allocated: " + ", ".join(f"{name} {percent(part)}" for name, part in used) + ".")
        for unmet in summary.get("guarantees_unmet", ()):
            echo(unmet_text(unmet, unit))
    echo()
    _allocations_table(session.allocations(run["id"]), unit, of_one=False)
    if slot := found["slot"]:
        echo(f"\nThis slot, until {instant(slot['end'], seconds=True)}:")
        if not slot["allocations"]:
            echo("  nothing runs")
        for row in slot["allocations"]:
            echo(f"  {row['workload']}: {counted(row['tasks'], 'task')}")


def _watch(session: Session, slug: str, every: float) -> None:
    """Show the decision and every later one. If the service is unreachable, keep trying."""
    shown, away = "", False
    while True:
        try:
            found = session.client.pools_decision_show(slug).body
            if found["run"]["id"] != shown:
                if session.for_people:
                    if shown:
                        echo()
                    _show_decision(session, found)
                else:
                    print_json_line(found)
                shown = found["run"]["id"]
            away = False
        except (Problem, Unreachable) as error:
            waiting = isinstance(error, Problem) and error.code == _NOT_YET
            # Only errors that can pass are waited for. A revoked key stays revoked.
            if not (waiting or error.temporary):
                raise
            # Reported once, not at every attempt.
            if not (waiting or away):
                note(f"{error} Trying again ...")
                away = True
        time.sleep(every)
