"""Verification of an answer with arithmetic only, without a solver or code of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray
from policies.errors import SolveFailedError
from policies.model.allocation import Allocation, SharePath
from policies.model.certificate import Certificate
from policies.model.current_placements import CurrentPlacements
from policies.model.history import History
from policies.model.policy import Proof
from policies.model.problem import Problem
from policies.verification.certificate import Known, check_certificate, left_open, quality
from policies.verification.checks import Check
from policies.verification.division import check_division
from policies.verification.exact_levels import proven
from policies.verification.exact_market import products_proven
from policies.verification.feasible import check_feasible, places_of
from policies.verification.floors import check_floors
from policies.verification.form import Form, form_of
from policies.verification.handed_out import check_handed_out
from policies.verification.open_rounds import stuck_when_open
from policies.verification.options import check_options
from policies.verification.places import Places
from policies.verification.rounds import LevelRounds, rounds_of
from policies.verification.stated import Stated
from policies.verification.whole_tasks import Whole

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
    places = places_of(stated, allocation)
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
