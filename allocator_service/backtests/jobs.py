"""The work of backtests: reading an input, simulating a cell, putting the results together.

A row is the job. Whoever works on it holds an advisory lock, which PostgreSQL lets go when the worker
dies, and writes under the token of its claim: what a message asks for twice is done once, and what a
killed worker had begun is begun again by the next, while finished cells stay.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from allocator_service.backtests.costs import costs, only_of
from allocator_service.backtests.errors import stored
from allocator_service.backtests.measuring import jobs_to_bytes, measured
from allocator_service.backtests.models import (
    Backtest,
    BacktestInput,
    BacktestStatus,
    Cell,
    CellStatus,
)
from allocator_service.backtests.preparing import scenario_of
from allocator_service.backtests.results import results_of
from allocator_service.backtests.scenarios import Scenario
from allocator_service.backtests.services import draws
from allocator_service.core.errors import FAULTS_OF_OURS, DomainError
from allocator_service.core.jobs import relay_wake
from allocator_service.core.locks import Lock, try_lock_across_transactions
from policies import PolicyError
from policies import simulation as simulating

REPUBLISH_AFTER = timedelta(seconds=10)
MAX_ATTEMPTS = 3
LONGEST_SECONDS = 3600.0
# How often a simulation looks whether it was cancelled, and tells how far it is.
TELL_SECONDS = 1.0

# What a simulation may raise: refusals, and what is wrong in the code, of which the log has the cause.
_FAILURES = (DomainError, PolicyError, *FAULTS_OF_OURS)

log = structlog.get_logger(__name__)


class Stopped(Exception):
    """The backtest was cancelled, or another worker has the cell."""


@transaction.atomic
def backtests_due(*, now: datetime, limit: int, idle: bool) -> Sequence[UUID]:
    """Claim the publication of backtests whose input is to be read, or whose cells are all done."""
    unfinished = Cell.objects.filter(
        backtest=OuterRef("pk"), status__in=[CellStatus.QUEUED, CellStatus.RUNNING]
    )
    due = list(
        Backtest.objects.select_for_update(skip_locked=True)
        .filter(
            Q(status=BacktestStatus.QUEUED) | Q(status=BacktestStatus.RUNNING) & ~Exists(unfinished)
        )
        .filter(_wanted(now, idle=idle))
        .order_by("pk")
        .values_list("pk", flat=True)[:limit]
    )
    Backtest.objects.filter(pk__in=due).update(published_at=now)
    return due


@transaction.atomic
def cells_due(*, now: datetime, limit: int, idle: bool) -> Sequence[UUID]:
    """Claim the publication of cells, of all backtests in turn."""
    due = list(
        Cell.objects.select_for_update(skip_locked=True, of=("self",))
        .filter(
            backtest__status=BacktestStatus.RUNNING,
            status__in=[CellStatus.QUEUED, CellStatus.RUNNING],
        )
        .filter(_wanted(now, idle=idle))
        .order_by("position", "backtest_id")
        .values_list("pk", flat=True)[:limit]
    )
    Cell.objects.filter(pk__in=due).update(published_at=now)
    return due


def _wanted(now: datetime, *, idle: bool) -> Q:
    first = Q(published_at=None)
    return first | Q(published_at__lt=now - REPUBLISH_AFTER) if idle else first


def backtest_advance(*, backtest_id: UUID, clock: Callable[[], datetime]) -> bool:
    """Read the input of a queued backtest, or put together what the cells of a running one found.

    Return whether there was something to do that no other worker does.
    """
    with try_lock_across_transactions(Lock.BACKTEST, str(backtest_id)) as got:
        backtest = _claim_backtest(backtest_id, clock()) if got else None
        if backtest is None:
            return False
        try:
            if backtest.attempts > MAX_ATTEMPTS:
                raise _worker_lost()
            if backtest.status == BacktestStatus.QUEUED:
                _prepare(backtest, clock)
            else:
                _conclude(backtest, clock)
        except _FAILURES as error:
            _fail(backtest, _reason(error), clock())
        return True


@transaction.atomic
def _claim_backtest(backtest_id: UUID, now: datetime) -> Backtest | None:
    backtest = (
        Backtest.objects.select_for_update(of=("self",))
        .filter(pk=backtest_id, status__in=[BacktestStatus.QUEUED, BacktestStatus.RUNNING])
        .first()
    )
    if backtest is None:
        return None
    unfinished = [CellStatus.QUEUED, CellStatus.RUNNING]
    if (
        backtest.status == BacktestStatus.RUNNING
        and backtest.cells.filter(status__in=unfinished).exists()
    ):
        return None
    backtest.attempts += 1
    backtest.served_at = now
    backtest.save(update_fields=["attempts", "served_at"])
    return Backtest.objects.select_related("pool", "plan__pool", "tenant").get(pk=backtest_id)


def _prepare(backtest: Backtest, clock: Callable[[], datetime]) -> None:
    scenario, said = scenario_of(backtest)
    content = scenario.to_bytes()
    with transaction.atomic():
        changed = Backtest.objects.filter(pk=backtest.pk, status=BacktestStatus.QUEUED).update(
            status=BacktestStatus.RUNNING,
            prepared_at=clock(),
            input=said,
            attempts=0,
            published_at=None,
        )
        if not changed:  # cancelled meanwhile
            return
        BacktestInput.objects.update_or_create(
            backtest=backtest, defaults={"prepared": content, "uploaded": None}
        )
        Cell.objects.bulk_create(
            Cell(backtest=backtest, position=position, policy=policy, seed=seed)
            for position, (policy, seed) in enumerate(backtest.spec["cells"])
        )
        relay_wake()


def _conclude(backtest: Backtest, clock: Callable[[], datetime]) -> None:
    cells = list(backtest.cells.order_by("position"))
    if all(cell.status == CellStatus.FAILED for cell in cells):
        _fail(backtest, cells[0].error or {}, clock())
        return
    result = results_of(backtest, _scenario(backtest), cells)
    with transaction.atomic():
        changed = Backtest.objects.filter(pk=backtest.pk, status=BacktestStatus.RUNNING).update(
            status=BacktestStatus.SUCCEEDED, result=result, finished_at=clock()
        )
        if changed:
            backtest.cells.update(jobs=None)


def _fail(backtest: Backtest, error: dict[str, Any], now: datetime) -> None:
    with transaction.atomic():
        changed = Backtest.objects.filter(
            pk=backtest.pk, status__in=[BacktestStatus.QUEUED, BacktestStatus.RUNNING]
        ).update(status=BacktestStatus.FAILED, error=error, finished_at=now)
        if changed:
            BacktestInput.objects.filter(backtest=backtest).update(uploaded=None)
            backtest.cells.update(jobs=None)


def _scenario(backtest: Backtest) -> Scenario:
    content = BacktestInput.objects.get(backtest=backtest).prepared
    return Scenario.from_bytes(bytes(content or b""))


def cell_compute(*, cell_id: UUID, clock: Callable[[], datetime]) -> bool:
    """Simulate a cell that is not finished, unless another worker holds it.

    One that killed its worker three times fails and says so; so does one whose policy cannot run this.
    Return whether it was simulated here.
    """
    with try_lock_across_transactions(Lock.BACKTEST, str(cell_id)) as got:
        cell = _claim_cell(cell_id, clock()) if got else None
        if cell is None:
            return False
        try:
            _compute(cell, clock)
        except Stopped:
            log.info("backtest_cell_stopped", cell=str(cell_id))
        return True


def _compute(cell: Cell, clock: Callable[[], datetime]) -> None:
    begun = monotonic()
    try:
        if cell.attempts > MAX_ATTEMPTS:
            raise _worker_lost()
        result, jobs = _simulated(cell, begun)
    except _FAILURES as error:
        _finish(cell, CellStatus.FAILED, clock(), begun, error=_reason(error))
    else:
        _finish(cell, CellStatus.SUCCEEDED, clock(), begun, result=result, jobs=jobs)


@transaction.atomic
def _claim_cell(cell_id: UUID, now: datetime) -> Cell | None:
    cell = (
        Cell.objects.select_for_update(of=("self",))
        .select_related("backtest__plan__pool", "backtest__tenant", "backtest__pool")
        .filter(
            pk=cell_id,
            status__in=[CellStatus.QUEUED, CellStatus.RUNNING],
            backtest__status=BacktestStatus.RUNNING,
        )
        .first()
    )
    if cell is None:
        return None
    cell.status, cell.token, cell.started_at, cell.progress = CellStatus.RUNNING, uuid4(), now, 0.0
    cell.attempts += 1
    cell.save(update_fields=["status", "token", "started_at", "progress", "attempts"])
    Backtest.objects.filter(pk=cell.backtest_id).update(served_at=now)
    return cell


def _simulated(cell: Cell, begun: float) -> tuple[dict[str, Any], bytes]:
    backtest = cell.backtest
    spec, scenario = backtest.spec, _scenario(backtest)
    policy = spec["policies"][cell.policy]
    options = dict(policy["options"])
    if draws(policy):
        options["seed"] = cell.seed
    simulation = simulating.simulate(
        scenario.problem,
        scenario.drawn(cell.seed) if spec["resample"] else scenario.trace,
        policy["name"],
        options=options,
        window=scenario.window,
        step=scenario.head["step"],
        changes=scenario.changes,
        tell=_Telling(cell, begun),
    )
    found = measured(simulation)
    if backtest.plan is not None:
        money = costs(scenario, simulation, backtest.plan)
        found["money"] = only_of(money, _only(backtest, scenario))
    return found, jobs_to_bytes(simulating.jobs_of(simulation))


def _only(backtest: Backtest, scenario: Scenario) -> int | None:
    """The one whose money may be told: of a pool's history a tenant sees its own."""
    if backtest.tenant is None or "trace" in backtest.spec:
        return None
    own = [tenant["pk"] == backtest.tenant.pk for tenant in scenario.head["tenants"]]
    return own.index(True) if any(own) else -1


class _Telling:
    """Writes a cell's progress about once a second, and ends its simulation once nobody wants it."""

    def __init__(self, cell: Cell, begun: float) -> None:
        self._cell, self._begun, self._told = cell, begun, begun

    def __call__(self, part: float) -> None:
        at = monotonic()
        if at - self._told < TELL_SECONDS:
            return
        self._told = at
        wanted = Cell.objects.filter(
            pk=self._cell.pk, token=self._cell.token, backtest__status=BacktestStatus.RUNNING
        ).update(progress=part)
        if not wanted:
            raise Stopped
        if at - self._begun > LONGEST_SECONDS:
            raise DomainError(
                f"The simulation took longer than {LONGEST_SECONDS:.0f} s: name a shorter period or"
                " fewer tasks.",
                code="backtest.timeout",
            )


@transaction.atomic
def _finish(cell: Cell, status: CellStatus, now: datetime, begun: float, **found: Any) -> None:
    """Write what came of a cell. Raises `Stopped` if it is no longer this worker's, or wanted."""
    backtest = Backtest.objects.select_for_update(of=("self",), no_key=True).filter(
        pk=cell.backtest_id, status=BacktestStatus.RUNNING
    )
    mine = Cell.objects.filter(pk=cell.pk, token=cell.token, status=CellStatus.RUNNING)
    if backtest.first() is None or not mine.update(
        status=status, finished_at=now, seconds=monotonic() - begun, progress=1.0, **found
    ):
        raise Stopped
    relay_wake()


def _worker_lost() -> DomainError:
    return DomainError(
        f"The worker died {MAX_ATTEMPTS} times at this backtest.", code="run.worker_lost"
    )


def _reason(error: Exception) -> dict[str, Any]:
    if isinstance(error, MemoryError):
        return stored(
            DomainError(
                "The memory of the worker does not suffice: name a shorter period or fewer tasks.",
                code="backtest.memory",
            )
        )
    if isinstance(error, DomainError | PolicyError):
        return stored(error)
    log.error("backtest_failed", exc_info=error)
    return stored(
        DomainError(
            f"The backtest failed ({type(error).__name__}); the cause is in the worker's log.",
            code="run.internal",
        )
    )
