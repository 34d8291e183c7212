"""Checking a certificate: the rounds, what their prices prove, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.arrays import FloatArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.policy import Proof
from policies.model.problem import Problem
from policies.model.server_classes import classes_of_decision
from policies.model.share_definition import share_units
from policies.model.tolerance import AGREEMENT, LEVEL_TOLERANCE, OPEN_GAP
from policies.proofs.consequences import limits, quality
from policies.proofs.exact_levels import Proven, proven
from policies.proofs.level_bounds import level_scale, prove_rounds
from policies.proofs.normal_form import Normalised, normalise
from policies.verification.checks import Check, exactly
from policies.verification.checks import check as _check
from policies.verification.equilibrium import check_equilibrium
from policies.verification.exact_equilibrium import products_proven


def check_certificate(
    problem: Problem, allocation: Allocation, certificate: Certificate
) -> Iterator[Check]:
    """The certificate fits the problem, and the answer is what its prices prove."""
    classes = classes_of_decision(problem, allocation.choice)
    units = share_units(problem, allocation.choice)
    form = normalise(problem, classes, units)
    readable = _certificate_fits(problem, form, certificate)
    yield readable
    if not readable.holds:
        return
    of_workload = allocation.tasks * units.per_task
    if allocation.policy.proof is Proof.NASH_PRODUCT:
        products = products_proven(problem, classes, form, allocation, certificate)
        yield from check_equilibrium(problem, allocation, form, of_workload, certificate, products)
    else:
        prices = proven(problem, classes, form, allocation, certificate)
        yield from _check_leximin(problem, allocation, form, of_workload, certificate, prices)
    frozen_in = certificate.frozen_in[form.tenants]
    agree = limits(problem, form, certificate, allocation.tasks)
    yield _check(
        "limited_by",
        np.array(
            [mine != theirs for mine, theirs in zip(allocation.limited_by, agree, strict=True)]
        )
        * 1.0,
        0.0,
        "the reasons follow from the certificate's prices",
        problem.workload_names,
    )
    stated = np.array([allocation.objective, allocation.bound, allocation.gap])
    derived = np.array(quality(form.leximin, certificate, frozen_in))
    same = np.isclose(stated, derived, rtol=AGREEMENT, atol=AGREEMENT, equal_nan=True)
    same[:2] = np.isclose(stated[:2], derived[:2], rtol=AGREEMENT, atol=0, equal_nan=True)
    yield _check(
        "objective",
        ~same * 1.0,
        0.0,
        "objective, bound and gap are those of the rounds",
        ("objective", "bound", "gap"),
    )


def _check_leximin(
    problem: Problem,
    allocation: Allocation,
    form: Normalised,
    of_workload: FloatArray,
    certificate: Certificate,
    prices: Proven,
) -> Iterator[Check]:
    """Shares and levels are those of the rounds, and each round is proven."""
    names = [problem.tenants[i] for i in form.tenants.tolist()]
    shares = grouped_sum(of_workload, problem.workload_tenant, problem.t)
    share = shares[form.tenants]
    frozen_in = certificate.frozen_in[form.tenants]
    level_of_round = np.array([item.level for item in certificate.rounds])
    expected = np.minimum(form.leximin.cap, level_of_round[frozen_in] * form.leximin.weight)
    scale = np.maximum(expected, 1e-3 * AGREEMENT)
    yield _check(
        "shares",
        np.abs(share - expected) / scale,
        AGREEMENT,
        "every tenant's share is its round's level × weight, or all its tasks",
        names,
    )
    level = allocation.level[form.tenants] * form.leximin.weight
    yield _check(
        "levels",
        np.where(np.isfinite(level), np.abs(level - expected) / scale, np.inf),
        AGREEMENT,
        "every tenant's level is its share over its weight",
        names,
    )
    yield from _check_rounds(form, certificate, expected, frozen_in, names, prices)


def _certificate_fits(problem: Problem, form: Normalised, certificate: Certificate) -> Check:
    lexi, frozen_in = form.leximin, certificate.frozen_in
    holds = frozen_in.shape == (problem.t,) and all(
        item.prices.shape == (lexi.K, lexi.m)
        and bool((np.isfinite(item.prices) & (item.prices >= 0)).all())
        and item.stage in (0, 1)
        and 0 <= item.level < np.inf
        for item in certificate.rounds
    )
    if holds:
        mine = frozen_in[form.tenants]
        others = np.delete(frozen_in, form.tenants)
        stages = np.array([item.stage for item in certificate.rounds])
        holds = (
            bool(((mine >= 0) & (mine < len(stages))).all())
            and bool((others == -1).all())
            and bool((stages[mine] == lexi.stage).all())
            and bool((np.diff(stages) >= 0).all())
        )
    detail = "one price per merged server class and resource, one round per tenant, in stages"
    return Check("certificate", holds, detail, 0.0)


def _check_rounds(
    form: Normalised,
    certificate: Certificate,
    share: FloatArray,
    frozen_in: np.ndarray[tuple[int], np.dtype[np.int64]],
    names: list[str],
    prices: Proven,
) -> Iterator[Check]:
    """Every round's bound, and of every tenant that it is stuck or has all its tasks.

    The proofs are about the stated levels; that tenants have them is checked before.
    """
    lexi = form.leximin
    closed = np.array([item.proven for item in certificate.rounds], dtype=np.bool_)
    unproven = np.zeros(len(certificate.rounds))
    misstated = np.zeros(len(certificate.rounds))
    beyond = np.zeros(len(certificate.rounds), dtype=np.bool_)
    proofs = prove_rounds(lexi, certificate.rounds, frozen_in, share)
    for number, (item, (rising, proof)) in enumerate(zip(certificate.rounds, proofs, strict=True)):
        scale = level_scale(lexi, rising, item.level)
        unproven[number] = abs(proof.bound - item.level) / scale
        misstated[number] = abs(proof.bound - item.bound) / scale
        beyond[number] = item.level - proof.bound > LEVEL_TOLERANCE * scale
    rounds = [f"round {number}" for number in range(len(certificate.rounds))]
    yield _check(
        "levels_proven",
        np.where(
            closed,
            exactly(unproven - LEVEL_TOLERANCE, ~prices.levels | beyond),
            np.maximum(unproven - OPEN_GAP, 0.0),
        ),
        0.0,
        "each round's prices prove that its level cannot be higher; of one that is left open, not by "
        "more than a thousandth",
        rounds,
    )
    yield _check(
        "bounds_stated",
        misstated,
        LEVEL_TOLERANCE,
        "the stated bounds are those that the prices give",
        rounds,
    )
    yield _check(
        "tenants_stuck",
        (~prices.tenants & closed[frozen_in]) * 1.0,
        0.0,
        "every tenant of these has all its tasks or is proven to be stuck in its round",
        names,
    )
