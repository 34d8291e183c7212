"""Licences of a cluster as resources of the pool, on a server of their own.

A job holds its licences on no node. Where the policy places the pieces of a task, they are one more
piece of the job, which only the server of the licences has room for. Where the policy sees one pool,
the job is one task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from allocator_agent.model import LICENCE, Job, Observation, started_together
from allocator_agent.quantities import Units
from allocator_agent.workload_rows import MOST_KINDS, kinds_of

WAITS_FOR_LICENCES = "Licenses"
_FEW = 10  # names in a note


def can_count_licences(*, places: bool, gangs: bool) -> bool:
    """Return true if the pool's policy can divide resources that are on no node."""
    return gangs or not places


def with_counted_licences(
    observed: Observation, units: Units, *, places: bool, gangs: bool
) -> Observation:
    """Return the observation with the licences that the pool counts, and no others.

    A job that waits for other licences is no demand: a decision would keep servers for it in vain.
    """
    of_pool = {name for name in units.names if name.startswith(LICENCE)}
    counted = of_pool if can_count_licences(places=places, gangs=gangs) else set()
    problems = list(observed.problems)
    if of_pool and not counted:
        problems.append(not_counted_problem(sorted(of_pool)))
    jobs: list[Job] = []
    left_out: Counter[str] = Counter()
    asking = 0
    for parts in started_together(observed.jobs):
        names = {name for job in parts for name in job.licences}
        kept = names & counted
        if gangs and len(kinds_of(parts, units)) > MOST_KINDS:
            kept = set()
        if names == kept:
            jobs += parts
            continue
        left_out.update(names - kept)
        asking += len(parts)
        jobs += [
            replace(
                job, licences={name: job.licences[name] for name in job.licences if name in kept}
            )
            for job in parts
            if job.reason != WAITS_FOR_LICENCES
        ]
    notes = [*observed.notes, _note(asking, sorted(left_out))] if asking else observed.notes
    licences = {name: observed.licences[name] for name in observed.licences if name in counted}
    return replace(observed, jobs=jobs, notes=notes, problems=problems, licences=licences)


def not_counted_problem(names: Sequence[str]) -> str:
    """Return the problem of licences that the pool has and its policy cannot divide."""
    return (
        f"the policy puts each task on one server, so that no job gets {', '.join(names)}: choose a"
        " policy that places gangs, in mode indivisible and with gangs = yes, or one that sees one pool"
    )


def licence_names(names: Sequence[str]) -> str:
    """Return the cluster's names of the licences that resources stand for, a few of them."""
    shown = [name.removeprefix(LICENCE) for name in names[:_FEW]]
    return ", ".join(shown) + (", ..." if len(names) > _FEW else "")


def _note(asking: int, names: Sequence[str]) -> str:
    return (
        f"{asking} jobs ask for licences ({licence_names(names)}) that are not counted: the other"
        " resources of these jobs are"
    )
