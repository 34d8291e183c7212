"""The sections of the operators' board on pools, their decisions and background processes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.urls import reverse

from allocator_service.allocation.long_term.metering import LATE
from allocator_service.allocation.models import Heartbeat, Run, RunStatus
from allocator_service.allocation.policies import policy_title
from allocator_service.allocation.selectors import SILENCE
from allocator_service.allocation.services import METERING
from allocator_service.core.board import Cell, Notice, Section, Table, Urgency, board_section
from allocator_service.core.display import counted, percent_text
from allocator_service.core.jobs import BACKTESTS
from allocator_service.core.templatetags.shown import age
from allocator_service.core.visible import VisiblePools
from allocator_service.ledger.selectors import unsealed_since
from allocator_service.pools.models import Pool
from allocator_service.pools.recompute import DECISION_JOBS
from allocator_service.workloads.models import Workload, WorkloadState

POOLS_SHOWN = 25
OVERDUE = timedelta(seconds=60)
_POOL_COLUMNS = [
    Cell("Pool"),
    Cell("Policy"),
    Cell("Generation", number=True),
    Cell("Decided", number=True),
    Cell("Tenants", number=True),
    Cell("Servers", number=True),
    Cell("Used"),
    Cell("Workloads that cannot run", number=True),
    Cell("State"),
]


@dataclass(frozen=True)
class _PoolState:
    """A pool with its latest decision, and what keeps it from a newer one."""

    pool: Pool
    run: Run | None
    failure: Run | None
    waits_since: datetime | None
    unsatisfiable: int

    def overdue(self, now: datetime) -> bool:
        return self.waits_since is not None and now - self.waits_since > OVERDUE

    def urgency(self, now: datetime) -> int:
        """Return the rank of the pool in the table, where 0 comes first."""
        if self.failure is not None:
            return 0
        if self.overdue(now):
            return 1
        return 2 if self.unsatisfiable else 3

    @property
    def page(self) -> str:
        return reverse("admin:pools_pool_overview", args=[self.pool.pk])


@board_section(permission="pools.view_pool", place=1)
def pools_section(now: datetime, pools: VisiblePools) -> Section:
    """Return the section of the pools, those that need an operator first."""
    states = sorted(_states(pools), key=lambda state: (state.urgency(now), state.pool.slug))
    cannot_run = [state for state in states if state.unsatisfiable]
    notices = [notice for state in states for notice in _notices(state, now)]
    if cannot_run:
        workloads = sum(state.unsatisfiable for state in cannot_run)
        where = counted(len(cannot_run), "pool")
        text = f"{counted(workloads, 'workload')} in {where} cannot run at present."
        notices.append(Notice(Urgency.WARNING, text, cannot_run[0].page))
    more = None
    if len(states) > POOLS_SHOWN:
        rest = counted(len(states) - POOLS_SHOWN, "more pool")
        more = Cell(f"{rest}: all of them", reverse("admin:pools_pool_changelist"))
    rows = [_row(state, now) for state in states[:POOLS_SHOWN]]
    return Section(notices, [Table("Pools", _POOL_COLUMNS, rows, more)])


@board_section(permission="allocation.view_run", place=2)
def processes_section(now: datetime, _: VisiblePools) -> Section:
    """Return the section of the background processes, with the lag of metering and of the ledger."""
    beats = dict(Heartbeat.objects.values_list("process", "seen_at"))
    notices, rows = [], []
    for process, silence in SILENCE.items():
        seen = beats.get(process)
        silent = seen is None or now - seen >= silence
        last_seen = "never seen" if seen is None else f"{age(now - seen)} ago"
        if silent:
            text = f"{_SUBJECTS[process]} is silent: {last_seen}. {_LOST[process]}"
            notices.append(Notice(Urgency.ERROR, text, "/readyz"))
        state = "silent" if silent else "at work"
        rows.append([Cell(process), Cell(last_seen, number=True), Cell(state, bad=silent)])
    for name, since, late, what in (
        ("metering", beats.get(METERING), LATE, "the oldest interval that is over and not metered"),
        ("ledger", unsealed_since(), LATE, "the oldest entry without a number"),
    ):
        lag = timedelta(0) if since is None else max(now - since, timedelta(0))
        if lag >= late:
            text = f"{name.capitalize()} is late by {age(lag)}: {what}."
            notices.append(Notice(Urgency.ERROR, text, "/readyz"))
        words = f"late: {what}" if lag >= late else "in time"
        rows.append([Cell(name), Cell(age(lag), number=True), Cell(words, bad=lag >= late)])
    columns = [Cell("Process"), Cell("Seen or late by", number=True), Cell("State")]
    return Section(notices, [Table("Processes and lateness", columns, rows)])


_SUBJECTS: Mapping[str, str] = {
    **{process: f"The {process}" for process in SILENCE},
    BACKTESTS: "The worker for backtests",
}
_LOST: Mapping[str, str] = {
    "worker": "Changes are accepted and not decided.",
    "relay": "Changes wait, and events and entries get no number.",
    "sender": "Webhooks are not sent.",
    BACKTESTS: "Backtests wait; everything else goes on.",
}


def _states(seen: VisiblePools) -> Iterator[_PoolState]:
    pools = list(seen.of(Pool.objects.filter(retired_at=None), "slug"))
    latest = Run.objects.filter(status=RunStatus.SUCCEEDED, effective_until=None)
    runs = {run.pool_id: run for run in latest.filter(pool__retired_at=None)}
    ended = Pool.objects.filter(retired_at=None).annotate(run=_newest_ended()).values("run")
    # Only if it is the newest that ended: a later success has resolved it.
    failed = Run.objects.filter(pk__in=ended, status=RunStatus.FAILED)
    failures = {run.pool_id: run for run in failed}
    waits = dict(DECISION_JOBS.open_rows().values_list("pool_id", "run_after"))
    cannot_run = dict(
        Workload.objects.filter(state=WorkloadState.ACTIVE)
        .exclude(unsatisfiable="")
        .values_list("pool")
        .annotate(count=Count("pk"))
    )
    for pool in pools:
        yield _PoolState(
            pool,
            runs.get(pool.pk),
            failures.get(pool.pk),
            waits.get(pool.pk),
            cannot_run.get(pool.pk, 0),
        )


def _newest_ended() -> Subquery:
    """Return the primary key of the newest run of each pool that succeeded or failed."""
    ended = Q(status=RunStatus.SUCCEEDED) | Q(status=RunStatus.FAILED)
    runs: QuerySet[Run] = Run.objects.filter(ended, pool=OuterRef("pk")).order_by("-pk")
    return Subquery(runs.values("pk")[:1])


def _notices(state: _PoolState, now: datetime) -> Iterator[Notice]:
    if state.failure is not None and state.failure.error is not None:
        error = state.failure.error
        url = reverse("admin:allocation_run_change", args=[state.failure.pk])
        text = f"{state.pool}: the newest run failed. {error['detail']} ({error['code']})"
        yield Notice(Urgency.ERROR, text, url)
    if state.waits_since is not None and state.overdue(now):
        text = f"{state.pool}: a decision is due for {age(now - state.waits_since)}."
        yield Notice(Urgency.ERROR, text, state.page)


def _row(state: _PoolState, now: datetime) -> Sequence[Cell]:
    run, pool = state.run, state.pool
    summary = (run.summary if run is not None else None) or {}
    used = ", ".join(
        f"{name} {percent_text(round(part, 2))}"
        for name, part in summary.get("utilization", {}).items()
    )
    decided = run.finished_at if run is not None else None
    return [
        Cell(pool.slug, state.page),
        Cell(policy_title(pool.policy_name)),
        Cell(f"{run.generation:,}" if run is not None else "–", number=True),
        Cell(f"{age(now - decided)} ago" if decided else "never", number=True),
        Cell(f"{summary.get('tenants', 0):,}", number=True),
        Cell(f"{summary.get('servers', 0):,}", number=True),
        Cell(used or "nothing"),
        Cell(f"{state.unsatisfiable:,}", number=True, bad=state.unsatisfiable > 0),
        Cell(_words(state, now), bad=state.urgency(now) < 2),
    ]


def _words(state: _PoolState, now: datetime) -> str:
    if state.failure is not None:
        return "failed"
    if state.waits_since is not None:
        until = state.waits_since - now
        if until > timedelta(0):
            return f"next decision in {age(until)}"
        return "overdue" if state.overdue(now) else "deciding"
    return "decided" if state.run is not None else "nothing to decide yet"
