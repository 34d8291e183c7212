"""The commands `alloc workloads`, `set`, `withdraw`, `slots` and `history`."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import cast

import click

from allocator_client._generated.documents.decisions import AllocationDocument, ScheduleDocument
from allocator_client._generated.documents.pools_and_members import (
    AllocationHistoryDocument,
    AllocationHistoryStepCause,
)
from allocator_client._generated.documents.servers_and_workloads import (
    WorkloadChangePatch,
    WorkloadDocument,
)
from allocator_client._generated.documents.what_if import SimulationRequest
from allocator_client.cli.arguments import changed_fields, yes_option
from allocator_client.cli.failures import Failure
from allocator_client.cli.output import echo, print_json, print_pieces, print_rows, table
from allocator_client.cli.session import (
    Session,
    find_workload,
    pool_argument,
    tenant_option,
    units,
    with_session,
)
from allocator_client.cli.simulating import preview_and_confirm, unlimited_question, workload_change
from allocator_client.cli.waiting import wait_option
from allocator_client.cli.words import NONE, counted, instant, number, quantities, reason_text
from allocator_client.errors import Problem

_NO_LIMIT = "no limit"
_OTHERS = {
    "workload": "workloads of another member",
    "server": "servers",
    "member": "members or weights",
    "group": "groups",
    "pool": "settings of the pool",
    "cluster": "a cluster left or returned",  # of services that do not name it
    "limit": "a limit of another member or group",
    "budget": "a budget of another member or group",
}


@click.command()
@pool_argument
@tenant_option
@with_session(csv=True)
def workloads(session: Session, pool: str | None, tenant: str | None) -> None:
    """List the workloads with the tasks that each runs.

    RUNS is the number of tasks that the decision in force allocates, OF the requested number. Under a
    policy that takes turns, RUNS is the average of a period.
    """
    slug = session.pool(pool)
    listed = session.client.pools_workloads_list(slug, tenant=tenant)
    if session.format == "csv":
        print_pieces(listed.text("csv"))
    elif session.format == "json":
        print_rows(listed)
    else:
        unit = units(session.client.pools_show(slug).body)
        got = _allocations(session, slug)
        table(
            ("TENANT", "WORKLOAD", ">RUNS", ">OF", "ONE TASK", ">PRIORITY", "STATE", "LIMITED BY"),
            _workload_rows(iter(listed), got, unit),
        )


def _allocations(session: Session, slug: str) -> dict[str, AllocationDocument]:
    """Return the allocations of the decision in force by workload, empty before the first decision."""
    try:
        run = session.client.pools_decision_show(slug).body["run"]["id"]
    except Problem as problem:
        if problem.code == "decision.none":
            return {}
        raise
    # By id: names are unique only among the present workloads of one tenant.
    return {str(row["workload"]["id"]): row for row in session.allocations(run)}


def _workload_rows(
    listed: Iterator[WorkloadDocument], got: dict[str, AllocationDocument], unit: dict[str, str]
) -> Iterator[Sequence[str]]:
    for each in listed:
        row = got.get(each["id"])
        yield (
            each["tenant"],
            each["name"],
            number(row["tasks"]) if row else NONE,
            _NO_LIMIT if each["tasks"] is None else number(each["tasks"]),
            quantities({name: value for name, value in each["demand"].items() if value}, unit),
            number(each["priority"]),
            each["state"],
            reason_text(row["limited_by"]) if row else NONE,
        )


@click.command("set")
@click.argument("pool")
@click.argument("workload")
@click.argument("changes", metavar="FIELD=VALUE,...")
@yes_option
@wait_option
@tenant_option
@with_session()
def set_workload(
    session: Session,
    pool: str,
    workload: str,
    changes: str,
    yes: bool,
    timeout: float,
    tenant: str | None,
) -> None:
    """Change a workload after showing what it would get.

    FIELD is tasks, priority or a resource of its demand. tasks=none is no limit.

    \b
    alloc set lab analysis tasks=20,cpu=2
    """
    who = session.tenant_or(tenant)
    numbers, demand = changed_fields(changes)
    found = find_workload(session, pool, who, workload)
    change = workload_change(session, pool, who, workload, changes)
    body: WorkloadChangePatch = {**numbers, **({"demand": demand} if demand else {})}  # type: ignore[typeddict-item]
    limited = numbers.get("tasks", 0) is not None
    question = f"Change {workload}?" if limited else unlimited_question(workload)
    preview_and_confirm(
        session, pool, {"workloads": {"change": [change]}}, question, timeout, yes=yes
    )
    present = session.client.pools_workloads_show(pool, found["id"])
    _refuse_changed(found, present.body)
    answer = session.client.pools_workloads_update(pool, found["id"], body, if_match=present.etag)
    if session.for_people:
        echo(f"Changed {workload} as generation {answer.generation:,} of {pool}.")
    else:
        print_json(answer.body)


@click.command()
@click.argument("pool")
@click.argument("workload")
@yes_option
@wait_option
@tenant_option
@with_session()
def withdraw(
    session: Session, pool: str, workload: str, yes: bool, timeout: float, tenant: str | None
) -> None:
    """Withdraw a workload for good after showing the effect."""
    who = session.tenant_or(tenant)
    found = find_workload(session, pool, who, workload)
    body: SimulationRequest = {"workloads": {"withdraw": [found["id"]]}}
    preview_and_confirm(session, pool, body, f"Withdraw {workload} for good?", timeout, yes=yes)
    present = session.client.pools_workloads_show(pool, found["id"])
    _refuse_changed(found, present.body)
    answer = session.client.pools_workloads_retire(pool, found["id"], if_match=present.etag)
    if session.for_people:
        echo(f"Withdrew {workload} as generation {answer.generation:,} of {pool}.")
    else:
        print_json({"withdrawn": found["id"], "generation": answer.generation})


def _refuse_changed(shown: WorkloadDocument, present: WorkloadDocument) -> None:
    if shown["version"] != present["version"]:
        raise Failure(f"{shown['name']} was changed meanwhile: repeat the command.")


@click.command()
@pool_argument
@with_session()
def slots(session: Session, pool: str | None) -> None:
    """Show the slots of a pool whose policy takes turns.

    They are those of the next period of the decision in force. A tenant's key sees its own tasks.
    """
    slug = session.pool(pool)
    run = session.client.pools_decision_show(slug).body["run"]
    try:
        schedule = session.client.runs_schedule_show(run["id"]).body
    except Problem as problem:
        if problem.code == "schedule.none":
            raise Failure(f"The policy of {slug} does not take turns.") from problem
        raise
    if session.format == "json":
        print_json(schedule)
        return
    # Slots are seconds of a period, which begins when the decision comes into force.
    begin = datetime.fromisoformat(cast("str", run["effective_from"]))
    table(("FROM", "TO", "TASKS"), _slot_rows(schedule, begin))
    period = timedelta(seconds=schedule["period_seconds"])
    echo(f"\nThe slots of the first period; they repeat every {period}.")


def _slot_rows(schedule: ScheduleDocument, begin: datetime) -> Iterator[Sequence[str]]:
    for interval in schedule["timetable"]:
        rows = schedule["slots"][interval["slot"]]["allocations"]
        tasks = (f"{counted(row['tasks'], 'task')} of {row['workload']}" for row in rows)
        yield (
            _after(begin, interval["start"]),
            _after(begin, interval["end"]),
            ", ".join(tasks) or "nothing",
        )


def _after(begin: datetime, seconds: int) -> str:
    return instant((begin + timedelta(seconds=seconds)).isoformat(), seconds=True)


@click.command()
@pool_argument
@click.option(
    "--days",
    type=click.IntRange(1, 30),
    default=7,
    show_default=True,
    help="Length of the period.",
)
@tenant_option
@with_session()
def history(session: Session, pool: str | None, days: int, tenant: str | None) -> None:
    """Show the allocation over time, with the changes of the pool before each step."""
    slug = session.pool(pool)
    who = session.tenant_or(tenant)
    found = session.client.pools_members_allocation_history_show(slug, who, days=days).body
    if session.format == "json":
        print_json(found)
        return
    table(("FROM", "TASKS", "CHANGED BEFORE"), _history_rows(found))
    if not found["complete"]:
        echo("\nThe period has more decisions than are read: these are the newest.")


def _history_rows(found: AllocationHistoryDocument) -> Iterator[Sequence[str]]:
    for step in found["steps"]:
        tasks = (f"{each['workload']} {number(each['tasks'])}" for each in step["tasks"])
        causes = (_cause(each) for each in step["causes"])
        yield instant(step["start"], seconds=True), ", ".join(tasks) or "nothing", ", ".join(causes)


def _cause(cause: AllocationHistoryStepCause) -> str:
    if cause["kind"] == "limit" and cause["action"] is not None:
        whose = cause["workload"] or (f"group {cause['group']}" if cause["group"] else "yours")
        return f"{cause['action']} of a limit of {whose}"
    if cause["kind"] == "budget" and cause["action"] is not None:
        whose = f"group {cause['group']}" if cause["group"] else "yours"
        done = {"exhaust": "exhausted", "open": "opened again"}[cause["action"]]
        return f"budget of {cause['resource']} of {whose} {done}"
    if cluster := cause.get("cluster"):
        return f"{cause['action']} of the cluster {cluster}"
    if cause["workload"] is None:
        return _OTHERS[cause["kind"]]
    return f"{cause['action']} {cause['workload']}"
