"""Pure choice of the running jobs that end so that accounts are back within their decision.

What starts together ends together. An account that is within its decision loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fractions import Fraction

from allocator_agent.changes import CHANGE, ObjectChange
from allocator_agent.model import Job, Terms, started_together
from allocator_agent.quantities import Amounts

Jobs = tuple[Job, ...]  # they start and end together
Counted = Callable[[Job], bool]


@dataclass(frozen=True)
class Victim:
    """Jobs that end together so that the jobs of an heir can start.

    `heir` is an account, empty if no job waits for what they release. They end at `ends_at` at the
    earliest, in seconds since 1970.
    """

    jobs: Jobs
    heir: str
    ends_at: int

    @property
    def key(self) -> str:
        """The name under which their notice is remembered."""
        return key_of(self.jobs)

    @property
    def tasks(self) -> int:
        """The number of their tasks."""
        return sum(job.tasks for job in self.jobs)

    def shown(self, event: str) -> ObjectChange:
        """Return their end or notice, as plans show it."""
        names = ", ".join(job.id for job in self.jobs)
        heir = f" for {self.heir}" if self.heir else ""
        note = f"{event}, above the decision{heir}"
        noun = "job" if len(self.jobs) == 1 else "jobs"
        return ObjectChange(CHANGE, f"{noun} {names} of {self.jobs[0].account}", notes=(note,))


@dataclass(frozen=True)
class ReclaimPlan:
    """Jobs that end now, and jobs that have notice.

    `warned` are those of the latter that get it now.
    """

    ended: list[Victim] = field(default_factory=list)
    waiting: list[Victim] = field(default_factory=list)
    warned: list[Victim] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)  # of those that end, filled as it is carried out

    def __len__(self) -> int:
        return len(self.ended) + len(self.warned)

    def shown(self) -> list[ObjectChange]:
        """Return what has to change, as plans show it."""
        return [
            *(
                each.shown(f"gets notice, ends after {utc_text(each.ends_at)}")
                for each in self.warned
            ),
            *(each.shown("requeued") for each in self.ended),
        ]


def by_account(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    """Return jobs by their account."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.account, []).append(job)
    return found


def key_of(jobs: Sequence[Job]) -> str:
    """Return the name of jobs that end together."""
    return jobs[0].whole or jobs[0].id


def to_stop(
    jobs: Iterable[Job],
    limit: Mapping[str, Fraction],
    *,
    terms: Terms = Terms(),  # noqa: B008 - it cannot change
    noticed: Mapping[str, int] | None = None,
    now: int = 0,
    counted: Counted = lambda _: True,
) -> list[Jobs]:
    """Return the running jobs of an account that are too many, and none that could have stayed.

    Those with notice come first, then the youngest, as they lose least. A job that has run for less
    than the terms' minimum stays. `counted` are the jobs that the limit is for.
    """
    running = [job for job in jobs if job.running]
    together = sorted(map(tuple, started_together(running)), key=_age, reverse=True)
    used: Amounts = {}
    for each in together:
        _add(used, each, 1, counted)
    noticed = dict(noticed or {})
    chosen: list[Jobs] = []
    # A notice that was given is kept, or each younger job would put off the end of all.
    for each in sorted(together, key=lambda each: not _has_notice(each, noticed)):
        over = [name for name, most in limit.items() if used.get(name, Fraction(0)) > most]
        if not over:
            break
        takes = _total(each, counted)
        if may_end(each, terms, now) and any(takes.get(name) for name in over):
            chosen.append(each)
            _add(used, each, -1, counted)
    for each in reversed(chosen):
        _add(used, each, 1, counted)
        if any(used.get(name, Fraction(0)) > most for name, most in limit.items()):
            _add(used, each, -1, counted)
        else:
            chosen.remove(each)
    return chosen


def may_end(jobs: Sequence[Job], terms: Terms, now: int) -> bool:
    """Return true if jobs can start again and have run for their minimum."""
    return all(job.can_requeue and _is_old_enough(job, terms, now) for job in jobs)


def _is_old_enough(job: Job, terms: Terms, now: int) -> bool:
    """Return true if a job has run for its workload's minimum, or the one of the terms."""
    least = terms.minimum_run_seconds if job.minimum_run is None else job.minimum_run
    # Without a minimum the clocks of the scheduler and of the agent may differ.
    return not least or (job.started > 0 and now - job.started >= least)


def plan_reclaim(
    chosen: Sequence[Jobs],
    *,
    jobs: Sequence[Job],
    limits: Mapping[str, Amounts],
    ranks: Mapping[str, int],
    terms: Terms,
    memory: Memory,
    now: int,
) -> ReclaimPlan:
    """Return which of the chosen jobs end now, and which have notice.

    Args:
        chosen: jobs above the limits of their accounts.
        jobs: all jobs of the scheduler.
        limits: of each account.
        ranks: of each account; the lowest loses first.
    """
    left, notices = memory.left(terms, now), memory.notices
    order = sorted(
        chosen,
        key=lambda each: (
            key_of(each) in memory.refused,
            ranks.get(each[0].account, 0),
            _newest_first(each),
        ),
    )
    plan = ReclaimPlan()
    heirs = _Heirs(jobs, limits)
    ended = 0
    for each in order:
        # A shorter notice than before holds for those that have one already.
        ends_at = now + terms.notice_seconds
        if _has_notice(each, notices):
            ends_at = min(ends_at, notices[key_of(each)])
        victim = Victim(each, heirs.next(each), ends_at)
        # A gang of more tasks than the limit ends alone in its interval.
        has_room = (
            left is None or ended + victim.tasks <= left or (ended == 0 and left == terms.churn)
        )
        if ends_at <= now and has_room:
            plan.ended.append(victim)
            ended += victim.tasks
            continue
        if ends_at <= now:
            left = 0  # or smaller ones would put off the end of a gang for ever
        plan.waiting.append(victim)
        if not _has_notice(each, notices):
            plan.warned.append(victim)
    return plan


class Memory:
    """Notices that an agent gave, and tasks that it ended in this interval.

    The service has the notices, too: an agent that starts again reads them there.
    """

    def __init__(self, notices: Mapping[str, int] | None = None) -> None:
        self.notices = dict(notices or {})
        self.refused: set[str] = set()
        self._ended: list[tuple[int, int]] = []  # time, tasks

    def left(self, terms: Terms, now: int) -> int | None:
        """Return how many tasks may still end in this interval, None for any number."""
        if terms.churn is None:
            return None
        # A clock that is set back must not stop the end of jobs until it is where it was.
        begin = now - terms.interval_seconds
        self._ended = [each for each in self._ended if begin < each[0] <= now]
        return max(0, terms.churn - sum(tasks for _, tasks in self._ended))

    def keep(self, plan: ReclaimPlan, now: int) -> None:
        """Remember a plan that was carried out. Notices of jobs that it does not name are forgotten."""
        # A job that the scheduler refused to end has no new notice.
        self.notices = {each.key: each.ends_at for each in [*plan.waiting, *plan.ended]}
        self.refused = set(plan.refused)
        self._ended += [(now, each.tasks) for each in plan.ended if each.key not in plan.refused]


class _Heirs:
    """Accounts whose jobs wait although more is decided for them than they use."""

    def __init__(self, jobs: Sequence[Job], limits: Mapping[str, Amounts]) -> None:
        used: dict[str, Amounts] = {}
        waits: dict[str, Amounts] = {}
        for job in jobs:
            _add((used if job.running else waits).setdefault(job.account, {}), (job,), 1)
        self._limits = limits
        self._unmet: dict[str, Amounts] = {}
        for account, requested in waits.items():
            limit, has = limits.get(account, {}), used.get(account, {})
            self._unmet[account] = {
                name: min(amount, limit[name] - has.get(name, Fraction(0)))
                for name, amount in requested.items()
                if name in limit
            }

    def next(self, jobs: Jobs) -> str:
        """Return the account that lacks most of its limit of what the jobs hold, empty if none does.

        What they hold is its own from then on.
        """
        held = _total(jobs)
        found, most = "", Fraction(0)
        for account in sorted(self._unmet):
            unmet, limit = self._unmet[account], self._limits[account]
            part = max(
                (unmet[name] / limit[name] for name in unmet if held.get(name) and unmet[name] > 0),
                default=Fraction(0),
            )
            if part > most and account != jobs[0].account:
                found, most = account, part
        if found:
            unmet = self._unmet[found]
            for name, amount in held.items():
                if name in unmet:
                    unmet[name] -= amount
        return found


def _has_notice(jobs: Sequence[Job], notices: Mapping[str, int]) -> bool:
    """Return true if jobs have notice. That of an earlier run of theirs ended before they started."""
    return notices.get(key_of(jobs), 0) >= max(1, *(job.started for job in jobs))


def utc_text(seconds: int) -> str:
    """Return a time as the service writes it."""
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat().replace("+00:00", "Z")


def _age(jobs: Sequence[Job]) -> tuple[int, str]:
    return (max(job.started for job in jobs), jobs[0].id)


def _newest_first(jobs: Sequence[Job]) -> int:
    return -max(job.started for job in jobs)


def _total(jobs: Sequence[Job], counted: Counted = lambda _: True) -> Amounts:
    total: Amounts = {}
    _add(total, jobs, 1, counted)
    return total


def _add(used: Amounts, jobs: Sequence[Job], sign: int, counted: Counted = lambda _: True) -> None:
    for job in jobs:
        if counted(job):
            for name, amount in job.total.items():
                used[name] = used.get(name, Fraction(0)) + sign * amount
