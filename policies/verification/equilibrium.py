"""Checks of a competitive equilibrium by prices that bound the Nash product, without a solver."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from policies.arrays import BoolArray
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.problem import Problem
from policies.model.tolerance import AGREEMENT, LEVEL_TOLERANCE
from policies.verification.checks import Check, check, exactly
from policies.verification.form import Form
from policies.verification.market import Market
from policies.verification.mixes import check_mixes


def check_equilibrium(
    problem: Problem,
    allocation: Allocation,
    form: Form,
    certificate: Certificate,
    prices: BoolArray,
) -> Iterator[Check]:
    """Check that every stage's Nash product and bound are as stated, and within 1e-9 of each other.

    Args:
        problem: the problem; allocation: a feasible answer; form: its participants.
        certificate: whose rounds fit the problem; prices: (rounds,) do they prove it, exactly?
    """
    x = form.shares_of(allocation.tasks)
    stages = np.unique(form.stage).tolist()
    rounds = certificate.rounds
    names = [f"round {number}" for number in range(len(rounds))]
    yield Check(
        "rounds",
        [item.stage for item in rounds] == stages,
        "there is one round per stage",
        0.0,
    )
    if [item.stage for item in rounds] != stages:
        return
    reached, proven = np.zeros(len(rounds)), np.zeros(len(rounds))
    for number, item in enumerate(rounds):
        market = Market.of(form, item.stage, x)
        if not len(market.workloads):
            continue
        shares = market.shares(x)
        if (shares > 0).all():
            reached[number] = math.exp(market.log_mean(shares))
        # exp overflows beyond 709.
        proven[number] = math.exp(min(market.log_bound(item.prices[0]), 700.0))
    level = np.array([item.level for item in rounds])
    bound = np.array([item.bound for item in rounds])
    scale = np.where(reached > 0, reached, AGREEMENT)
    yield check(
        "nash_product",
        np.abs(level - reached) / scale * (level != reached),
        AGREEMENT,
        "each round's level is the weighted geometric mean of its tenants' shares",
        names,
    )
    yield check(
        "bounds_stated",
        np.abs(bound - proven) / scale * (bound != proven),
        AGREEMENT,
        "the stated bounds are those that the prices give",
        names,
    )
    yield check(
        "levels_proven",
        exactly((proven - reached) / scale * (proven != reached) - LEVEL_TOLERANCE, ~prices),
        0.0,
        "each round's prices prove that no shares have a greater product",
        names,
    )
    tenants = [problem.tenants[i] for i in form.tenants.tolist()]
    yield check_mixes(form, certificate, x, tenants)
    mine = form.tenant_sums(x) / form.weight
    stated = allocation.level[form.tenants]
    yield check(
        "levels",
        np.where(np.isfinite(stated), np.abs(stated - mine) / np.maximum(mine, 1e-12), np.inf),
        AGREEMENT,
        "every tenant's level is its share over its weight",
        tenants,
    )
