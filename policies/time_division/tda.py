"""Time division of a period into slots of whole tasks with fair average shares.

Source: the TDA thesis (2015), chapters 3 and 4; policies §5 for more than two tenants.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.errors import SolveFailedError, SolveTimeoutError
from policies.leximin.priority_order import preferred_tasks
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate, Round
from policies.model.objectives import gap_of, least_average
from policies.model.problem import Problem
from policies.model.request import Request
from policies.model.schedule import Schedule, SlotPlacement
from policies.model.server_classes import classes_of_decision
from policies.model.solver_status import SolverStatus
from policies.model.tolerance import OPEN_TIME_GAP
from policies.proofs.slots.divisible_bound import largest_prior_share
from policies.proofs.slots.rounds import proven_bound
from policies.proofs.slots.slot_pool import Slot, SlotPool
from policies.proofs.slots.stop_reasons import stops_over_time
from policies.proofs.slots.work_budget import WorkBudget
from policies.time_division.divisible_bound import (
    first_prices,
    prices_of_shares,
    with_divisible_tasks,
)
from policies.time_division.generation import WORK, divide
from policies.time_division.open_rounds import widest_gap
from policies.time_division.rounds import Division, restated
from policies.time_division.slot_order import MOST_EXACT, order_of_slots
from policies.time_division.two_tenants import divide_between_two, two_alone

# By what the work is multiplied while a schedule is too far from its bound.
MORE_WORK = 4.0


def solve_indivisible(request: Request) -> Allocation:
    """Slots of whole tasks whose average weighted dominant shares are leximin.

    Args:
        request: options: ``pack``: tasks must fit on the real servers; ``effort``: how many times
            the usual work may be done. Its deadline is when the answer is due.

    Returns:
        The averages over the period as ``tasks``, the slots as ``schedule``, and the prices that
        prove the levels as ``certificate``. Where the work or the time ends first: the best found
        so far, with its proven bound, and the rounds of the certificate that are left open.

    Raises:
        ProblemTooLargeError, SolveTimeoutError, SolveFailedError.
    """
    problem, deadline = request.problem, request.deadline
    pack = bool(request.option("pack"))
    pool = SlotPool.of(problem, pack=pack)
    divisible = with_divisible_tasks(problem, pool, pack=pack, deadline=deadline)
    division = (
        divide_between_two(problem, pool, deadline)
        if two_alone(problem, pool)
        else _divide(request, pool, prices_of_shares(pool, divisible))
    )
    preferred = [
        preferred_tasks(slot.on_server, pool.demand, pool.allowed_on_kind, pool.owner, pool.limit)
        for slot in division.slots
    ]
    order = _largest_deficit_first(problem, pool, preferred, order_of_slots(preferred))
    slots = [Slot(preferred[position]) for position in order]
    fraction = division.fractions[order]
    tasks = np.zeros((len(slots), problem.n), dtype=np.int64)
    for position, slot in enumerate(slots):
        tasks[position, pool.workloads] = slot.tasks
    # Fractions add up to 1 but for rounding.
    average = np.minimum(fraction @ tasks, problem.tasks)
    on_server = [slot.on_server for slot in slots]
    limited_by = stops_over_time(problem, pool, fraction, on_server)
    objective = least_average(problem, average, limited_by)
    # What is stated of rounds follows from the averages that are stated, to the last bit.
    share = (
        pool.prior_share
        + (
            grouped_sum(
                average * problem.dominant_share_per_task, problem.workload_tenant, problem.t
            )[pool.tenants]
        )
    )
    rounds = restated(problem, pool, division.rounds, division.frozen_in, share)
    lp_bound = proven_bound(problem, pool, rounds, division.frozen_in, share)
    level = np.full(problem.t, np.nan)
    level[pool.tenants] = share / problem.effective_weight[pool.tenants]
    frozen_in = np.full(problem.t, -1, dtype=np.int64)
    frozen_in[pool.tenants] = division.frozen_in
    classes = classes_of_decision(problem, request.choice)
    workload, server_class, placed = _average_placements(problem, pool, slots, fraction, pack=pack)
    bound = objective if np.isnan(objective) else divisible.bound + largest_prior_share(problem)
    gap = gap_of(objective, lp_bound)
    return Allocation(
        problem=problem,
        choice=request.choice,
        tasks=average,
        classes=classes,
        placement_piece=workload,
        placement_class=server_class,
        placement_tasks=placed,
        level=level,
        limited_by=limited_by,
        objective=objective,
        bound=lp_bound,
        gap=gap,
        certificate=Certificate(
            _of_all_tenants(problem, pool, rounds), frozen_in, first_prices(divisible)
        ),
        schedule=Schedule(
            fraction=fraction,
            tasks=tasks,
            placements=tuple(_placement(pool, slot) for slot in slots) if pack else None,
            objective=objective,
            bound=bound,
            lp_bound=lp_bound,
            gap=gap,
            order_proven=len(slots) <= MOST_EXACT,
            repaid=_repaid(request, average),
        ),
        statistics={
            "slots_made": division.slots_made,
            "rounds": len(rounds),
            "fewest_slots_proven": division.fewest,
            "stopped": None if division.stopped is None else division.stopped.value,
        },
    )


def _divide(request: Request, pool: SlotPool, first_prices: FloatArray) -> Division:
    """Return the division that the effort pays for.

    If a round is far below its bound, work is multiplied by four until the division is near it.

    Raises:
        SolveTimeoutError: the deadline passed before. SolveFailedError: there is none.
    """
    work = WORK * float(request.option("effort"))
    while True:
        budget = WorkBudget(request.deadline, work)
        division = divide(request.problem, pool, budget, first_prices)
        gap = widest_gap(division.rounds)
        if gap <= OPEN_TIME_GAP:
            return division
        if division.stopped is SolverStatus.TIME_LIMIT:
            raise SolveTimeoutError(
                "solve.timeout",
                f"the time limit passed before a schedule within {OPEN_TIME_GAP:.0%} of its bound",
            )
        if division.stopped is None:
            raise SolveFailedError(
                "solve.failed", f"the best schedule found is {gap:.0%} below its bound"
            )
        work *= MORE_WORK


def _repaid(request: Request, average: FloatArray) -> FloatArray | None:
    """Return the part (t,) of ``average`` (n,) tasks that repays the tenants' deficits."""
    problem = request.problem
    # Only a second division without deficits shows what a tenant was given because of them.
    if not problem.deficit.any():
        return None
    try:
        even = replace(problem, deficit=np.zeros(problem.t))
        without = solve_indivisible(replace(request, problem=even)).tasks
    # The schedule is found: what was repaid is a detail, for which it must not be lost.
    except SolveTimeoutError:
        return None
    more = grouped_sum(
        (average - without) * problem.dominant_share_per_task, problem.workload_tenant, problem.t
    )
    return np.clip(more, np.minimum(problem.deficit, 0.0), np.maximum(problem.deficit, 0.0))


def _largest_deficit_first(
    problem: Problem, pool: SlotPool, on_server: list[IntArray], order: list[int]
) -> list[int]:
    """Return the same cyclic order, from the slot that gives most to the largest deficits."""
    if not problem.deficit.any():
        return order
    shares = np.array([pool.shares(tasks.sum(axis=0)) for tasks in on_server])
    worth = shares @ problem.deficit[pool.tenants]
    first = int(worth[order].argmax())
    return order[first:] + order[:first]


def _of_all_tenants(
    problem: Problem, pool: SlotPool, rounds: tuple[Round, ...]
) -> tuple[Round, ...]:
    """Return the rounds with a price for every tenant of the problem.

    The price is 0 for a tenant that can run nothing.
    """
    result = []
    for item in rounds:
        prices = np.zeros(problem.t)
        prices[pool.tenants] = item.prices
        result.append(replace(item, prices=prices))
    return tuple(result)


def _placement(pool: SlotPool, slot: Slot) -> SlotPlacement:
    server, q = np.nonzero(slot.on_server)
    return SlotPlacement(pool.workloads[q], server, slot.on_server[server, q])


def _average_placements(
    problem: Problem, pool: SlotPool, slots: list[Slot], fraction: FloatArray, *, pack: bool
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the average placements as workload, row class and tasks on the row.

    They are empty if the pool is one server.
    """
    if not pack:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, np.zeros(0)
    offering = np.flatnonzero((problem.row_capacity > 0).any(axis=1))
    row_of = np.repeat(np.arange(len(offering)), problem.server_count[offering])
    placed = np.zeros((len(offering), problem.n))
    for part, slot in zip(fraction.tolist(), slots, strict=True):
        server, q = np.nonzero(slot.on_server)
        np.add.at(placed, (row_of[server], pool.workloads[q]), part * slot.on_server[server, q])
    workload, server_class = np.nonzero(placed.T)
    return workload, server_class, placed[server_class, workload]
