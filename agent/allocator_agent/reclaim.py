"""Which running jobs have to stop so that an account is back within its decision: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from allocator_agent.model import Job
from allocator_agent.quantities import Amounts


def to_stop(jobs: Iterable[Job], limit: Mapping[str, Fraction]) -> list[Job]:
    """The youngest running jobs that are too many, and none that could have stayed.

    Youngest first, as they lose least. What would have fitted after all once older ones were
    chosen stays: an account that is within its limit loses nothing.
    """
    running = sorted((job for job in jobs if job.running), key=lambda job: (job.started, job.id))
    used: Amounts = {}
    for job in running:
        for name, amount in job.total.items():
            used[name] = used.get(name, Fraction(0)) + amount
    chosen: list[Job] = []
    for job in reversed(running):
        over = [name for name, most in limit.items() if used.get(name, Fraction(0)) > most]
        if not over:
            break
        if job.can_requeue and any(job.total.get(name) for name in over):
            chosen.append(job)
            _take(used, job, -1)
    for job in reversed(chosen):  # the oldest of them first
        _take(used, job, 1)
        if any(used.get(name, Fraction(0)) > most for name, most in limit.items()):
            _take(used, job, -1)
        else:
            chosen.remove(job)
    return chosen


def _take(used: Amounts, job: Job, sign: int) -> None:
    for name, amount in job.total.items():
        used[name] = used.get(name, Fraction(0)) + sign * amount
