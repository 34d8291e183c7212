"""The commands `alloc submit` and `alloc what-if`, and the preview of every change of a workload."""

import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeVar

import click

from allocator_client._generated.documents.decisions import AllocationDocument, DecisionDocument
from allocator_client._generated.documents.servers_and_workloads import (
    ServerDocument,
    WorkloadDocument,
    WorkloadRequest,
)
from allocator_client._generated.documents.what_if import (
    SimulationDocument,
    SimulationRequest,
    SimulationRequestWorkloadsChange,
    SimulationRequestWorkloadsSubmit,
)
from allocator_client.cli.failures import Failure, WaitTimeout
from allocator_client.cli.output import echo, note, print_json, table
from allocator_client.cli.session import (
    Session,
    pool_argument,
    tenant_option,
    units,
    with_session,
)
from allocator_client.cli.words import number, percent, quantities, reason_text
from allocator_client.errors import Problem

T = TypeVar("T")
_LOOK_SECONDS = (0.1, 2.0)  # between two looks: at first, and at last
_SILENT_SECONDS = 3.0
_TENANTS_COMPARED = 1_000


class Pairs(click.ParamType[dict[str, str]]):
    """Parameter type of names with values, such as `cpu=1,memory=4Gi`."""

    name = "pairs"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        pairs: dict[str, str] = {}
        for text in value.split(","):
            name, equals, amount = (part.strip() for part in text.partition("="))
            if not (name and equals and amount):
                self.fail(f"{value!r} is not written like cpu=1,memory=4Gi", param, ctx)
            if name in pairs:
                self.fail(f"{value!r} names {name} twice", param, ctx)
            pairs[name] = amount
        return pairs


PAIRS = Pairs()
wait_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Seconds to wait at most.",
)
yes_option = click.option("--yes", is_flag=True, help="Change it without a question.")


def selector_of(pairs: Sequence[dict[str, str]]) -> dict[str, str | list[str]]:
    """Return the server selector of labels with values."""
    selector: dict[str, str | list[str]] = {}
    for label, value in (pair for each in pairs for pair in each.items()):
        selector[label] = [*selector.get(label, []), value]
    return selector


def wait_for(look: Callable[[], T | None], seconds: float, what: str) -> T:
    """Call `look` at growing intervals until it returns a result. Raises `WaitTimeout`."""
    began = time.monotonic()
    until = began + seconds
    pause, longest = _LOOK_SECONDS
    is_noted = False
    while (found := look()) is None:
        if time.monotonic() - began > _SILENT_SECONDS and not is_noted:
            note(f"Waiting for the {what} ...")
            is_noted = True
        if time.monotonic() >= until:
            raise WaitTimeout(f"After {number(seconds)} s there is no {what}.")
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
        # Most results are there within a second; those that are not must not cost a request each tenth.
        pause = min(longest, pause * 1.5)
    return found


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def unlimited_question(workload: str) -> str:
    return f"May {workload} run as many tasks as possible? It takes all that others leave."


@click.command()
@pool_argument
@click.option(
    "--demand", type=PAIRS, required=True, metavar="cpu=1,memory=4Gi",
    help="Of one task; of one piece with --pieces.",
)  # fmt: skip
@click.option("--pieces", type=click.IntRange(1, 10_000), help="Pieces of one task, which run at once "
              "or not at all.")  # fmt: skip
@click.option(
    "--per-server", type=click.IntRange(1, 10_000), help="Most pieces of a task on a server."
)
@click.option("--together", metavar="LABEL", help="Label whose value is the same on all servers of a "
              "task, such as rack.")  # fmt: skip
@click.option("--at-least", type=click.IntRange(1, 10_000), default=1, show_default=True,
              help="Tasks that start at once if none runs.")  # fmt: skip
@click.option("--tasks", type=click.IntRange(min=0), help="How many may run at once.")
@click.option("--unlimited", is_flag=True, help="As many tasks as possible, instead of --tasks.")
@click.option("--name", help="Workload name. Drawn at random by default.")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher goes first.")
@click.option("--select", type=PAIRS, multiple=True, metavar="LABEL=VALUE", help="Only such servers; "
              "the same label twice: one of the values.")  # fmt: skip
@click.option("--minimum-run", metavar="DURATION", help="How long a placed task keeps its server, such "
              "as PT30M. The pool's by default.")  # fmt: skip
@click.option("--wait", is_flag=True, help="Wait for the decision about it, and show what it got.")
@yes_option
@wait_option
@tenant_option
@with_session()
def submit(
    session: Session,
    pool: str | None,
    demand: dict[str, str],
    pieces: int | None,
    per_server: int | None,
    together: str | None,
    at_least: int,
    tasks: int | None,
    unlimited: bool,
    name: str | None,
    priority: int,
    select: Sequence[dict[str, str]],
    minimum_run: str | None,
    wait: bool,
    yes: bool,
    timeout: float,
    tenant: str | None,
) -> None:
    """Submit a workload of equal tasks after showing what it would get.

    Without --tasks it takes all that others leave. With --yes, this requires --unlimited.
    """
    if unlimited and tasks is not None:
        raise click.UsageError("--tasks and --unlimited exclude each other.")
    # Without a number a workload takes all that others leave: a script must state that it means it.
    if tasks is None and not unlimited and (yes or not _is_terminal()):
        raise click.UsageError("State --tasks, or --unlimited for as many tasks as possible.")
    slug = session.pool(pool)
    named = name or f"work-{uuid.uuid4().hex[:8]}"
    tried: SimulationRequestWorkloadsSubmit = {
        "name": named,
        "tasks": tasks,
        "priority": priority,
        "server_selector": selector_of(select),
    }
    if pieces is None:
        tried["demand"] = {**demand}
    else:
        tried["pieces"] = [{"count": pieces, "demand": {**demand}}]
    if per_server is not None:
        tried["per_server"] = per_server
    if together is not None:
        tried["together"] = together
    if at_least > 1:
        tried["at_least"] = at_least
    if tenant:
        tried["tenant"] = tenant
    question = unlimited_question(named) if tasks is None else f"Submit {named}?"
    preview_and_confirm(
        session, slug, {"workloads": {"submit": [tried]}}, question, timeout, yes=yes
    )
    # The minimum starts when a task is placed, so that a simulation does not take it.
    body: WorkloadRequest = {**tried}  # type: ignore[typeddict-item] # the same fields
    if minimum_run is not None:
        body["minimum_run"] = minimum_run
    try:
        answer = session.client.pools_workloads_create(slug, body)
    except Problem as problem:
        # With --yes there was no preview, which refuses an unknown tenant.
        if problem.code == "tenant.unknown" and tenant:
            _refuse_unknown_tenant(session, tenant)
        raise
    workload: WorkloadDocument = answer.body  # type: ignore[assignment] # one was asked for
    for condition in workload["conditions"]:
        # An older service has no sentence.
        note(f"As things are it cannot run. {condition.get('detail') or condition['reason']}")
    if not wait:
        if session.for_people:
            echo(f"Submitted {workload['name']} as generation {answer.generation:,} of {slug}.")
        else:
            print_json(workload)
        return
    decided, row = _await_decision(session, workload, answer.generation or 0, timeout)
    if session.for_people:
        _print_allocation(session, workload, decided, row)
    else:
        print_json({"workload": workload, "decision": decided, "allocation": row})


def _await_decision(
    session: Session, workload: WorkloadDocument, generation: int, seconds: float
) -> tuple[DecisionDocument, AllocationDocument | None]:
    """Wait for the decision that includes a change, and return it with the workload's allocation."""
    slug = workload["pool"]

    def look() -> DecisionDocument | None:
        try:
            found = session.client.pools_decision_show(slug).body
        except Problem as problem:
            if problem.code == "decision.none":
                return None
            raise
        # An older generation was read before the change, even if it is published after it.
        return found if found["generation"] >= generation else None

    try:
        decided = wait_for(look, seconds, f"decision of generation {generation:,} of {slug}")
    except WaitTimeout as error:
        there = f"{workload['name']} is submitted all the same."
        raise WaitTimeout(f"{error.message} {there}") from error
    rows = session.allocations(decided["run"]["id"])
    return decided, next((row for row in rows if row["workload"]["id"] == workload["id"]), None)


def _print_allocation(
    session: Session,
    workload: WorkloadDocument,
    decided: DecisionDocument,
    row: AllocationDocument | None,
) -> None:
    name, asked = workload["name"], workload["tasks"]
    if row is None:
        echo(
            f"{name} is not in the decision of generation {decided['generation']:,}:"
            " it was changed again."
        )
        return
    of = "" if asked is None else f" of {asked:,}"
    unit = units(session.client.pools_show(workload["pool"]).body)
    echo(f"{name}: {number(row['tasks'])}{of} tasks, {quantities(row['resources'], unit)}.")
    if row["limited_by"] == "task_limit":
        echo("It has all the tasks that it asked for.")
        return
    whose = "" if session.tenant else f" --tenant {workload['tenant']}"
    echo(f"{reason_text(row['limited_by'])} More: alloc why {workload['pool']} {name}{whose}")


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
        for submitted in body.get("workloads", {}).get("submit", []):
            if named := submitted.get("tenant"):
                _refuse_unknown_tenant(session, named)
        note("There is no preview of a tenant's first workload: it is no member of the pool yet.")
    elif session.for_people:
        print_before_and_after(done)
    if not _is_terminal():
        raise click.UsageError("Nothing was changed: add --yes to change it.")
    if not click.confirm(question):
        raise Failure("Nothing was changed.")


def _refuse_unknown_tenant(session: Session, slug: str) -> None:
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
    if session.format == "json":
        print_json(done)
    refuse_failed(done)
    if session.for_people:
        print_before_and_after(done)


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


def find_workload(session: Session, slug: str, tenant: str | None, name: str) -> WorkloadDocument:
    found = list(session.client.pools_workloads_list(slug, name=name, tenant=tenant))
    if not found:
        raise Failure(f"There is no workload {name} of {tenant} in {slug}.")
    return found[0]


def _find_server(session: Session, slug: str, name: str) -> ServerDocument:
    found = list(session.client.pools_servers_list(slug, name=name))
    if not found:
        raise Failure(f"There is no server {name} in {slug}.")
    return found[0]


def changed_fields(text: str) -> tuple[dict[str, int | None], dict[str, float | str]]:
    """Parse the changed tasks and priority, and the changed demand by resource."""
    numbers: dict[str, int | None] = {}
    pairs = PAIRS.convert(text, None, None)
    for name in ("tasks", "priority"):
        if name in pairs:
            value = pairs.pop(name)
            if value == "none" and name == "tasks":
                numbers[name] = None
                continue
            try:
                numbers[name] = int(value)
            except ValueError as error:
                raise click.UsageError(f"{name}={value}: a whole number is right.") from error
    return numbers, {**pairs}


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


def print_before_and_after(done: SimulationDocument) -> None:
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
    cost = result.get("cost")  # a service of an earlier release does not send it
    if cost is not None:
        echo(f"\n{cost['words']}")
