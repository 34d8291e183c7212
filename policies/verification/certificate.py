"""Checks of a certificate.

They cover its rounds, the bounds that its prices prove, and the consequences of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate, Round
from policies.model.policy import Proof
from policies.model.tolerance import AGREEMENT, HIDDEN_BY_ROUNDING, LEVEL_TOLERANCE, OPEN_GAP
from policies.verification.checks import Check, exactly
from policies.verification.checks import check as _check
from policies.verification.equilibrium import check_equilibrium
from policies.verification.exact_levels import Proven, proven
from policies.verification.exact_market import products_proven
from policies.verification.form import Form, alone_in_limits, form_of
from policies.verification.open_rounds import stuck_when_open
from policies.verification.places import Places
from policies.verification.preference import check_preference
from policies.verification.prices import part_lifted
from policies.verification.reasons import LEVEL, TASK_LIMIT, by_resource
from policies.verification.rounds import LevelRounds, rounds_of
from policies.verification.stated import Stated


@dataclass(frozen=True, eq=False)
class Known:
    """Results about a leximin's certificate, by arithmetic of the verifier alone.

    Attributes:
        rounds: as walked by the verifier; prices: what they prove exactly.
        stuck: (t',) tenants that are stuck or, in open rounds, are so but for rounding.
    """

    rounds: LevelRounds
    prices: Proven
    stuck: BoolArray


def check_certificate(
    stated: Stated,
    places: Places,
    allocation: Allocation,
    certificate: Certificate,
    known: Known | None = None,
) -> Iterator[Check]:
    """Check that the certificate fits the problem, and that the answer is what its prices prove."""
    problem = stated.problem
    form = known.rounds.form if known else form_of(stated, places)
    readable = _certificate_fits(problem.t, form, certificate)
    yield readable
    if not readable.holds:
        return
    rounds = known.rounds if known else rounds_of(stated, form, certificate)
    if allocation.policy.proof is Proof.NASH_PRODUCT:
        products = products_proven(stated, places, form, allocation, certificate)
        yield from check_equilibrium(problem, allocation, form, certificate, products)
    else:
        if known:
            prices, stuck = known.prices, known.stuck
        else:
            prices = proven(stated, places, form, allocation, rounds)
            stuck = stuck_when_open(stated, places, form, allocation, rounds, prices)
        names = [problem.tenants[i] for i in form.tenants.tolist()]
        yield from _check_leximin(allocation, rounds, Proven(prices.levels, stuck), names)
    yield check_preference(stated, form, allocation)
    reasons = _reasons(stated, places, form, certificate, allocation.tasks)
    yield _check(
        "limited_by",
        np.array([a != b for a, b in zip(allocation.limited_by, reasons, strict=True)]) * 1.0,
        0.0,
        "the reasons follow from the certificate's prices",
        problem.workload_names,
    )
    given = np.array([allocation.objective, allocation.bound, allocation.gap])
    derived = np.array(quality(rounds))
    same = np.isclose(given, derived, rtol=AGREEMENT, atol=AGREEMENT, equal_nan=True)
    # Levels may be tiny, so that nothing absolute is allowed; a gap of 0 has no relative error.
    same[:2] = np.isclose(given[:2], derived[:2], rtol=AGREEMENT, atol=0, equal_nan=True)
    yield _check(
        "objective",
        ~same * 1.0,
        0.0,
        "objective, bound and gap are those of the rounds",
        ("objective", "bound", "gap"),
    )


def _certificate_fits(tenants: int, form: Form, certificate: Certificate) -> Check:
    frozen_in, unpriced = certificate.frozen_in, ~_priced(form)
    holds = frozen_in.shape == (tenants,) and all(
        item.prices.shape == form.rooms.shape
        and _are_prices(item.prices)
        and not item.prices[unpriced].any()
        and (item.mix_prices is None or _of_mix(item, item.mix_prices, form))
        and item.stage in (0, 1)
        and 0 <= item.level < np.inf
        for item in certificate.rounds
    )
    if holds:
        mine = frozen_in[form.tenants]
        others = np.delete(frozen_in, form.tenants)
        stages = np.array([item.stage for item in certificate.rounds], dtype=np.int64)
        holds = (
            bool(((mine >= 0) & (mine < len(stages)))[~form.kept].all())
            and bool((others == -1).all() and (mine[form.kept] == -1).all())
            and bool((np.bincount(mine[~form.kept], minlength=len(stages)) > 0).all())
            and bool((stages[mine[~form.kept]] == form.stage[~form.kept]).all())
            and bool((np.diff(stages) >= 0).all())
        )
    detail = (
        "one price per class of servers or limit, and resource; one round per tenant, none without, in "
        "stages"
    )
    return Check("certificate", holds, detail, 0.0)


def _priced(form: Form) -> BoolArray:
    """Return the entries (K + l, m) of a table of prices that may be greater than 0."""
    amounts = [amount for _, _, amount in form.limits]
    named = np.array(amounts).reshape(len(amounts), form.capacity.shape[1]) < np.inf
    return np.concatenate([np.ones(form.capacity.shape, dtype=np.bool_), named])


def _are_prices(prices: FloatArray) -> bool:
    return bool((np.isfinite(prices) & (prices >= 0)).all())


def _of_mix(item: Round, prices: FloatArray, form: Form) -> bool:
    """Return whether prices are those of a second stage.

    They have a row for the product and at most one per resource.
    """
    resources = form.capacity.shape[1]
    return (
        item.stage == 1
        and prices.ndim == 2
        and prices.shape[1] == resources
        and 1 <= len(prices) <= resources + 1
        and _are_prices(prices)
    )


def _check_leximin(
    allocation: Allocation, rounds: LevelRounds, prices: Proven, names: list[str]
) -> Iterator[Check]:
    """Shares and levels are those of the rounds, and each round is proven."""
    form = rounds.form
    share = form.tenant_sums(form.shares_of(allocation.tasks))
    expected = rounds.frozen_at()
    scale = rounds.share_scale(expected)
    yield _check(
        "shares",
        np.abs(share - expected) / scale,
        AGREEMENT,
        "every tenant's share is what its round's level gives it, or all its tasks",
        names,
    )
    level = allocation.level[form.tenants] * form.weight
    yield _check(
        "levels",
        np.where(np.isfinite(level), np.abs(level - expected) / scale, np.inf),
        AGREEMENT,
        "every tenant's level is its share over its weight",
        names,
    )
    yield from _check_rounds(rounds, expected, names, prices)


def _check_rounds(
    rounds: LevelRounds, share: FloatArray, names: list[str], prices: Proven
) -> Iterator[Check]:
    """Check every round's bound, and that every tenant is stuck or has all its tasks.

    The proofs are about the stated levels; that tenants have them is checked before.
    """
    certificate = rounds.certificate
    closed = np.array([item.proven for item in certificate.rounds], dtype=np.bool_)
    unproven = np.zeros(len(certificate.rounds))
    misstated = np.zeros(len(certificate.rounds))
    beyond = np.zeros(len(certificate.rounds), dtype=np.bool_)
    visible = np.zeros(len(certificate.rounds))
    for number, item in enumerate(certificate.rounds):
        bound, scale = rounds.bound(number, share), rounds.size(number)
        unproven[number] = abs(bound - item.level) / scale
        misstated[number] = abs(bound - item.bound) / scale
        before = rounds.before_its_path(number)
        beyond[number] = max(item.level - bound, before) > LEVEL_TOLERANCE * scale
        if not item.proven:
            visible[number] = _visible(rounds, number, bound)
            visible[number] = max(visible[number], before / scale - LEVEL_TOLERANCE)
    numbers = [f"round {number}" for number in range(len(certificate.rounds))]
    yield _check(
        "levels_proven",
        np.where(
            closed,
            exactly(unproven - LEVEL_TOLERANCE, ~prices.levels | beyond),
            visible,
        ),
        0.0,
        "each round's prices prove that its level cannot be higher; of one that is left open, but for "
        "what rounding hides",
        numbers,
    )
    yield _check(
        "bounds_stated",
        misstated,
        LEVEL_TOLERANCE,
        "the stated bounds are those that the prices give",
        numbers,
    )
    yield _check(
        "tenants_stuck",
        ~prices.tenants * 1.0,
        0.0,
        "every tenant has all its tasks or is proven to be stuck in its round, but for what rounding "
        "hides in one that is left open",
        names,
    )


def left_open(rounds: LevelRounds, number: int, bound: float) -> bool:
    """Return whether a round may be left open.

    No more than rounding must be between its level and its bound.
    """
    return _visible(rounds, number, bound) <= 0


def _visible(rounds: LevelRounds, number: int, bound: float) -> float:
    """Return the excess of the gap between level and bound over what rounding hides.

    It is at most 0 if rounding hides the gap.
    """
    item = rounds.certificate.rounds[number]
    gap = (bound - item.level) / rounds.size(number)
    if gap <= LEVEL_TOLERANCE:
        return 0.0
    part = part_lifted(
        rounds.form,
        item.prices,
        rounds.rising(number),
        rounds.reached(number),
        rounds.at(number, bound),
    )
    return max(gap - OPEN_GAP, part - HIDDEN_BY_ROUNDING, 0.0)


def quality(rounds: LevelRounds) -> tuple[float, float, float]:
    """Level and bound of the first round, and the largest relative gap of all rounds."""
    stated = rounds.certificate.rounds
    if not stated:
        return np.nan, np.nan, np.nan
    gap = 0.0
    for number, item in enumerate(stated):
        gap = max(gap, (item.bound - item.level) / rounds.size(number))
    return stated[0].level, stated[0].bound, gap


def _reasons(
    stated: Stated, places: Places, form: Form, certificate: Certificate, tasks: FloatArray
) -> tuple[str, ...]:
    """Return what stopped each workload (n), by the prices of its tenant's round.

    All its tasks run; or the dearest resource or limit where it is cheapest; or its tenant's level,
    which goes to a cheaper workload that has tasks left.
    """
    problem = stated.problem
    reasons: list[str] = form.reasons.tolist()
    unfinished = tasks[form.workloads] < problem.tasks[form.workloads] * (1 - AGREEMENT)
    wants_more = np.zeros(len(form.owner), dtype=np.bool_)
    wants_more[form.kind[unfinished]] = True
    blocking = [LEVEL] * len(form.owner)
    names = [by_resource(name) for name in problem.resources]
    names += [limit.reason for limit in stated.limits]
    frozen_in = certificate.frozen_in[form.tenants][form.owner]
    for number, item in enumerate(certificate.rounds):
        mine = np.flatnonzero((frozen_in == number) & wants_more)
        if not len(mine):
            continue
        demand, cost = form.demand[mine], form.costs(item.prices, mine)
        where = cost.argmin(axis=1)
        own = cost[np.arange(len(mine)), where]
        cheapest = np.full(form.t, np.inf)
        np.minimum.at(cheapest, form.owner[mine], own)
        # Prices are answers of a solver: two workloads that cost the same differ in their last
        # digits.
        stops = (own <= cheapest[form.owner[mine]] * (1 + 1e-6)) & (own > 0)
        parts = [demand * item.prices[where]]
        # Limits without a price stop nothing.
        priced = np.flatnonzero((item.prices[len(form.capacity) :] > 0).any(axis=1)).tolist()
        for number in priced:
            counted, of_limit, _ = form.limits[number]
            most = (demand * item.prices[len(form.capacity) + number]).max(axis=1, initial=0.0)
            parts.append(np.where(counted[mine] & of_limit[where], most, 0.0)[:, None])
        dearest = np.concatenate(parts, axis=1).argmax(axis=1)
        of_round = names[: problem.m] + [names[problem.m + number] for number in priced]
        for q, at in zip(mine[stops].tolist(), dearest[stops].tolist(), strict=True):
            blocking[q] = of_round[at]
    for j, q, open_ in zip(
        form.workloads.tolist(), form.kind.tolist(), unfinished.tolist(), strict=True
    ):
        reasons[j] = blocking[q] if open_ else TASK_LIMIT
    # A limit of one workload is a cap and has no price: it follows from the tasks.
    for j, reason in _caps_reached(stated, places, form, tasks):
        reasons[j] = reason
    return tuple(reasons)


def _caps_reached(
    stated: Stated, places: Places, form: Form, tasks: FloatArray
) -> Iterator[tuple[int, str]]:
    """Yield workloads with tasks left that have reached a limit in which they count alone."""
    problem = stated.problem
    seen: set[int] = set()
    for j, number in alone_in_limits(stated, places, form.reasons == ""):
        limit = stated.limits[number]
        named = (limit.amount < np.inf) & (problem.demand[j] > 0)
        used = float(tasks[j]) * problem.demand[j, named]
        reached = (used >= limit.amount[named] * (1 - AGREEMENT)).any()
        # Limits are in order, and the first that is reached is the reason.
        if reached and j not in seen and tasks[j] < problem.tasks[j] * (1 - AGREEMENT):
            seen.add(j)
            yield j, limit.reason
