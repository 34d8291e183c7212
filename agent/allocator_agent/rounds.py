"""The rounds of an agent, each of which observes, feeds, waits, plans, applies and reports.

Only caches are kept between rounds, so that after any kill the next round completes the last one.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Protocol

from allocator_agent.changes import ObjectChange, plan_lines
from allocator_agent.configuration import Configuration
from allocator_agent.feeding import Feed
from allocator_agent.licences import with_counted_licences
from allocator_agent.model import Job, Observation, Rendering, Usage, Waiting
from allocator_agent.quantities import Amounts, Units, added
from allocator_agent.reclaim import Memory, ReclaimPlan, utc_text
from allocator_agent.service import Known, Service

logger = logging.getLogger("allocator_agent")
_POLL_SECONDS = 0.1
# So much of the time before the last successful upload is sent again: sacct learns of an end late.
_OVERLAP_HOURS = 0.25
_MOST_PROBLEMS, _LONGEST_PROBLEM = 100, 500  # as many as the service takes
_MOST_HELD, _MOST_SERVERS_HELD = 100, 1000  # as many as the service takes
_NOT_NOW = ("BeginTime",)  # Slurm lets a requeued job wait two minutes


class Plan(Protocol):
    """The changes that a scheduler needs."""

    @property
    def problems(self) -> dict[str, list[str]]: ...

    @property
    def waiting(self) -> Mapping[str, Sequence[Waiting]]: ...

    @property
    def reclaim(self) -> ReclaimPlan: ...

    def __len__(self) -> int: ...

    def shown(self) -> list[ObjectChange]: ...


class Scheduler(Protocol):
    """The scheduler of an agent. Every method may raise `SchedulerAway`."""

    target: str
    memory: Memory

    @property
    def source(self) -> str: ...

    def observe(self) -> Observation: ...

    def finished(self, hours: float, now: datetime) -> Sequence[Usage]: ...

    def plan(self, rendering: Rendering, observed: Observation, now: datetime) -> Any: ...

    def apply(self, plan: Any) -> list[str]: ...

    def applied(self, observed: Observation, *, fresh: bool) -> dict[str, Amounts]: ...


@dataclass
class Outcome:
    """The result of a round, for people and for the exit code."""

    generation: int | None = None
    changes: list[ObjectChange] = field(default_factory=list)  # of the scheduler
    sent: list[ObjectChange] = field(default_factory=list)  # to the service
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # by step, in order

    def lines(self, scheduler: str) -> list[str]:
        """Return what is sent and what changes, object by object."""
        return [
            *plan_lines("service", self.sent),
            *plan_lines(scheduler, self.changes),
            *self.notes,
        ]

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step of the round."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began


def with_minima(
    observed: Observation, rendering: Rendering, workload_of: Mapping[str, tuple[str, str]]
) -> Observation:
    """Return an observation with the minima of jobs whose workload has its own.

    Args:
        workload_of: tenant and name of a job's workload, by the id of the job.
    """
    minima = rendering.terms.workloads
    if not minima:
        return observed
    jobs = [
        replace(job, minimum_run=minima[workload_of[job.id]])
        if workload_of.get(job.id) in minima
        else job
        for job in observed.jobs
    ]
    return replace(observed, jobs=jobs)


class Rounds:
    """Rounds of one agent."""

    def __init__(
        self,
        configuration: Configuration,
        service: Service,
        scheduler: Scheduler,
        *,
        interval_seconds: float,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._configuration, self._service, self._scheduler = configuration, service, scheduler
        self._interval_seconds, self._clock, self._sleep = interval_seconds, clock, sleep
        self._uploaded: float | None = None  # when usage was last sent with success
        self._remembers = False  # whether the notices of an earlier process are read

    def once(self, *, dry_run: bool = False) -> Outcome:
        """Run one round. Raises an `AgentError` when the service or the scheduler is away."""
        outcome = Outcome()
        with outcome.step("observe"):
            observed, known = self._look()
            units = Units(known.pool["resources"])
            observed = self._with_licences(observed, known, units)
        outcome.problems += observed.problems
        outcome.notes += observed.notes
        with outcome.step("feed"):
            feed = Feed(self._configuration, self._service, units, known, dry_run=dry_run)
            if known.pool["metering"] == "reported":
                self._send_all(feed, observed)
            else:
                feed.send(observed)
        outcome.problems += feed.problems
        outcome.sent = [_sent(line) for line in feed.lines]
        with outcome.step("decide"):
            if not dry_run:
                self._wait(feed.generation)
            label = self._configuration.class_label
            quota = self._configuration.quota
            rendering = self._service.rendering(self._scheduler.target, label, quota)
        if rendering is None:
            lines = outcome.notes if dry_run else outcome.problems
            lines.append("the pool has no decision yet: nothing is changed")
            return outcome
        outcome.generation = rendering.generation
        with outcome.step("plan"):
            self._remember(rendering)
            observed = with_minima(observed, rendering, feed.workload_of)
            observed = replace(observed, joining=feed.joining)
            plan = self._scheduler.plan(rendering, observed, self._now())
        outcome.changes = plan.shown()
        if not dry_run:
            with outcome.step("apply"):
                outcome.problems += self._scheduler.apply(plan) if len(plan) else []
                self._scheduler.memory.keep(plan.reclaim, int(self._clock()))
            with outcome.step("report"):
                if len(plan):
                    observed = self._with_licences(self._scheduler.observe(), known, units)
                self._report(rendering, observed, plan, units, outcome.problems)
        outcome.problems += _problem_lines(plan.problems)
        return outcome

    def _with_licences(self, observed: Observation, known: Known, units: Units) -> Observation:
        gangs = known.gangs and self._configuration.gangs
        return with_counted_licences(observed, units, places=known.places, gangs=gangs)

    def _remember(self, rendering: Rendering) -> None:
        """Read the notices that this agent gave before it was started again."""
        if self._remembers:
            return
        if self._configuration.reclaim != "none" and rendering.reports_ends:
            known = self._service.notices(self._configuration.name)
            self._scheduler.memory = Memory(known)
        self._remembers = True

    def _look(self) -> tuple[Observation, Known]:
        """Return the state of the scheduler and of the service, read side by side."""
        with ThreadPoolExecutor(1) as other:
            known = other.submit(self._service.known)
            return self._scheduler.observe(), known.result()

    def _send_all(self, feed: Feed, observed: Observation) -> None:
        """Send the observation and the jobs that ended since the last upload.

        The first upload goes back `usage_hours`. The scheduler looks the jobs up while the service takes
        the observation.
        """
        now = self._clock()
        hours = self._configuration.usage_hours
        if self._uploaded is not None:
            hours = min(hours, (now - self._uploaded) / 3600 + _OVERLAP_HOURS)
        with ThreadPoolExecutor(1) as other:
            ended = other.submit(self._scheduler.finished, hours, self._now())
            feed.send(observed)
        before = len(feed.problems)
        feed.usage(ended.result(), self._scheduler.source)
        if len(feed.problems) == before:
            self._uploaded = now

    def _wait(self, generation: int) -> None:
        """Wait up to `decision_wait` until the changes are decided, else take the decision in force."""
        deadline = time.monotonic() + self._configuration.decision_wait
        while time.monotonic() < deadline:
            decided = self._service.decided_generation()
            if decided is not None and decided >= generation:
                return
            self._sleep(_POLL_SECONDS)

    def _report(
        self,
        rendering: Rendering,
        observed: Observation,
        plan: Plan,
        units: Units,
        problems: list[str],
    ) -> None:
        """Report the limits in force and the jobs to the service, by tenant."""
        applied = self._scheduler.applied(observed, fresh=len(plan) > 0)
        accounts = {
            **self._configuration.by_tenant(observed.parents),
            **self._configuration.by_tenant(observed.accounts),
        }
        jobs_of: dict[str, list[Job]] = {}
        for job in observed.jobs:
            jobs_of.setdefault(job.account, []).append(job)
        tenants = []
        has_users = self._configuration.slurm.users
        for item in rendering.tenants:
            tenant = item["tenant"]
            account = accounts.get(tenant)
            jobs = jobs_of.get(account or "", [])
            tenants.append(
                {
                    "tenant": tenant,
                    "applied": units.to_pool(applied.get(account or "", {})),
                    "used": units.to_pool(_used(jobs), up=True),
                    "pending_tasks": sum(job.tasks for job in jobs if not job.running),
                    "running_tasks": sum(job.tasks for job in jobs if job.running),
                    **_first_pending(jobs, units),
                    **self._holds(plan.waiting.get(tenant, ())),
                    "problems": _few(plan.problems.get(tenant, [])),
                    # The service ends the membership of users who stay absent.
                    **({"absent": True} if has_users and account is None else {}),
                }
            )
        if rendering.reports_ends:
            _add_ends(tenants, plan.reclaim, accounts)
        of_pool = [*problems, *plan.problems.get("", [])]
        now = self._now().isoformat().replace("+00:00", "Z")
        self._service.report(
            {
                "agent": self._configuration.name,
                "target": self._scheduler.target,
                "class_label": self._configuration.class_label,
                "run": rendering.run,
                "generation": rendering.generation,
                # The service takes whole seconds; a shorter interval only makes it wait longer.
                "interval": f"PT{math.ceil(self._interval_seconds)}S",
                "reported_at": now,
                "tenants": tenants,
                "problems": _few(of_pool),
            }
        )

    def _holds(self, waiting: Sequence[Waiting]) -> dict[str, Any]:
        """Return the servers that are held for jobs of a tenant, no field without any."""
        rows = [
            {
                "jobs": list(each.jobs[:_MOST_HELD]),
                "servers": list(each.servers[:_MOST_SERVERS_HELD]),
                "beside": [
                    {"tenant": self._configuration.tenant_of(account), "jobs": count}
                    for account, count in list(each.beside.items())[:_MOST_HELD]
                ],
            }
            for each in waiting[:_MOST_HELD]
        ]
        return {"holds": rows} if rows else {}

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), timezone.utc)


def _sent(line: str) -> ObjectChange:
    """Return a line of the feed, which begins with a sign, as the change of an object."""
    sign, _, rest = line.strip().partition(" ")
    name, _, note = rest.partition(": ")
    return ObjectChange(sign, name, notes=(note,) if note else ())


def _few(problems: Sequence[str]) -> list[str]:
    """Return as many problems as the service takes, each as long as it takes."""
    return [text[:_LONGEST_PROBLEM] for text in problems[:_MOST_PROBLEMS]]


def _first_pending(jobs: Sequence[Job], units: Units) -> dict[str, Any]:
    """Return the reason and the demand of the first job that waits and may start now."""
    waiting = [job for job in jobs if not job.running]
    first = next((job for job in waiting if job.reason not in _NOT_NOW), None)
    if first is None:
        reason = waiting[0].reason if waiting else None
        return {"pending_reason": reason, "pending_demand": None}
    together = [job for job in waiting if first.whole and job.whole == first.whole] or [first]
    demand: Amounts = {}
    for job in together:
        demand = added(demand, job.demand if job.splits else job.total)
    return {
        "pending_reason": first.reason[:_LONGEST_PROBLEM],
        "pending_demand": units.to_pool(demand, up=True),
    }


def _used(jobs: Sequence[Job]) -> Amounts:
    total: Amounts = {}
    for job in jobs:
        if job.running:
            total = added(total, job.total)
    return total


def _problem_lines(problems: dict[str, list[str]]) -> list[str]:
    """Return problems by tenant, as lines."""
    return [
        f"{tenant}: {problem}" if tenant else problem
        for tenant, found in sorted(problems.items())
        for problem in found
    ]


def _add_ends(
    tenants: Sequence[dict[str, Any]], plan: ReclaimPlan, accounts: Mapping[str, str]
) -> None:
    """Add jobs that end to the rows of their tenants."""
    tenant_of = {account: tenant for tenant, account in accounts.items()}
    rows: dict[str, list[dict[str, Any]]] = {}
    ended = {each.key for each in plan.ended} - plan.refused
    for each in [*plan.waiting, *plan.ended]:  # notices are read again after a start
        rows.setdefault(tenant_of.get(each.jobs[0].account, ""), []).append(
            {
                "name": each.key,
                "jobs": [job.id for job in each.jobs][:_MOST_HELD],
                "tasks": each.tasks,
                "ends_at": utc_text(each.ends_at),
                "heir": tenant_of.get(each.heir),
                "ended": each.key in ended,
            }
        )
    for row in tenants:
        if ends := rows.get(row["tenant"]):
            row["ending"] = ends[:_MOST_HELD]
