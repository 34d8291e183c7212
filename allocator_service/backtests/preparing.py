"""The preparation of a backtest's scenario from its request, with a description of the input."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from allocator_service.backtests.errors import (
    MAX_EVENTS,
    MAX_PAIRS,
    MAX_TASKS,
    MAX_TENANTS,
    MAX_TERMS,
    absent,
    of_policy,
    refuse_many_servers,
    too_large,
)
from allocator_service.backtests.histories import (
    Servers,
    members_between,
    servers_between,
    submitted_between,
    window_between,
)
from allocator_service.backtests.models import Backtest
from allocator_service.backtests.obstacles import obstacles_text
from allocator_service.backtests.scenarios import Scenario, gang_fields
from allocator_service.backtests.trees import (
    DatedTree,
    tree_between,
    tree_moments,
    tree_named,
)
from allocator_service.backtests.uploads import FORMATS, trace_read
from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource, vector_from
from allocator_service.core.snapshots import one_snapshot
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from policies import PolicyError
from policies.simulation.traces import Submitted

LONGEST_NAME = 253
NAMED = 5
_STEP_SECONDS = 60.0

Terms = Mapping[str, tuple[float, bool]]


@dataclass
class _Read:
    """The input before tenants and servers have numbers."""

    submitted: Submitted
    resources: Sequence[Resource]
    servers: Servers
    origin: datetime
    terms: Terms = field(default_factory=dict)
    weights: str = "explicit"
    step: float = _STEP_SECONDS
    window: Mapping[str, Any] = field(default_factory=lambda: {"kind": "unbounded"})
    tree: DatedTree | None = None


def scenario_of(backtest: Backtest) -> tuple[Scenario, dict[str, Any]]:
    """Return the scenario, and the description of its input.

    Raises `DomainError` for an input that cannot be simulated: a bad line, an unknown tenant, no
    servers, tasks of which none fits anywhere, or more than the limits allow.
    """
    spec = backtest.spec
    try:
        found = _of_trace(backtest) if "trace" in spec else _of_history(backtest)
        if spec["servers"]:
            found.servers = _given_servers(spec["servers"], found.resources)
        if spec["window"]:
            found.window = spec["window"]
        if spec["tenants"]:
            found.terms = {
                row["name"]: (row["weight"], row["best_effort"]) for row in spec["tenants"]
            }
            found.tree = tree_named(spec.get("groups", []), spec["tenants"])
            _refuse_strangers(found)
        scenario = _numbered(found, backtest)
        _refuse_impossible(scenario, cells=len(spec["cells"]))
    except PolicyError as error:
        raise of_policy(error) from error
    return scenario, _input_description(scenario, found.submitted)


def _of_trace(backtest: Backtest) -> _Read:
    trace = backtest.spec["trace"]
    form = FORMATS[trace["format"]]
    submitted = trace_read(
        bytes(backtest.content.uploaded or b""), trace["format"], trace["options"]
    )
    resources = [Resource(name, form.units.get(name, "")) for name in submitted.resources]
    origin = datetime.fromtimestamp(0, UTC)
    # Formats with absolute times count from 1970.
    if trace["begin"] and not form.absolute:
        origin = datetime.fromisoformat(trace["begin"])
    servers = Servers()
    if backtest.pool is not None and not backtest.spec["servers"]:
        servers = _servers_now(backtest.pool, resources, backtest)
    return _Read(submitted, resources, servers, origin)


def _of_history(backtest: Backtest) -> _Read:
    pool, whose = backtest.pool, backtest.tenant
    if pool is None:
        raise absent()  # the request named it
    if pool.transparent:
        # Members of a transparent pool see each other's use, so that nothing has to be left out.
        whose = None
    start, end = (datetime.fromisoformat(backtest.spec["history"][side]) for side in ("from", "to"))
    # Tasks, servers and the tree of one state: a server that joins between two reads would be missing.
    with one_snapshot():
        submitted = submitted_between(pool=pool, tenant=whose, start=start, end=end)
        servers = servers_between(pool=pool, tenant=whose, start=start, end=end)
        terms = members_between(pool=pool, start=start, end=end)
        # A tenant of a private pool is alone, so that groups decide nothing.
        tree = None if whose is not None else tree_between(pool=pool, start=start, end=end)
        resources = resources_of(pool)
    if not submitted.trace.tasks:
        raise Unacceptable(
            "The ledger holds no usage in the period: name another one, or send a trace.",
            code="trace.empty",
            pointer="/history",
        )
    if whose is not None:
        terms = {slug: each for slug, each in terms.items() if slug == whose.slug}
    return _Read(
        submitted,
        resources,
        servers,
        start,
        terms,
        pool.weights,
        float(parse_duration(pool.decision_interval).nominal_seconds),
        window_between(pool, start, end),
        tree,
    )


def _servers_now(pool: Pool, resources: Sequence[Resource], backtest: Backtest) -> Servers:
    """Return the pool's servers as of the request, in the resources of a trace."""
    # As of the request: a retry after a crash must read the same input.
    now, shown = backtest.created_at, backtest.spec["names"] or {}
    known = {each.name: (number, each.unit) for number, each in enumerate(resources_of(pool))}
    for resource in resources:
        if resource.name not in known:
            raise Unacceptable(
                f"The pool has no {resource.name}; it has {', '.join(known)}.",
                code="trace.resource",
                pointer="/trace",
            )
        unit = known[resource.name][1]
        if resource.unit and unit and unit != resource.unit:
            raise Unacceptable(
                f"The trace has {resource.name} in {resource.unit}, the pool in {unit}: name the"
                " servers.",
                code="trace.unit",
                pointer="/servers",
            )
    # The shortest period of a history is an instant.
    found = servers_between(pool=pool, tenant=None, start=now, end=now + timedelta(microseconds=1))
    columns = [known[resource.name][0] for resource in resources]
    capacity = [[row[column] for column in columns] for row in found.capacity]
    # The names by which the caller knows the owners.
    owners = [owner and shown.get(owner, owner) for owner in found.contributed_by]
    return Servers(capacity, found.count, found.labels, owners)


def _given_servers(rows: Sequence[Mapping[str, Any]], resources: Sequence[Resource]) -> Servers:
    return Servers(
        capacity=[
            [
                float(amount)
                for amount in vector_from(
                    row["capacity"], resources, pointer=f"/servers/{position}/capacity"
                )
            ]
            for position, row in enumerate(rows)
        ],
        count=[row["count"] for row in rows],
        labels=[row["labels"] for row in rows],
        contributed_by=[row["contributed_by"] for row in rows],
    )


def _refuse_strangers(found: _Read) -> None:
    strangers = [
        name
        for name in [*found.submitted.tenants, *filter(None, found.servers.contributed_by)]
        if name not in found.terms
    ]
    if strangers:
        raise Unacceptable(
            f"{_some(strangers)} {'is' if len(strangers) == 1 else 'are'} not among the tenants that"
            " were named.",
            code="tenant.unknown",
            pointer="/tenants",
        )


def _numbered(found: _Read, backtest: Backtest) -> Scenario:
    """Return the scenario with numbered tenants.

    They are in the order in which they submit, followed by owners of servers and other members.
    """
    submitted, servers = found.submitted, found.servers
    if not sum(servers.count):
        raise Unacceptable(
            "There are no servers: name them in `servers`.",
            code="backtest.no_servers",
            pointer="/servers",
        )
    refuse_many_servers(sum(servers.count))
    everybody = [*submitted.tenants, *filter(None, servers.contributed_by), *found.terms]
    # In order of appearance. A set has another order in each process, and the digest depends on it.
    number = {name: position for position, name in enumerate(dict.fromkeys(everybody))}
    if len(number) > MAX_TENANTS:
        raise too_large(f"There are {len(number)} tenants; at most {MAX_TENANTS} can be simulated.")
    wrong = next((name for name in number if "\0" in name or len(name) > LONGEST_NAME), None)
    if wrong is not None:
        raise Unacceptable(
            f"{wrong[:40]!r} is not a valid name of a tenant: at most {LONGEST_NAME} characters, without"
            " U+0000.",
            code="trace.tenant",
            pointer="/trace/content",
        )
    owners = [-1 if owner is None else number[owner] for owner in servers.contributed_by]
    of_tenants = np.array([number[name] for name in submitted.tenants], dtype=np.int64)
    return Scenario.of(
        {
            "resources": [resource.name for resource in found.resources],
            "units": [resource.unit for resource in found.resources],
            "tenants": _tenants(number, found.terms, backtest),
            "labels": servers.labels,
            "selectors": [
                {label: list(values) for label, values in selector.items()}
                for selector in submitted.selectors
            ],
            "weights": found.weights,
            "origin": found.origin.isoformat(),
            "step": float(backtest.spec["step"] or found.step),
            "window": found.window,
            **({} if found.tree is None else {"tree": found.tree.numbered(list(number))}),
            **_gangs(submitted),
        },
        workload_tenant=of_tenants[submitted.workload_tenant],
        demand=submitted.demand,
        priority=submitted.priority,
        capacity=np.array(servers.capacity, dtype=np.float64),
        server_count=servers.count,
        contributed_by=owners,
        task_workload=submitted.trace.workload,
        task_submit=submitted.trace.submit,
        task_duration=submitted.trace.duration,
        task_job=submitted.trace.job,
        change_time=[time for time, _, _ in servers.changes],
        change_server=[server for _, server, _ in servers.changes],
        change_joins=[joins for _, _, joins in servers.changes],
    )


def _gangs(submitted: Submitted) -> dict[str, Any]:
    """Return the pieces of tasks as `gangs` of a scenario, nothing if all have one piece."""
    gangs = {str(number): gang_fields(gang) for number, gang in submitted.gangs.items()}
    return {"gangs": gangs} if gangs else {}


def _tenants(number: Iterable[str], terms: Terms, backtest: Backtest) -> list[dict[str, Any]]:
    """Return the tenants with the names to show, their terms, and the tenants whose prices they pay."""
    pks: dict[str, int] = {}
    if backtest.plan is not None:
        payers = Tenant.objects.filter(memberships__pool=backtest.plan.pool_id)
        if backtest.tenant is not None:
            # A tenant sees its own money only.
            payers = payers.filter(pk=backtest.tenant.pk)
        pks = dict(payers.values_list("slug", "pk"))
    shown = backtest.spec["names"] if "history" in backtest.spec else None
    return [
        {
            "name": name if shown is None else shown.get(name, f"member-{position}"),
            "weight": terms.get(name, (1.0, False))[0],
            "best_effort": terms.get(name, (1.0, False))[1],
            "pk": pks.get(name),
        }
        for position, name in enumerate(number)
    ]


def _refuse_impossible(scenario: Scenario, *, cells: int) -> None:
    """Raise for tasks that no policy can run, and for more than the limits allow."""
    kinds, rows = len(scenario.arrays["demand"]), len(scenario.arrays["capacity"])
    # What fits where is a table of all pairs, which is computed before the first task.
    if kinds * rows > MAX_PAIRS:
        raise too_large(
            f"{kinds} kinds of tasks on {rows} kinds of servers are {kinds * rows} pairs; at most"
            f" {MAX_PAIRS} can be simulated."
        )
    tree = scenario.head.get("tree")
    if tree is not None:
        _refuse_many_terms(tree)
    trace = scenario.trace
    if trace.tasks > MAX_TASKS or trace.tasks * cells > MAX_EVENTS:
        raise too_large(
            f"{trace.tasks} tasks under {cells} policies and seeds are {trace.tasks * cells}; at most"
            f" {MAX_TASKS} tasks, and {MAX_EVENTS} in all, can be simulated."
        )
    # Tasks that fit nowhere are part of the description, unless there are no others.
    if scenario.fitting.any():
        return
    raise Unacceptable(
        f"No task fits on any server: {obstacles_text(scenario)}.",
        code="backtest.nothing_fits",
        pointer="/servers",
    )


def _refuse_many_terms(tree: Mapping[str, Any]) -> None:
    """Raise for more changes of a tree than are simulated."""
    changes, nodes = len(tree_moments(tree)), len(tree["groups"]) + len(tree["members"])
    if changes * nodes > MAX_TERMS:
        raise too_large(
            f"The tree of {nodes:,} groups and members changes at {changes:,} instants. At most"
            f" {MAX_TERMS:,} of nodes times instants can be simulated: name a shorter period."
        )


def _input_description(scenario: Scenario, submitted: Submitted) -> dict[str, Any]:
    """Return a description of the input with its sizes, digest, and the reasons for omitted lines."""
    trace = scenario.trace
    # As submitted: no task waits here.
    last = float((trace.submit + trace.duration).max())
    too_big = ~scenario.fitting[trace.workload]
    return {
        "digest": scenario.digest,
        "tasks": trace.tasks,
        "jobs": len(np.unique(trace.job)),
        "tenants": len(scenario.tenants),
        "servers": int(scenario.arrays["server_count"].sum()),
        "server_changes": len(scenario.changes.time),
        "from": _text(scenario.instant(float(trace.submit.min()))),
        "to": _text(scenario.instant(last)),
        "left_out": dict(submitted.left_out),
        "bad_lines": submitted.bad_lines,
        "first_bad_lines": [{"line": each.line, "reason": each.reason} for each in submitted.bad],
        "fits_nowhere": {
            "tasks": int(too_big.sum()),
            "tenants": sorted(
                {
                    scenario.tenants[scenario.arrays["workload_tenant"][each]]
                    for each in np.unique(trace.workload[too_big]).tolist()
                }
            )[:100],
        },
    }


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(name[:60] for name in names[:NAMED]) + more
