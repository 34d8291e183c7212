"""The jobs of backtests, which read an input, simulate a cell or combine the results.

Backtests and cells are jobs of one engine (`core.jobs`). Finished cells of a killed worker stay.

Locks of rows: the backtest, then its input and cells, as `backtest_cancel` takes them.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any
from uuid import UUID

import structlog
from django.core.exceptions import ObjectDoesNotExist
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
from allocator_service.core.jobs import (
    BACKTESTS,
    Claim,
    ClaimLost,
    JobKind,
    complete_job,
    hold_job,
    wake_relay,
)
from allocator_service.core.locks import Lock
from policies import PolicyError
from policies import simulation as simulating

BacktestClaim = Claim[Backtest, Backtest]
CellClaim = Claim[Cell, Cell]

LONGEST_SECONDS = 3600.0
# How often a simulation stores its progress, and stops if it was cancelled.
PROGRESS_SECONDS = 1.0

# What a simulation may raise: refusals, defects of the code, whose cause is in the log, and a missing
# row. A cancellation deletes the input. The fence then finds that the claim is lost.
_FAILURES = (DomainError, PolicyError, *FAULTS_OF_OURS, ObjectDoesNotExist)

_IS_UNFINISHED = Q(status__in=[CellStatus.QUEUED, CellStatus.RUNNING])
# A backtest needs work before it has cells, to read its input, and when all are finished.
BACKTEST_JOBS = JobKind(
    Backtest,
    Lock.BACKTEST,
    is_open=Q(status=BacktestStatus.QUEUED)
    | Q(
        ~Exists(Cell.objects.filter(_IS_UNFINISHED, backtest=OuterRef("pk"))),
        status=BacktestStatus.RUNNING,
    ),
    claim_fields=("served_at",),
    queue=BACKTESTS,
)
# In order of position, so that the cells of all backtests are published in turn.
CELL_JOBS = JobKind(
    Cell,
    Lock.BACKTEST,
    is_open=_IS_UNFINISHED & Q(backtest__status=BacktestStatus.RUNNING),
    claim_fields=("status", "started_at", "progress"),
    order=("position", "backtest_id"),
    queue=BACKTESTS,
)

log = structlog.get_logger(__name__)


def backtest_advance(*, backtest_id: UUID, clock: Callable[[], datetime]) -> bool:
    """Read the input of a queued backtest, or combine the results of the cells of a running one.

    Return whether this worker did it.
    """
    with hold_job(BACKTEST_JOBS, backtest_id) as held:
        now = clock()
        claim = held.claim(now, partial(_begin_backtest, now=now))
        if claim.work is None:
            return False
        with suppress(ClaimLost):
            try:
                claim.refuse_exhausted("backtest")
                if claim.work.status == BacktestStatus.QUEUED:
                    _prepare(claim, claim.work, clock)
                else:
                    _conclude(claim, claim.work, clock)
            except _FAILURES as error:
                _fail(claim, _reason(error), clock())
        return True


def _begin_backtest(backtest: Backtest, now: datetime) -> Backtest:
    backtest.served_at = now
    return backtest


def _prepare(claim: BacktestClaim, backtest: Backtest, clock: Callable[[], datetime]) -> None:
    scenario, summary = scenario_of(backtest)
    content = scenario.to_bytes()
    with claim.fence() as row:
        complete_job(
            # The next work of this row is another one, whose attempts are counted anew.
            row,
            status=BacktestStatus.RUNNING,
            prepared_at=clock(),
            input=summary,
            attempts=0,
        )
        BacktestInput.objects.update_or_create(
            # The scenario is all that cells read, and an upload may be large.
            backtest=backtest,
            defaults={"prepared": content, "uploaded": None},
        )
        Cell.objects.bulk_create(
            Cell(backtest=backtest, position=position, policy=policy, seed=seed)
            for position, (policy, seed) in enumerate(backtest.spec["cells"])
        )
        wake_relay(BACKTESTS)


def _conclude(claim: BacktestClaim, backtest: Backtest, clock: Callable[[], datetime]) -> None:
    cells = list(backtest.cells.order_by("position"))
    # With one cell that succeeded there are results, in which the others state their errors.
    if all(cell.status == CellStatus.FAILED for cell in cells):
        _fail(claim, cells[0].error or {}, clock())
        return
    # Before the fence, which locks the row.
    result = results_of(backtest, _scenario(backtest), cells)
    with claim.fence() as row:
        complete_job(row, status=BacktestStatus.SUCCEEDED, result=result, finished_at=clock())
        # They served to compare the cells, and are larger than all results.
        row.cells.update(jobs=None)


def _fail(claim: BacktestClaim, error: dict[str, Any], now: datetime) -> None:
    with claim.fence() as row:
        complete_job(row, status=BacktestStatus.FAILED, error=error, finished_at=now)
        BacktestInput.objects.filter(backtest=row).update(uploaded=None)
        row.cells.update(jobs=None)


def _scenario(backtest: Backtest) -> Scenario:
    content = BacktestInput.objects.get(backtest=backtest).prepared
    return Scenario.from_bytes(bytes(content or b""))


def cell_compute(*, cell_id: UUID, clock: Callable[[], datetime]) -> bool:
    """Simulate an unfinished cell, unless another worker does.

    Return whether it was simulated here.
    """
    with hold_job(CELL_JOBS, cell_id) as held:
        now = clock()
        claim = held.claim(now, partial(_begin_cell, now=now))
        if claim.work is None:
            return False
        # After the claim's transaction: it holds the cell's row, which is locked after the backtest's.
        Backtest.objects.filter(pk=claim.work.backtest_id).update(served_at=now)
        try:
            _compute(claim, claim.work, clock)
        except ClaimLost:
            log.info("backtest_cell_stopped", cell=str(cell_id))
        return True


def _begin_cell(cell: Cell, now: datetime) -> Cell:
    cell.status, cell.started_at, cell.progress = CellStatus.RUNNING, now, 0.0
    return cell


def _compute(claim: CellClaim, cell: Cell, clock: Callable[[], datetime]) -> None:
    begun = monotonic()
    outcome: dict[str, Any]
    try:
        claim.refuse_exhausted("cell")
        result, jobs = _simulated(cell, begun)
        outcome = {"status": CellStatus.SUCCEEDED, "result": result, "jobs": jobs}
    except _FAILURES as error:
        # A failed cell is a result: the backtest goes on with the others.
        outcome = {"status": CellStatus.FAILED, "error": _reason(error)}
    seconds = monotonic() - begun
    with transaction.atomic():
        # Before the cell, as a cancellation locks them: in the other order the two could deadlock.
        backtest = Backtest.objects.select_for_update(of=("self",), no_key=True)
        if not backtest.filter(pk=cell.backtest_id, status=BacktestStatus.RUNNING).first():
            raise ClaimLost
        with claim.fence() as row:
            complete_job(row, finished_at=clock(), seconds=seconds, progress=1.0, **outcome)
        wake_relay(BACKTESTS)


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
        terms=scenario.terms,
        on_progress=_Progress(cell, begun),
    )
    found = measured(simulation)
    if backtest.plan is not None:
        money = costs(scenario, simulation, backtest.plan)
        found["money"] = only_of(money, _only(backtest, scenario))
    return found, jobs_to_bytes(simulating.jobs_of(simulation))


def _only(backtest: Backtest, scenario: Scenario) -> int | None:
    """Return the position of the only tenant whose money may be shown, or None for all.

    Of a pool's history a tenant sees its own.
    """
    if backtest.tenant is None or "trace" in backtest.spec:
        return None
    own = [tenant["pk"] == backtest.tenant.pk for tenant in scenario.head["tenants"]]
    # A tenant that is not in the scenario sees no money.
    return own.index(True) if any(own) else -1


class _Progress:
    """Stores a cell's progress about once a second, and stops a simulation that was cancelled."""

    def __init__(self, cell: Cell, begun: float) -> None:
        self._cell, self._begun, self._stored = cell, begun, begun

    def __call__(self, part: float) -> None:
        at = monotonic()
        if at - self._stored < PROGRESS_SECONDS:
            return
        self._stored = at
        # The token is the fence: a worker that lost its lease must not write its successor's progress.
        own = Cell.objects.filter(pk=self._cell.pk, token=self._cell.token)
        if not own.filter(backtest__status=BacktestStatus.RUNNING).update(progress=part):
            raise ClaimLost
        if at - self._begun > LONGEST_SECONDS:
            raise DomainError(
                f"The simulation took longer than {LONGEST_SECONDS:.0f} s: name a shorter period or"
                " fewer tasks.",
                code="backtest.timeout",
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
