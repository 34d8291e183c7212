"""Verification of an answer with arithmetic only, without a solver or code of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, grouped_sum
from policies.errors import SolveFailedError
from policies.model.allocation import Allocation, SharePath
from policies.model.certificate import Certificate
from policies.model.current_placements import CurrentPlacements
from policies.model.history import History
from policies.model.policy import Proof
from policies.model.problem import Problem
from policies.model.tolerance import AGREEMENT
from policies.verification.certificate import Known, check_certificate, left_open, quality
from policies.verification.checks import Check, exactly
from policies.verification.checks import check as _check
from policies.verification.division import check_division
from policies.verification.exact_levels import proven
from policies.verification.exact_market import products_proven
from policies.verification.fits import Fits
from policies.verification.floors import check_floors
from policies.verification.form import Form, form_of
from policies.verification.handed_out import check_handed_out
from policies.verification.history import check_history
from policies.verification.open_rounds import stuck_when_open
from policies.verification.options import check_options
from policies.verification.rounds import LevelRounds, rounds_of
from policies.verification.schedule import check_schedule
from policies.verification.shapes import check_shapes
from policies.verification.stated import TASK_LIMIT, Places, Stated
from policies.verification.whole_tasks import Whole, check_whole_tasks

# Two walks of a tree's path agree to the last digits where weights are closer than this.
WEIGHTS_FAR_APART = 1e4


@dataclass(frozen=True)
class Verification:
    """All checks of one answer.

    Attributes
    ----------
    valid : bool
        Whether each check holds.
    checks : tuple of Check
        The checks that were made.

    Examples
    --------
    >>> from policies import Problem, solve, verify
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> verify(problem, solve(problem, "drf")).checks[0].name
    'promised'
    """

    valid: bool
    checks: tuple[Check, ...]


def verify(
    problem: Problem,
    allocation: Allocation,
    history: History | None = None,
    running: CurrentPlacements | None = None,
) -> Verification:
    """Check a decision against the problem it claims to answer.

    Whatever the policy promises has to be there, and is checked; what is missing fails.

    Parameters
    ----------
    problem : Problem
        The problem, for example from a stored input.
    allocation : Allocation
        The answer. Its own ``problem`` and ``classes`` are not trusted.
    history : History, optional
        State of a long-term policy before the step; None is nothing, as in ``solve``.
    running : CurrentPlacements, optional
        Where tasks ran at the decision, as in ``solve``.

    Returns
    -------
    Verification
        Every check, made with arithmetic only. Divisible tasks take time linear in the size of the
        answer; whole tasks on servers are handed out again, one by one.

        Options that the policy does not take, or that name what the problem does not have, fail the
        check ``options``. More whole tasks than are handed out again fail ``size``: such an answer
        is neither proven nor refuted.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from policies import Problem, solve, verify
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> allocation = solve(problem, "drf")
    >>> verify(problem, allocation).valid
    True
    >>> verify(problem, replace(allocation, tasks=allocation.tasks * 1.01)).valid
    False
    >>> verify(problem, replace(allocation, certificate=None)).valid
    False
    """
    checks = _all_checks(problem, allocation, history, running)
    return Verification(all(item.holds for item in checks), checks)


def _all_checks(
    problem: Problem,
    allocation: Allocation,
    history: History | None = None,
    running: CurrentPlacements | None = None,
    kept: CurrentPlacements | None = None,
) -> tuple[Check, ...]:
    """Make the checks of an answer.

    Args:
        kept: where guaranteed parts of workloads run before everything else.
    """
    # What overflows is infinite or not a number, which no check accepts.
    with np.errstate(all="ignore"):
        checks = [*_check_promised(problem, allocation), check_options(problem, allocation.choice)]
        problem = problem.placed_by(allocation.choice)
        stated = Stated(problem, allocation.choice)
        # In this order, because a check reads only what the checks before it accepted.
        if checks[-1].holds:
            checks += check_feasible(problem, allocation, history, stated)
        if all(item.holds for item in checks):
            checks += _check_promises(stated, allocation, history, running, kept)
    return tuple(checks)


def _check_promises(
    stated: Stated,
    allocation: Allocation,
    history: History | None,
    running: CurrentPlacements | None,
    kept: CurrentPlacements | None,
) -> Iterator[Check]:
    """Check what the policy promises of a feasible answer."""
    problem = stated.problem
    places = _places_of(stated, allocation)
    certificate, schedule = allocation.certificate, allocation.schedule
    if problem.has_floors:
        yield from check_floors(stated, places, allocation, running, _verify_step)
    elif schedule is not None and certificate is not None:
        yield from check_division(stated, allocation, schedule, certificate)
    elif certificate is not None:
        yield from check_certificate(stated, places, allocation, certificate)
    elif allocation.policy.hands_out is not None:
        before = History.zeros(problem) if history is None else history
        yield from check_handed_out(Whole.of(stated, places, allocation, kept), before, running)
    if not _keeps_places(allocation):
        yield Check("moved", allocation.moved is None, "no task is stated to have moved", 0.0)


def _verify_step(
    problem: Problem, allocation: Allocation, kept: CurrentPlacements | None
) -> tuple[Check, ...]:
    return _all_checks(problem, allocation, kept=kept)


def _keeps_places(allocation: Allocation) -> bool:
    """Return whether placements are on single servers, which tasks may keep."""
    return allocation.classes.offset is not None and not allocation.choice.sees_one_pool


def _check_promised(problem: Problem, allocation: Allocation) -> Iterator[Check]:
    """Check that the answer has every part that the policy promises, and no part beyond these."""
    choice = allocation.choice
    promised = {
        "certificate": (choice.promises_certificate, allocation.certificate),
        "schedule": (choice.policy.time_sharing, allocation.schedule),
        "history": (choice.policy.long_term, allocation.history),
        "floors": (problem.has_floors, allocation.floors),
    }
    wrong = [name for name, (has, part) in promised.items() if has != (part is not None)]
    rounds = () if allocation.certificate is None else allocation.certificate.rounds
    market = choice.policy.proof is Proof.NASH_PRODUCT
    if not market and any(item.mix_prices is not None for item in rounds):
        wrong.append("mix_prices")
    yield Check(
        "promised",
        not wrong,
        f"{', '.join(wrong)} missing, or not this policy's"
        if wrong
        else "the answer has the parts that its policy promises, and no others",
        float(len(wrong)),
    )


def _places_of(stated: Stated, allocation: Allocation) -> Places:
    ranges = allocation.classes.offset is not None
    return stated.places(allocation.classes.servers if ranges else None)


def check_feasible(
    problem: Problem,
    allocation: Allocation,
    history: History | None = None,
    stated: Stated | None = None,
) -> Iterator[Check]:
    """Check what must hold under every policy.

    The checks cover shapes, limits, eligibility, capacity, sums and history. Consequences of the
    tasks are checked once the tasks are feasible.

    Args:
        stated: the problem under the answer's choice, if it was read already.
    """
    if stated is None:
        stated = Stated(problem, allocation.choice)
    places = _places_of(stated, allocation)
    shapes = check_shapes(problem, allocation, places, len(stated.pieces.owner))
    yield shapes
    # All that follows indexes arrays of the answer.
    if not shapes.holds:
        return
    found = tuple(_check_tasks(stated, places, allocation))
    yield from found
    if not all(item.holds for item in found):
        return
    if allocation.schedule is not None:
        yield from check_schedule(stated, places, allocation, allocation.schedule)
        return
    remembered: tuple[Check, ...] = ()
    whole = Whole.of(stated, places, allocation) if allocation.whole else None
    if allocation.policy.long_term and whole is not None:
        before = History.zeros(problem) if history is None else history
        remembered = check_history(stated, allocation, before, whole.reasons)
        yield from remembered
    if whole is not None and all(item.holds for item in remembered):
        yield from check_whole_tasks(whole)


def _check_tasks(stated: Stated, places: Places, allocation: Allocation) -> Iterator[Check]:
    """Tasks are feasible, and those that run in full are limited by their number."""
    problem = stated.problem
    tasks = allocation.tasks
    fits = Fits.of(stated, places, allocation)
    yield _check(
        "task_limits",
        exactly(
            np.maximum(tasks / np.where(tasks > 0, problem.tasks, 1.0) - 1, -np.sign(tasks)),
            (tasks < 0) | (tasks > problem.tasks) | fits.beyond_limits(),
        ),
        0.0,
        "no workload runs less than nothing or more tasks than it has",
        problem.workload_names,
    )
    totals = np.where(stated.totals > 0, stated.totals, 1.0)
    yield _check(
        "pool_capacity",
        exactly((tasks @ problem.demand) / totals - 1, fits.pool_overfilled()),
        0.0,
        "the pool's resources are not overfilled",
        problem.resources,
    )
    yield from _check_placements(stated, allocation, fits)
    if problem.limits:
        yield _check(
            "limits",
            fits.limits_exceeded() * 1.0,
            0.0,
            "what counts in a limit takes no more than its amount",
            [limit.reason for limit in stated.limits],
        )
    unserved = stated.unserved(places) != ""
    yield _check(
        "unservable",
        np.where(unserved, tasks, 0.0),
        0.0,
        "workloads that cannot be served have no tasks",
        problem.workload_names,
    )
    at_limit = tasks >= problem.tasks * (1 - AGREEMENT)
    named = np.array([reason == TASK_LIMIT for reason in allocation.limited_by], dtype=np.bool_)
    yield _check(
        "limited_by_tasks",
        (named != (at_limit & ~(unserved & (problem.tasks > 0)))) * 1.0,
        0.0,
        "exactly the workloads that run all their tasks are limited by them",
        problem.workload_names,
    )


def with_proofs(
    problem: Problem, allocation: Allocation, stated: Stated | None = None
) -> Allocation:
    """Return a feasible answer whose rounds state whether their prices prove them exactly.

    This applies to divisible leximins and equilibria. Other answers are returned unchanged.

    Args:
        stated: the problem under the answer's choice, if it was read already.

    Raises:
        SolveFailedError: a level is further from what its prices prove than rounding explains.
    """
    certificate = allocation.certificate
    if certificate is None or allocation.schedule is not None:
        return allocation
    if stated is None:
        stated = Stated(problem, allocation.choice)
    places = stated.places()
    form = form_of(stated, places)
    if allocation.policy.proof is Proof.NASH_PRODUCT:
        products = products_proven(stated, places, form, allocation, certificate)
        return _restated(allocation, certificate, products)
    trusted = () if _walks_may_differ(stated) else allocation.paths
    answer = _proven_rounds(stated, places, form, allocation, trusted)
    assert answer.certificate is not None  # noqa: S101 - for mypy: as that of the allocation
    if trusted and not all(item.proven for item in answer.certificate.rounds):
        # Beside open rounds, too, prices may prove on the solver's walk what they do not on another.
        answer = _proven_rounds(stated, places, form, allocation, ())
    return answer


def _proven_rounds(
    stated: Stated,
    places: Places,
    form: Form,
    allocation: Allocation,
    trusted: tuple[SharePath, ...],
) -> Allocation:
    """Return the answer of a leximin whose rounds state whether they are proven.

    Args:
        trusted: the solver's paths; none where the verifier walks itself, and checks the whole answer.
    """
    certificate = allocation.certificate
    assert certificate is not None  # noqa: S101 - for mypy: the caller has one
    policy = f"policy {allocation.policy.name!r}"
    rounds = rounds_of(stated, form, certificate, trusted)
    prices = proven(stated, places, form, allocation, rounds)
    frozen_in = certificate.frozen_in[form.tenants]
    loose = frozen_in[~prices.tenants]
    if not prices.levels.all():
        share = allocation.level[form.tenants] * form.weight
        for number in np.flatnonzero(~prices.levels).tolist():
            bound = rounds.bound(number, share)
            if not left_open(rounds, number, bound):
                level = certificate.rounds[number].level
                raise SolveFailedError(
                    "solve.failed", f"{policy}: level {level} is not proven, its bound is {bound}"
                )
    levels = prices.levels & ~np.isin(np.arange(len(certificate.rounds)), loose)
    answer = _restated(allocation, certificate, levels)
    if rounds.in_groups and not trusted:
        answer = _with_open_bounds(answer, rounds)
    assert answer.certificate is not None  # noqa: S101 - for mypy: as above
    rounds = rounds.restated(answer.certificate)
    stuck = stuck_when_open(stated, places, form, answer, rounds, prices)
    if not levels.all() and not stuck.all():
        name = stated.problem.tenants[int(form.tenants[int(stuck.argmin())])]
        raise SolveFailedError(
            "solve.failed", f"{policy}: tenant {name!r} is not proven to be stuck"
        )
    if rounds.in_groups and not trusted:
        known = Known(rounds, prices, stuck)
        checks = check_certificate(stated, places, answer, answer.certificate, known)
        if (found := next((each for each in checks if not each.holds), None)) is not None:
            raise SolveFailedError("solve.failed", f"{policy}: {found.name}: {found.detail}")
    return answer


def _walks_may_differ(stated: Stated) -> bool:
    """Return True if rounding may lead the solver's walk of a tree elsewhere than the verifier's.

    That is so with limits or guaranteed parts, and with weights far apart. Elsewhere the second walk is
    left to ``verify``, as it takes as long as the rest of a round.
    """
    if stated.groups is None:
        return False
    if stated.problem.limits or stated.problem.floors:
        return True
    weights = stated.groups.weights(0)[:-1]
    return bool(weights.max() > WEIGHTS_FAR_APART * weights.min())


def _restated(allocation: Allocation, certificate: Certificate, proven: BoolArray) -> Allocation:
    """Return the answer with ``proven`` (rounds,) stored in its rounds."""
    rounds = tuple(
        replace(item, proven=holds)
        for item, holds in zip(certificate.rounds, proven.tolist(), strict=True)
    )
    return replace(allocation, certificate=replace(certificate, rounds=rounds))


def _with_open_bounds(allocation: Allocation, rounds: LevelRounds) -> Allocation:
    """Return the answer of a leximin with the bounds of open rounds as they are verified.

    Rounding decides these bounds, and the solver's walk need not round as the verifier's.
    """
    certificate = allocation.certificate
    assert certificate is not None  # noqa: S101 - for mypy: that of a leximin
    share = rounds.frozen_at()
    items = tuple(
        item if item.proven else replace(item, bound=max(rounds.bound(number, share), item.level))
        for number, item in enumerate(certificate.rounds)
    )
    restated = replace(certificate, rounds=items)
    _, bound, gap = quality(rounds.restated(restated))
    return replace(allocation, certificate=restated, bound=bound, gap=gap)


def _check_placements(stated: Stated, allocation: Allocation, fits: Fits) -> Iterator[Check]:
    """Tasks run where they may, all of them, and no server has too many.

    Where the pool counts as one server, nothing is placed.
    """
    problem, places = stated.problem, fits.places
    pieces, place = stated.pieces, allocation.placement_class
    piece, tasks = allocation.placement_piece, allocation.placement_tasks
    workload = pieces.owner[piece]
    if stated.choice.sees_one_pool:
        detail = "nothing is placed where the pool counts as one server"
        yield Check("placements", not len(tasks), detail, float(len(tasks)))
        return
    # Sorted, two equal pairs are neighbours.
    pairs = np.sort(piece * max(places.count, 1) + place)
    twice = np.count_nonzero(pairs[1:] == pairs[:-1])
    detail = "no workload is placed twice at one place"
    yield Check("placements", not twice, detail, float(twice))
    yield _check(
        "placements_positive",
        -np.sign(tasks) + 1,
        0.0,
        "every placement has tasks",
        problem.workload_names,
        workload,
    )
    placed = grouped_sum(tasks, piece, len(pieces.owner))
    run = allocation.tasks[pieces.owner] * pieces.count
    # The least positive size, because 0 of 0 agree.
    size = np.maximum(np.maximum(placed, run), 1e-300)
    yield _check(
        "placements_add_up",
        np.abs(placed - run) / size,
        AGREEMENT,
        "a workload's placements add up to its tasks",
        problem.workload_names,
        pieces.owner,
    )
    yield _check(
        "eligibility",
        ~places.allowed[piece, place] * 1.0,
        0.0,
        "tasks run only where they may",
        problem.workload_names,
        workload,
    )
    used = np.empty((places.count, problem.m))
    for r in range(problem.m):
        used[:, r] = grouped_sum(tasks * pieces.demand[piece, r], place, places.count)
    capacity = problem.capacity[places.row] * places.servers[:, None]
    excess = used / np.where(capacity > 0, capacity, 1.0) - (capacity > 0)
    over = fits.servers_overfilled()
    yield _check(
        "server_capacity",
        exactly(excess.max(axis=1, initial=-1.0), np.logical_or.reduce(over, axis=1)),
        0.0,
        "no server is overfilled",
        problem.server_names,
        places.row,
    )
