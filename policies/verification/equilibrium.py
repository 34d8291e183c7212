"""Checks of a competitive equilibrium: its prices bound the Nash product, without a solver."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.problem import Problem
from policies.model.tolerance import AGREEMENT, LEVEL_TOLERANCE
from policies.proofs.market import merged_shares, stage_of
from policies.proofs.normal_form import Normalised
from policies.verification.checks import Check, check, exactly


def check_equilibrium(
    problem: Problem,
    allocation: Allocation,
    form: Normalised,
    of_workload: FloatArray,
    certificate: Certificate,
    prices: BoolArray,
) -> Iterator[Check]:
    """Every stage's Nash product and bound are as stated, and within 1e-9 of each other.

    Args:
        problem: the problem; allocation: a feasible answer; form: the problem, normalised.
        of_workload: (n,) share of each workload, from its tasks.
        certificate: whose rounds fit the problem; prices: (rounds,) do they prove it, exactly?
    """
    lexi = form.leximin
    x = merged_shares(form, of_workload)
    stages = np.unique(lexi.stage).tolist()
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
        earlier = np.where(lexi.stage[lexi.owner] < item.stage, x, 0.0)
        stage = stage_of(lexi, item.stage, earlier)
        if stage.market is None:
            continue
        shares = stage.market.shares(x[stage.workloads])
        if (shares > 0).all():
            reached[number] = math.exp(stage.market.nash_welfare(shares))
        log_bound = min(stage.market.bound(item.prices[0]), 700.0)
        proven[number] = math.exp(log_bound)
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
    mine = np.where(lexi.weight > 0, lexi.tenant_sums(x[:, None]) / lexi.weight, 0.0)
    stated = allocation.level[form.tenants]
    yield check(
        "levels",
        np.where(np.isfinite(stated), np.abs(stated - mine) / np.maximum(mine, 1e-12), np.inf),
        AGREEMENT,
        "every tenant's level is its share over its weight",
        [problem.tenants[i] for i in form.tenants.tolist()],
    )
