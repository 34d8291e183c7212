"""Steps of the long-term policies lt-drf, lt-af and h-mrf, which hand out whole tasks.

Source: Tang et al., TPDS 2018, §5 (order of tenants), §6 (affinity) and §6.1 (starvation, borrow
cap); what they leave open is fixed in policies §4. A call decides one step of length ``dt``:
everything that runs in it runs for all of it, and the history after it is part of the answer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray
from policies.errors import ProblemError, ProblemTooLargeError, SolveTimeoutError
from policies.filling.group_turns import flat_turns
from policies.filling.kept_tasks import kept_tasks
from policies.filling.ranges import ranges_of_launches
from policies.filling.rules import AFFINITY
from policies.filling.servers import (
    MOST_LAUNCHED,
    MOST_LOOKED_AT,
    MOST_TASKS,
    check_size,
    gangs_of,
    pieces_kept,
    servers_of,
    take_kept,
    tasks_of,
)
from policies.filling.state import LimitsLeft, Waiting
from policies.long_term.loop import Past, enter, fill_by_history
from policies.long_term.measures import history_turns
from policies.long_term.pairs import LEAST, pairs_of
from policies.model.allocation import Allocation
from policies.model.borrow_cap import borrow_limit
from policies.model.history import History
from policies.model.objectives import least_level_unsatisfied
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.queues import Queues, queues_of
from policies.model.request import Request, Solver
from policies.model.server_classes import (
    ServerClasses,
    allowed_pieces,
    each_row_alone,
    one_class,
    server_ranges,
)
from policies.model.tasks_on_servers import TasksOnServers
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.proofs.long_term_step import history_after, history_ahead
from policies.proofs.pool_of_tasks import whole_pool
from policies.proofs.saturation import filling_reasons, stops_of


@dataclass(frozen=True, eq=False)
class _Servers:
    """Real servers, or the pool as one, in whole numbers.

    There is a column per resource that the pool has.

    Attributes:
        classes: the rows that tasks are placed on.
        demand: (q, p) of one piece of each kind (``Problem.pieces``), a task where the pool is one.
        capacity: (K, p) of one server of each class.
        share_of_unit: (p,) one unit as a share of the pool.
        reasons: (n,) why a workload cannot run at all, or the empty string.
    """

    classes: ServerClasses
    demand: FloatArray
    capacity: FloatArray
    share_of_unit: FloatArray
    reasons: TextArray

    @classmethod
    def of(cls, problem: Problem, one_pool: bool) -> _Servers:
        present = problem.totals > 0
        if one_pool:
            classes, pool = one_class(problem), whole_pool(problem)
            room = np.tile(pool.room, (classes.count, 1))
            share = np.divide(1.0, pool.room, out=np.zeros(problem.m), where=pool.room > 0)
            return cls(
                # All servers count as one, which has the room of the whole pool.
                replace(classes, servers=np.ones(classes.count, dtype=np.int64)),
                pool.demand[:, present],
                room[:, present],
                share[present],
                pool.reasons,
            )
        classes, whole = each_row_alone(problem), WholeServers.of(problem)
        check_size(int(classes.servers.sum()))
        return cls(
            classes,
            whole.demand[:, present],
            whole.capacity[classes.first_row][:, present],
            whole.share_of_unit[present],
            filling_reasons(problem, whole, classes),
        )


def solver(rule: int) -> Solver:
    """Return the solver of a long-term policy.

    Args:
        rule: order of tenants: ``LT_DRF``, ``LT_AF`` or ``H_MRF`` of :mod:`policies.long_term.measures`.
    """
    return partial(_solve_step, rule=rule)


def _solve_step(request: Request, rule: int) -> Allocation:
    """Hand out whole tasks for one step.

    Args:
        request: the problem's ``tasks`` are those pending now, running ones included; its history
            is what was used before this step, and the step's length. Options: ``placement`` is
            affinity (real servers) or pool (one big server); ``starvation_timeout``, ``borrow_cap``
            and ``literal_alone`` as in their schema.
        rule: order of tenants.

    Returns:
        The allocation with the history after the step. ``level`` is the measure (weighted
        accumulated dominant share for lt-drf, weighted aggregate for the others) at which each
        tenant stopped.

    Raises:
        ProblemError: a borrow cap and a history without the length of its window.
        ProblemTooLargeError: more servers or tasks than are placed one by one.
        SolveTimeoutError: the deadline passed.
    """
    problem, choice = request.problem, request.choice
    history = History.zeros(problem) if request.history is None else request.history
    one_pool = choice.sees_one_pool
    servers = _Servers.of(problem, one_pool)
    reasons = servers.reasons
    kept = kept_tasks(problem)
    queues = queues_of(
        problem, reasons, problem.dominant_share_per_task, kept.per_workload(problem)
    )
    _check_elapsed(choice, history)
    ahead = history_ahead(problem, choice, history, reasons == "")
    starved = _starved(choice, history)
    borrow = borrow_limit(problem, choice, ahead.elapsed)
    level, kind, server = _hand_out(
        problem,
        queues,
        servers,
        rule,
        history=history,
        alone=ahead.alone,
        borrow=borrow,
        starved=starved,
        kept=kept,
        deadline=request.deadline,
    )
    tasks = queues.tasks(problem)
    answer = Allocation(
        problem=problem,
        choice=choice,
        tasks=tasks,
        classes=servers.classes if not one_pool else one_class(problem),
        placement_piece=np.zeros(0, dtype=np.int64),
        placement_class=np.zeros(0, dtype=np.int64),
        placement_tasks=np.zeros(0),
        level=level,
        limited_by=(),
        history=history_after(problem, ahead, tasks),
    )
    if not one_pool:
        row_of = np.repeat(np.arange(servers.classes.count), servers.classes.servers)
        sizes, piece, of_range, placed = ranges_of_launches(
            row_of, problem.pieces.kinds_of(queues.workloads)[kind], server
        )
        answer = replace(
            answer,
            classes=server_ranges(problem, sizes),
            placement_piece=piece,
            placement_class=of_range,
            placement_tasks=placed,
        )
    limited_by = stops_of(answer) or ()
    objective = least_level_unsatisfied(problem, level, limited_by)
    return replace(answer, limited_by=limited_by, objective=objective)


def _check_elapsed(choice: Choice, history: History) -> None:
    if choice.option("borrow_cap") is not None and history.elapsed == 0 and history.used.any():
        raise ProblemError(
            "history.elapsed",
            "a borrow cap needs elapsed, the length of the window in which this was used",
            "/history/elapsed",
        )


def _starved(choice: Choice, history: History) -> BoolArray:
    """Return the tenants (t,) that have waited for the timeout and go first in their stage."""
    timeout = choice.option("starvation_timeout")
    if timeout is None:
        return np.zeros(len(history.waiting), dtype=np.bool_)
    starved: BoolArray = history.waiting >= float(timeout) * (1.0 - DISCRETE_TOLERANCE)
    return starved


def _hand_out(
    problem: Problem,
    queues: Queues,
    servers: _Servers,
    rule: int,
    *,
    history: History,
    alone: FloatArray,
    borrow: FloatArray,
    starved: BoolArray,
    kept: TasksOnServers,
    deadline: float | None,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Let starved tenants of each stage launch once, then all of it.

    Returns:
        (t,) levels, and the (kind, server) of every piece that is kept or launched.
    """
    classes = servers.classes
    kinds = problem.pieces.kinds_of(queues.workloads)
    demand = np.ascontiguousarray(servers.demand[kinds])
    allowed = np.ascontiguousarray(allowed_pieces(problem, classes)[kinds])
    tasks = tasks_of(demand, servers.share_of_unit, allowed)
    gangs = gangs_of(
        problem, kinds, len(queues.workloads), demand * servers.share_of_unit, classes.first_row,
        classes.servers,
    )  # fmt: skip
    gangs.at_least[queues.kept > 0] = 1  # enough tasks run already
    state = servers_of(servers.capacity, servers.share_of_unit, classes.servers, AFFINITY)
    gain = problem.demand[queues.workloads] * history.step
    total = np.divide(1.0, problem.totals, out=np.zeros(problem.m), where=problem.totals > 0)
    passed = np.zeros((problem.t, problem.m))
    np.add.at(passed, problem.workload_tenant[queues.workloads], queues.kept[:, None] * gain)
    past = Past(history.used, alone, borrow, passed, gain, total)
    level = np.full(problem.t, np.nan)
    # The order of tenants is that of ``measures``, and affinity keeps no index of servers: neither the
    # tree of shares nor the least demand is read.
    waiting = Waiting(
        np.full(2, np.inf), queues.stop, queues.current, queues.share, queues.limit, queues.weight,
        queues.count, queues.passed, level, np.zeros(demand.shape[1]), flat_turns(problem.m), gain,
    )  # fmt: skip
    limits = _no_limits(len(kinds), classes.count)
    draws = np.zeros(1, dtype=np.uint64)
    # A gang is launched as a whole, so that the log must have room for the largest.
    size = max(MOST_LAUNCHED, int(gangs.most[0]))
    before = pieces_kept(kinds, kept)
    take_kept(before, tasks, limits, state)
    pieces, places = [before[0].astype(np.int32)], [before[1].astype(np.int32)]
    done = len(before[0])
    for stage in (0, 1):
        mine = queues.second_stage == stage
        for once, tenants in ((True, mine & starved), (False, mine)):
            # Most steps have no starved tenants.
            if not tenants.any():
                continue
            # Anew each time: what was launched before counts as used.
            turns = history_turns(
                problem.tree(stage) if problem.has_groups else None,
                history.used + queues.used(gain),
                alone,
            )
            degree, main = pairs_of(problem.t), pairs_of(problem.t)
            enter(rule, tenants, turns, degree, main, waiting, past)
            while np.isfinite(main[1, LEAST]):
                if deadline is not None and time.monotonic() > deadline:
                    raise SolveTimeoutError("solve.timeout", "the time limit passed while placing")
                kind, server = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
                launched = fill_by_history(
                    rule, once, turns, degree, main, past, waiting, tasks, gangs, limits, state,
                    draws, kind, server, MOST_LOOKED_AT,
                )  # fmt: skip
                done += launched
                if done > MOST_TASKS:
                    raise ProblemTooLargeError(
                        "problem.too_large", f"more than {MOST_TASKS} whole tasks fit"
                    )
                pieces.append(kind[:launched].copy())
                places.append(server[:launched].copy())
    return level, np.concatenate(pieces), np.concatenate(places)


def _no_limits(kinds: int, rows: int) -> LimitsLeft:
    """Return the limits of a pool without any, which long-term policies require."""
    none = np.zeros(0, dtype=np.int64)
    return LimitsLeft(
        left=np.zeros(0),
        where=np.zeros((0, rows), dtype=np.bool_),
        first=np.zeros(kinds + 1, dtype=np.int64),
        row=none,
        need=np.zeros(0),
        closed=np.zeros(0, dtype=np.bool_),
    )
