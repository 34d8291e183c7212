"""The command `alloc submit`."""

import uuid
from collections.abc import Sequence

import click

from allocator_client._generated.documents.decisions import AllocationDocument, DecisionDocument
from allocator_client._generated.documents.servers_and_workloads import (
    WorkloadDocument,
    WorkloadRequest,
)
from allocator_client._generated.documents.what_if import SimulationRequestWorkloadsSubmit
from allocator_client.cli.arguments import PAIRS, selector_of, yes_option
from allocator_client.cli.failures import WaitTimeout
from allocator_client.cli.output import echo, note, print_json
from allocator_client.cli.session import (
    Session,
    pool_argument,
    tenant_option,
    units,
    with_session,
)
from allocator_client.cli.simulating import (
    is_terminal,
    preview_and_confirm,
    refuse_unknown_tenant,
    unlimited_question,
)
from allocator_client.cli.waiting import wait_for, wait_option
from allocator_client.cli.words import number, quantities, reason_text
from allocator_client.errors import Problem


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
    *,
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
    if tasks is None and not unlimited and (yes or not is_terminal()):
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
            refuse_unknown_tenant(session, tenant)
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
