"""Checking an answer with arithmetic only: no solver, time linear in its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, grouped_sum
from policies.errors import SolveFailedError
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.history import History
from policies.model.policy import Proof
from policies.model.problem import Problem
from policies.model.reasons import TASK_LIMIT, unserved_reasons
from policies.model.server_classes import ServerClasses, classes_of_decision
from policies.model.share_definition import share_units
from policies.model.tolerance import AGREEMENT, LEVEL_TOLERANCE, OPEN_GAP
from policies.proofs.capacities import Capacities
from policies.proofs.consequences import limits, quality
from policies.proofs.exact_levels import Proven, proven
from policies.proofs.level_bounds import level_scale, prove_rounds
from policies.proofs.normal_form import Normalised, normalise
from policies.proofs.saturation import stops_of
from policies.proofs.stop_reasons import STILL_FITS
from policies.verification.checks import Check, exactly
from policies.verification.checks import check as _check
from policies.verification.equilibrium import check_equilibrium
from policies.verification.exact_equilibrium import products_proven
from policies.verification.filling import check_filling
from policies.verification.history import check_history
from policies.verification.schedule import check_division, check_schedule


@dataclass(frozen=True)
class Verification:
    """All checks of one answer; ``valid`` when each holds."""

    valid: bool
    checks: tuple[Check, ...]


def verify(
    problem: Problem, allocation: Allocation, history: History | None = None
) -> Verification:
    """Check a decision against the problem it claims to answer.

    Args:
        problem: the problem, for example from a stored input.
        allocation: the answer; its own ``problem`` and ``classes`` are not trusted.
        history: what a long-term policy was given to remember; None is nothing, as in ``solve``.
    """
    checks = list(check_feasible(problem, allocation, history))
    certificate, schedule = allocation.certificate, allocation.schedule
    if certificate is not None and all(item.holds for item in checks):
        if schedule is None:
            checks += _check_certificate(problem, allocation, certificate)
        else:
            checks += check_division(problem, allocation, schedule, certificate)
    return Verification(all(item.holds for item in checks), tuple(checks))


def check_feasible(
    problem: Problem, allocation: Allocation, history: History | None = None
) -> Iterator[Check]:
    """What must hold under every policy: shapes, limits, eligibility, capacity, sums, history."""
    ranges = None if allocation.classes.offset is None else allocation.classes.servers
    classes = classes_of_decision(problem, allocation.choice, ranges)
    shapes = _check_shapes(problem, allocation, classes)
    yield shapes
    if not shapes.holds:
        return
    tasks = allocation.tasks
    capacities = Capacities.of(problem, allocation, classes)
    beyond = capacities.beyond_limits(allocation, allocation.placement_tasks)
    yield _check(
        "task_limits",
        exactly(
            np.maximum(tasks / np.where(tasks > 0, problem.tasks, 1.0) - 1, -np.sign(tasks)),
            (tasks < 0) | (tasks > problem.tasks) | beyond,
        ),
        0.0,
        "no workload runs less than nothing or more tasks than it has",
        problem.workload_names,
    )
    totals = np.where(problem.totals > 0, problem.totals, 1.0)
    yield _check(
        "pool_capacity",
        exactly((tasks @ problem.demand) / totals - 1, capacities.pool_overfilled(tasks)),
        0.0,
        "the pool's resources are not overfilled",
        problem.resources,
    )
    if len(allocation.placement_tasks):
        yield from _check_placements(problem, allocation, capacities)
    allowed = classes.allowed
    unserved = unserved_reasons(problem, allowed) != ""
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
    remembered = check_history(problem, allocation, history)
    yield from remembered
    if allocation.schedule is not None:
        yield from check_schedule(problem, allocation, allocation.schedule)
    elif allocation.whole and all(item.holds for item in remembered):
        yield from _check_whole_tasks(problem, allocation, classes)


def with_proofs(problem: Problem, allocation: Allocation) -> Allocation:
    """A feasible answer whose rounds say whether their prices prove them exactly.

    Of divisible leximins and equilibria; other answers come back as they are.

    Raises:
        SolveFailedError: a level is further from what its prices prove than rounding explains.
    """
    certificate = allocation.certificate
    if certificate is None or allocation.schedule is not None:
        return allocation
    classes = classes_of_decision(problem, allocation.choice)
    form = normalise(problem, classes, share_units(problem, allocation.choice))
    if allocation.policy.proof is Proof.NASH_PRODUCT:
        products = products_proven(problem, classes, form, allocation, certificate)
        return _restated(allocation, certificate, products)
    prices = proven(problem, classes, form, allocation, certificate)
    frozen_in = certificate.frozen_in[form.tenants]
    loose = frozen_in[~prices.tenants]
    if not prices.levels.all():
        share = allocation.level[form.tenants] * form.leximin.weight
        proofs = prove_rounds(form.leximin, certificate.rounds, frozen_in, share)
        for item, (rising, proof) in zip(certificate.rounds, proofs, strict=True):
            scale = level_scale(form.leximin, rising, item.level)
            if proof.bound - item.level > OPEN_GAP * scale:
                raise SolveFailedError(
                    "solve.failed",
                    f"policy {allocation.policy.name!r}: level {item.level} is not proven, "
                    f"its bound is {proof.bound}",
                )
    levels = prices.levels & ~np.isin(np.arange(len(certificate.rounds)), loose)
    return _restated(allocation, certificate, levels)


def _restated(allocation: Allocation, certificate: Certificate, proven: BoolArray) -> Allocation:
    """The answer whose rounds say whether they are ``proven`` (rounds,)."""
    rounds = tuple(
        replace(item, proven=holds)
        for item, holds in zip(certificate.rounds, proven.tolist(), strict=True)
    )
    return replace(allocation, certificate=replace(certificate, rounds=rounds))


def _check_whole_tasks(
    problem: Problem, allocation: Allocation, classes: ServerClasses
) -> Iterator[Check]:
    tasks = allocation.tasks
    yield _check(
        "whole_tasks",
        np.abs(tasks - np.round(tasks)),
        0.0,
        "indivisible tasks run whole",
        problem.workload_names,
    )
    placed = allocation.placement_tasks
    yield _check(
        "whole_placements",
        np.abs(placed - np.round(placed)) / np.maximum(placed, 1.0),
        AGREEMENT,
        "indivisible tasks run whole where they are placed",
        problem.workload_names,
        allocation.placement_workload,
    )
    if classes.offset is not None:
        per_server = allocation.placement_tasks / classes.servers[allocation.placement_class]
        yield _check(
            "whole_tasks_on_servers",
            np.abs(per_server - np.round(per_server)),
            0.0,
            "every server of a range runs the same number of whole tasks",
            problem.workload_names,
            allocation.placement_workload,
        )
    stops = stops_of(problem, allocation, classes)
    if stops is None:
        return
    yield _check(
        "saturated",
        np.array([stop == STILL_FITS for stop in stops]) * 1.0,
        0.0,
        "no workload that wants more tasks has room for one",
        problem.workload_names,
    )
    yield _check(
        "stopped_by",
        np.array([mine != stop for mine, stop in zip(allocation.limited_by, stops, strict=True)])
        * 1.0,
        0.0,
        "the reasons follow from what is left on the servers",
        problem.workload_names,
    )
    yield from check_filling(problem, allocation)


def _check_shapes(problem: Problem, allocation: Allocation, classes: ServerClasses) -> Check:
    p = len(allocation.placement_tasks)
    fits = (
        allocation.tasks.shape == (problem.n,)
        and allocation.level.shape == (problem.t,)
        and len(allocation.limited_by) == problem.n
        and allocation.placement_workload.shape == (p,)
        and allocation.placement_class.shape == (p,)
        and bool(np.isfinite(allocation.tasks).all())
        and bool(np.isfinite(allocation.placement_tasks).all())
        and _within(allocation.placement_workload, problem.n)
        and _within(allocation.placement_class, classes.count)
        and np.array_equal(allocation.classes.class_of_row, classes.class_of_row)
        and np.array_equal(allocation.classes.servers, classes.servers)
    )
    return Check("shapes", fits, "one row per workload, placements on the pool's servers", 0.0)


def _within(index: np.ndarray[tuple[int], np.dtype[np.int64]], size: int) -> bool:
    return bool(((index >= 0) & (index < size)).all())


def _check_placements(
    problem: Problem, allocation: Allocation, capacities: Capacities
) -> Iterator[Check]:
    classes = capacities.classes
    workload, server_class = allocation.placement_workload, allocation.placement_class
    tasks = allocation.placement_tasks
    yield _check(
        "placements_positive",
        -np.sign(tasks) + 1,
        0.0,
        "every placement has tasks",
        problem.workload_names,
        workload,
    )
    placed = grouped_sum(tasks, workload, problem.n)
    size = np.maximum(np.maximum(placed, allocation.tasks), 1e-300)
    yield _check(
        "placements_add_up",
        np.abs(placed - allocation.tasks) / size,
        AGREEMENT,
        "a workload's placements add up to its tasks",
        problem.workload_names,
    )
    allowed = classes.allowed
    yield _check(
        "eligibility",
        ~allowed[workload, server_class] * 1.0,
        0.0,
        "tasks run only where they may",
        problem.workload_names,
        workload,
    )
    used = np.empty((classes.count, problem.m))
    for r in range(problem.m):
        used[:, r] = grouped_sum(tasks * problem.demand[workload, r], server_class, classes.count)
    capacity = problem.capacity[classes.first_row] * classes.servers[:, None]
    excess = used / np.where(capacity > 0, capacity, 1.0) - (capacity > 0)
    over = capacities.servers_overfilled(allocation, tasks)
    yield _check(
        "server_capacity",
        exactly(excess.max(axis=1, initial=-1.0), np.logical_or.reduce(over, axis=1)),
        0.0,
        "no server is overfilled",
        problem.server_names,
        classes.first_row,
    )


def _check_certificate(
    problem: Problem, allocation: Allocation, certificate: Certificate
) -> Iterator[Check]:
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
