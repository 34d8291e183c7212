"""Licences of a cluster as resources of the pool, on a server of their own.

A job holds its licences on no node. Where the policy places the pieces of a task, they are one more
piece of the job, which only the server of the licences has room for. Where the policy sees one pool,
the job is one task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from allocator_agent.changes import few
from allocator_agent.configuration import Configuration
from allocator_agent.model import (
    LICENCE_CLASS,
    LICENCE_PREFIX,
    TYPES,
    Job,
    Node,
    Observation,
    started_together,
)
from allocator_agent.quantities import Units
from allocator_agent.workload_rows import can_have_licences

WAITS_FOR_LICENCES = "Licenses"


def can_count_licences(*, places: bool, gangs: bool) -> bool:
    """Return true if the pool's policy can divide resources that are on no node."""
    return gangs or not places


def with_counted_licences(
    observed: Observation, units: Units, *, places: bool, gangs: bool
) -> Observation:
    """Return the observation with the licences that the pool counts, and no others.

    Jobs that wait for licences which the pool does not count are left out: they could not use the
    servers of a decision. Jobs that need licences which no decision can give are left out, too.
    """
    of_pool = {name for name in units.names if name.startswith(LICENCE_PREFIX)}
    counted = of_pool if can_count_licences(places=places, gangs=gangs) else set()
    problems = list(observed.problems)
    if of_pool and not counted:
        problems.append(not_counted_problem(sorted(of_pool)))
    jobs: list[Job] = []
    left_out: Counter[str] = Counter()
    stopped: list[str] = []
    asking = 0
    for parts in started_together(observed.jobs):
        names = {name for job in parts for name in job.licences}
        kept = names & counted
        if not can_have_licences(parts, units, places=places):
            kept = set()
        if names == kept:
            jobs += parts
            continue
        left_out.update(names - kept)
        asking += 1
        if names & counted and not kept and not any(job.running for job in parts):
            stopped += [job.id for job in parts]
            continue
        # Parts start together, so that all of them wait for the licences of one.
        if any(job.reason == WAITS_FOR_LICENCES for job in parts):
            continue
        jobs += [
            replace(
                job, licences={name: job.licences[name] for name in job.licences if name in kept}
            )
            for job in parts
        ]
    if stopped:
        problems.append(
            f"jobs that cannot start, because no decision can give their licences: {few(stopped)};"
            " submit parts of one kind to one partition, or licences in jobs of their own"
        )
    notes = [*observed.notes, _note(asking, sorted(left_out))] if asking else list(observed.notes)
    if absent := sorted(counted - observed.licences.keys()):
        notes.append(f"the cluster has no licence {licence_names(absent)}, a resource of the pool")
    licences = {name: observed.licences[name] for name in observed.licences if name in counted}
    return replace(observed, jobs=jobs, notes=notes, problems=problems, licences=licences)


def without_licences(jobs: Iterable[Job]) -> list[Job]:
    """Return jobs by the resources of their nodes alone."""
    return [replace(job, licences={}) for job in jobs]


def licence_server(observed: Observation, configuration: Configuration) -> Node | None:
    """Return the server of a cluster's licences, None without any.

    It has each label that jobs select servers by, with a value that only jobs with licences select.
    """
    capacity = {name: amount for name, amount in observed.licences.items() if amount}
    if not capacity:
        return None
    labels = {
        label
        for node in observed.nodes
        for label in node.labels
        if label == configuration.class_label or label.startswith(TYPES)
    }
    values = dict.fromkeys(sorted(labels), LICENCE_CLASS)
    return Node(licence_server_name(configuration), capacity, values, draining=False)


def licence_server_name(configuration: Configuration) -> str:
    """Return a name that no other cluster of the pool uses."""
    return f"{configuration.name}-licenses"


def not_counted_problem(names: Sequence[str]) -> str:
    """Return the problem of licences that the pool has and its policy cannot divide."""
    return (
        f"the policy puts each task on one server, so that no job gets {', '.join(names)}: choose a"
        " policy that places gangs, in mode indivisible and with gangs = yes, or one that sees one pool"
    )


def licence_names(names: Sequence[str]) -> str:
    """Return the cluster's names of the licences that resources stand for, a few of them."""
    return few([name.removeprefix(LICENCE_PREFIX) for name in names])


def _note(asking: int, names: Sequence[str]) -> str:
    jobs = "1 job asks" if asking == 1 else f"{asking} jobs ask"
    return f"{jobs} for licences that are not counted: {licence_names(names)}"
