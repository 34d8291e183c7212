"""Front door of the simulation, from servers, a trace and a policy to the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from policies.arrays import read_only
from policies.errors import PolicyNotApplicableError, ProblemError
from policies.filling.best_fit import NOWHERE
from policies.filling.servers import check_size
from policies.long_term.windows import Window
from policies.model.gang_checks import check_simulated_gangs
from policies.model.gangs import gangs_equal
from policies.model.limit_checks import check_amounts
from policies.model.policy import Policy
from policies.model.problem import Problem
from policies.simulation.cluster import Cluster
from policies.simulation.floor_setup import without_floors
from policies.simulation.limiting import without_limits
from policies.simulation.outcome import Simulation
from policies.simulation.own_servers import own_clusters
from policies.simulation.running import ClusterResult, Run, Terms
from policies.simulation.selection import APART, POLICIES, choose_simulated
from policies.simulation.server_changes import ServerChanges
from policies.simulation.trace import Trace


def simulate(
    problem: Problem,
    trace: Trace,
    policy: str,
    *,
    options: Mapping[str, Any] | None = None,
    window: Window | None = None,
    step: float = 1.0,
    until: float = math.inf,
    changes: ServerChanges | None = None,
    terms: Terms = (),
    on_progress: Callable[[float], None] | None = None,
) -> Simulation:
    """Run a trace through servers.

    Tasks arrive, run whole and end, and hold what they need meanwhile. After all that happens at
    one time, the policy hands out what fits, task by task, each to the tenant that is next and on
    the server that its placement rule names. A task fits where it exceeds no limit. Tasks that keep
    their workloads within what is guaranteed go first. Within a workload tasks begin in the order
    of their submission; a tenant's workloads go by priority, then position. A task keeps its server
    until it ends. All pieces of a task begin at once, placed as in decisions, and end at once.

    Args:
        problem: servers, tenants, their groups, and workloads; ``tasks`` of a workload run at once at
            most.
        trace: the tasks.
        policy: one of ``POLICIES``: ``drf``, ``asset`` and ``single-resource`` see one pool;
            ``slots`` (a task takes slots of the first server that has enough), ``drfh``, ``mrfs``
            and the long-term policies place on real servers; ``ffmra`` is the order of ``mrfs`` on
            the first server with room; under ``static`` and ``dedicated`` each tenant is alone.
        options: of the policy, as for ``solve``; ``dedicated`` takes ``seed``.
        window: how far back a long-term policy looks; everything unless given.
        step: seconds, above 0, for which what runs counts ahead; the pool's decision interval.
        until: seconds at which to stop looking; by default when nothing happens any more.
        changes: servers that join and leave; none unless given.
        terms: pairs of seconds and problems, ascending. From then on weights, groups, tiers, limits,
            guarantees and own servers are those of the problem, which has the same servers, tenants and
            workloads.
        on_progress: called now and then with the part of the tasks, from 0 to 1, that have ended;
            an exception that it raises ends the simulation.

    Returns:
        The times and servers of each task and the use of every tenant. The same input gives the same
        answer, to the last bit; memory is linear in tasks.

    Raises:
        PolicyUnknownError, PolicyOptionsError: no such policy here, or options that do not fit.
        PolicyNotApplicableError: groups, tiers, limits or guarantees at any time under a policy that
            does not decide by them, a selector under a policy that sees one pool, or changes where each
            tenant is alone, or gangs under a policy that places tasks of one piece only.
        ProblemError: a task of no workload, a change of no server, terms of other tenants or gangs or
            not ascending, a step that is not above 0.
        ProblemTooLargeError: more servers than tasks are placed on one by one, or more limits or
            guarantees than are kept.
    """
    choice = choose_simulated(policy, options)
    if any(each.has_groups for each in (problem, *(later for _, later in terms))):
        _check_groups(choice.policy)
    able = [name for name, each in POLICIES.items() if each.takes_limits]
    for each in (problem, *(later for _, later in terms)):
        check_simulated_gangs(each, choice)
        check_amounts(each, choice, able)
    problem = problem.placed_by(choice)
    terms = [(when, later.placed_by(choice)) for when, later in terms]
    if not (math.isfinite(step) and step > 0):
        raise ProblemError("history.step", f"step is {step}; it must be a number above 0")
    if math.isnan(until):
        raise ProblemError("trace.time", "until is NaN; it must be a number")
    trace.check_workloads(problem.n)
    changed = ServerChanges.none() if changes is None else changes
    changed.check_servers(problem)
    _check_terms(problem, terms)
    check_size(int(problem.server_count.sum()))
    chosen = Window.unbounded() if window is None else window
    if choice.policy in APART:
        if len(changed.time) or terms:
            raise PolicyNotApplicableError(
                "policy.no_changes", f"policy {policy!r} takes no servers or terms that change"
            )
        clusters = own_clusters(problem, choice)
        together = _apart(problem, trace, clusters, chosen, step, until, on_progress)
    else:
        # Limits and guarantees change with the terms, and the cluster's whole numbers must not.
        cluster = Cluster.of(without_floors(without_limits(problem)), choice)
        together = Run(problem, trace, cluster, changed, chosen, step, terms).until(
            until, on_progress
        )
    return _outcome(problem, trace, choice.policy.name, chosen, until, changed, together)


def _check_groups(policy: Policy) -> None:
    """Raise PolicyNotApplicableError unless a policy decides by groups."""
    if not policy.takes_groups:
        able = ", ".join(name for name in sorted(POLICIES) if POLICIES[name].takes_groups)
        raise PolicyNotApplicableError(
            "policy.no_groups",
            f"policy {policy.name!r} does not decide by groups or tiers; these do: {able}",
            "/policy/name",
        )


def _check_terms(problem: Problem, terms: Terms) -> None:
    """Raise ProblemError for terms that are not ascending or of another problem."""
    moments = [moment for moment, _ in terms]
    if moments != sorted(set(moments)) or not all(map(math.isfinite, moments)):
        raise ProblemError("trace.time", "the seconds of terms must be finite and ascending")
    sizes = (problem.tenants, problem.m, problem.n, problem.k)
    for moment, later in terms:
        if (later.tenants, later.m, later.n, later.k) != sizes:
            raise ProblemError(
                "changes.shape",
                f"the terms from second {moment} on must be of the same tenants, servers and workloads",
            )
        if not gangs_equal(later.gangs, problem.gangs):
            raise ProblemError(
                "workload.pieces", f"the terms from second {moment} on must have the same gangs"
            )


def _outcome(
    problem: Problem,
    trace: Trace,
    policy: str,
    window: Window,
    until: float,
    changes: ServerChanges,
    result: ClusterResult,
) -> Simulation:
    end = result.end
    ended = float(until)
    if not math.isfinite(ended):
        ended = float(max(np.max(trace.submit, initial=-np.inf), np.nanmax(end, initial=-np.inf)))
    return Simulation(
        problem=problem,
        trace=trace,
        policy=policy,
        window=window,
        changes=changes,
        start=read_only(result.start),
        # Later ends are known, but the simulation did not come to them.
        end=read_only(np.where(end <= ended, end, np.nan)),
        server=read_only(result.server),
        piece_task=read_only(result.piece_task),
        piece_kind=read_only(result.piece_kind),
        piece_server=read_only(result.piece_server),
        ended=ended if trace.tasks else 0.0,
        changed_at=read_only(result.log_time),
        changed_tenant=read_only(result.log_tenant),
        changed_rate=read_only(result.log_rate),
    )


def _apart(
    problem: Problem,
    trace: Trace,
    clusters: Iterable[Cluster],
    window: Window,
    step: float,
    until: float,
    report: Callable[[float], None] | None,
) -> ClusterResult:
    """Run each tenant's tasks on its own cluster and return the joint result."""
    owner = problem.workload_tenant[trace.workload]
    by_owner = np.argsort(owner, kind="stable")
    edges = np.searchsorted(owner[by_owner], np.arange(problem.t + 1))
    start, end = np.full(trace.tasks, np.nan), np.full(trace.tasks, np.nan)
    server = np.full(trace.tasks, NOWHERE)
    pieces = [np.zeros((3, 0), dtype=np.int64)]
    times, tenants = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    rates = [np.zeros((0, 2 * problem.m))]
    here = partial(_report_overall, report, trace.tasks) if report is not None else None
    for cluster, first, stop in zip(clusters, edges[:-1], edges[1:], strict=True):
        own = by_owner[first:stop]
        run = Run(problem, trace.part(own), cluster, ServerChanges.none(), window, step)
        result = run.until(until, None if here is None else partial(here, int(first), int(stop)))
        start[own], end[own], server[own] = result.start, result.end, result.server
        pieces.append(np.stack([own[result.piece_task], result.piece_kind, result.piece_server]))
        # Copied, because a view would keep a buffer for the whole trace.
        times.append(result.log_time.copy())
        tenants.append(result.log_tenant.copy())
        rates.append(result.log_rate.copy())
    time = np.concatenate(times)
    # Stable, so that changes of one moment stay in the order of tenants.
    order = np.argsort(time, kind="stable")
    task, kind, place = np.concatenate(pieces, axis=1)
    return ClusterResult(
        start, end, server, task, kind, place, time[order], np.concatenate(tenants)[order],
        np.concatenate(rates)[order],
    )  # fmt: skip


def _report_overall(
    report: Callable[[float], None], tasks: int, first: int, stop: int, part: float
) -> None:
    """Report one tenant's progress as a part of that of all tenants."""
    report((first + part * (stop - first)) / max(tasks, 1))
