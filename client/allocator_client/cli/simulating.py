"""The command `alloc what-if`, and the preview of every change of a workload."""

import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

import click

from allocator_client._generated.documents.servers_and_workloads import (
    ServerDocument,
)
from allocator_client._generated.documents.what_if import (
    SimulationDocument,
    SimulationRequest,
    SimulationRequestWorkloadsChange,
    SimulationRequestWorkloadsSubmit,
)
from allocator_client.cli.arguments import PAIRS, changed_fields
from allocator_client.cli.failures import Failure
from allocator_client.cli.guarantees import unmet_changes
from allocator_client.cli.output import echo, note, print_json, table
from allocator_client.cli.session import (
    Session,
    find_workload,
    pool_argument,
    tenant_option,
    units,
    with_session,
)
from allocator_client.cli.waiting import wait_for, wait_option
from allocator_client.cli.words import number, percent, reason_text
from allocator_client.errors import Problem

_TENANTS_COMPARED = 1_000


def is_terminal() -> bool:
    return sys.stdin.isatty()


def unlimited_question(workload: str) -> str:
    return f"May {workload} run as many tasks as possible? It takes all that others leave."


def preview_and_confirm(
    session: Session,
    slug: str,
    body: SimulationRequest,
    question: str,
    seconds: float,
    *,
    yes: bool,
) -> None:
    """Show the effect of changes, and ask the user to confirm them.

    Raises `Failure` if the user declines, and `UsageError` outside a terminal.
    """
    if yes:
        return
    done = _preview(session, slug, body, seconds)
    if done is None:
        # A misspelled tenant would otherwise be found only after the user has confirmed.
        for submitted in body.get("workloads", {}).get("submit", []):
            if named := submitted.get("tenant"):
                refuse_unknown_tenant(session, named)
        note("There is no preview of a tenant's first workload: it is no member of the pool yet.")
    elif session.for_people:
        print_before_and_after(session, slug, done)
    if not is_terminal():
        raise click.UsageError("Nothing was changed: add --yes to change it.")
    if not click.confirm(question):
        raise Failure("Nothing was changed.")


def refuse_unknown_tenant(session: Session, slug: str) -> None:
    """Raise `Failure` for a tenant that the key does not see, with the most similar slugs."""
    try:
        session.client.tenants_show(slug)
    except Problem as problem:
        if problem.code != "tenant.not_found":
            raise
        # Rows fetch page after page: without a bound, a hint would read all tenants.
        listed = islice(session.client.tenants_list(limit=_TENANTS_COMPARED), _TENANTS_COMPARED)
        near = get_close_matches(slug.lower(), [each["slug"] for each in listed])
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise Failure(f'No tenant that this key sees has the slug "{slug}".{hint}') from None


def _preview(
    session: Session, slug: str, body: SimulationRequest, seconds: float
) -> SimulationDocument | None:
    """Return the computed simulation of a change, or None if the tenant is not yet a member of the pool.

    A tenant becomes a member with its first workload.
    """
    try:
        done = run_simulation(session, slug, body, seconds)
    except Problem as problem:
        if problem.code != "tenant.unknown":
            raise
        return None
    # The request is refused at once, or, if the tenant left since, by the worker that computes it.
    if (done["error"] or {}).get("code") == "tenant.unknown":
        return None
    refuse_failed(done)
    return done


@click.command("what-if")
@pool_argument
@click.option(
    "--set",
    "changes",
    nargs=2,
    type=str,
    multiple=True,
    metavar="WORKLOAD FIELD=VALUE,...",
    help="A workload with other tasks=, priority=, or demand of a resource, such as cpu=2.",
)
@click.option(
    "--add",
    "added",
    nargs=2,
    type=str,
    multiple=True,
    metavar="NAME FIELD=VALUE,...",
    help="One more workload: its demand by resource, and tasks=, priority=.",
)
@click.option("--withdraw", multiple=True, metavar="WORKLOAD", help="Without a workload.")
@click.option(
    "--add-server",
    "servers",
    type=PAIRS,
    multiple=True,
    metavar="cpu=8,memory=32Gi",
    help="Of an operator: one more server of this capacity.",
)
@click.option(
    "--drain-server",
    "drained",
    multiple=True,
    metavar="NAME",
    help="Of an operator: without a server.",
)
@wait_option
@tenant_option
@with_session()  # fmt: skip
def what_if(
    session: Session,
    *,
    pool: str | None,
    changes: Sequence[tuple[str, str]],
    added: Sequence[tuple[str, str]],
    withdraw: Sequence[str],
    servers: Sequence[dict[str, str]],
    drained: Sequence[str],
    timeout: float,
    tenant: str | None,
) -> None:
    """Show the decision before and after a hypothetical change.

    Nothing is changed.

    \b
    alloc what-if lab --set analysis tasks=20,cpu=2
    alloc what-if lab --add more cpu=1,memory=4Gi,tasks=3
    """
    if not (changes or added or withdraw or servers or drained):
        raise click.UsageError(
            "Name a change: --set, --add, --withdraw, --add-server or --drain-server."
        )
    slug = session.pool(pool)
    if tenant is None and (changes or added or withdraw):
        tenant = session.tenant_or(None)
    body: SimulationRequest = {}
    if servers:
        body["servers"] = {"add": [
            {"name": f"what-if-{n}", "capacity": {**capacity}} for n, capacity in enumerate(servers, 1)
        ]}  # fmt: skip
    if drained:
        ids = [_find_server(session, slug, name)["id"] for name in drained]
        body["servers"] = {**body.get("servers", {}), "drain": ids}
    if changes or added or withdraw:
        body["workloads"] = {
            "change": [
                workload_change(session, slug, tenant, name, text)
                for name, text in _merge_changes(changes)
            ],
            "submit": [_submission(tenant, name, text) for name, text in added],
            "withdraw": [find_workload(session, slug, tenant, name)["id"] for name in withdraw],
        }
    done = run_simulation(session, slug, body, timeout)
    # Before the refusal of a failed simulation: the document has the reason, for scripts.
    if session.format == "json":
        print_json(done)
    refuse_failed(done)
    if session.for_people:
        print_before_and_after(session, slug, done)


def run_simulation(
    session: Session, slug: str, body: SimulationRequest, seconds: float
) -> SimulationDocument:
    """Return the finished simulation of changes. Raises `WaitTimeout`."""
    asked = session.client.pools_simulations_request(slug, body).body

    def look() -> SimulationDocument | None:
        found = session.client.simulations_show(asked["id"]).body
        return None if found["status"] == "pending" else found

    return wait_for(look, seconds, f"result of simulation {asked['id']}")


def refuse_failed(done: SimulationDocument) -> None:
    """Raise `Failure` for a simulation without a result."""
    if done["result"] is None:
        error = done["error"] or {}
        raise Failure(f"{error.get('detail', 'It cannot be computed.')} ({error.get('code', '')})")


def _merge_changes(changes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Merge several `--set` of one workload into one change."""
    merged: dict[str, str] = {}
    for name, text in changes:
        merged[name] = f"{merged[name]},{text}" if name in merged else text
    return list(merged.items())


def _find_server(session: Session, slug: str, name: str) -> ServerDocument:
    found = list(session.client.pools_servers_list(slug, name=name))
    if not found:
        raise Failure(f"There is no server {name} in {slug}.")
    return found[0]


def workload_change(
    session: Session, slug: str, tenant: str | None, name: str, text: str
) -> SimulationRequestWorkloadsChange:
    workload = find_workload(session, slug, tenant, name)
    numbers, demand = changed_fields(text)
    change: SimulationRequestWorkloadsChange = {"id": workload["id"], **numbers}  # type: ignore[typeddict-item]
    if demand:  # the demand of other resources stays
        change["demand"] = {**workload["demand"], **demand}
    return change


def _submission(tenant: str | None, name: str, text: str) -> SimulationRequestWorkloadsSubmit:
    numbers, demand = changed_fields(text)
    submitted: SimulationRequestWorkloadsSubmit = {
        "name": name,
        "demand": demand,
        **numbers,  # type: ignore[typeddict-item]
    }
    if tenant:
        submitted["tenant"] = tenant
    return submitted


def print_before_and_after(session: Session, slug: str, done: SimulationDocument) -> None:
    result = done["result"]
    if result is None:
        return
    table(
        ("TENANT", "WORKLOAD", ">TASKS BEFORE", ">AFTER", "LIMITED BY AFTER"),
        (
            (
                row["tenant"],
                row["workload"],
                number(row["before"]["tasks"]) if row["before"] else "-",
                number(row["after"]["tasks"]) if row["after"] else "-",
                reason_text(row["after"]["limited_by"]) if row["after"] else "-",
            )
            for row in result["workloads"]
        ),
    )
    echo()
    table(
        ("TENANT", ">SHARE BEFORE", ">AFTER"),
        (
            (
                row["tenant"],
                percent(row["before"]["share"]) if row["before"] else "-",
                percent(row["after"]["share"]) if row["after"] else "-",
            )
            for row in result["tenants"]
        ),
    )
    if lost := result.get("lost"):  # a service of an earlier release does not send it
        echo("\nTasks of several pieces that end:")
        for each in lost:
            echo(f"  {each['tenant']}: {each['detail']}")
    # Absent for tenants, whose summary would name others, and of a service of an earlier release.
    if summary := result["summary"]:
        before, after = (
            side.get("guarantees_unmet", []) for side in (summary["before"], summary["after"])
        )
        if before or after:
            echo("\nGuarantees that are not met after the change or before:")
            unit = units(session.client.pools_show(slug).body)
            for text in unmet_changes(before, after, unit):
                echo(f"  {text}")
    cost = result.get("cost")  # a service of an earlier release does not send it
    if cost is not None:
        echo(f"\n{cost['words']}")
