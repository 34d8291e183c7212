"""Checking an answer with arithmetic only: no solver, time linear in its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, grouped_sum
from policies.errors import SolveFailedError
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.history import History
from policies.model.policy import Proof
from policies.model.problem import Problem
from policies.model.reasons import TASK_LIMIT, unserved_reasons
from policies.model.server_classes import ServerClasses, classes_of_decision
from policies.model.share_definition import share_units
from policies.model.tolerance import AGREEMENT, OPEN_GAP
from policies.proofs.capacities import Capacities
from policies.proofs.exact_levels import proven
from policies.proofs.level_bounds import level_scale, prove_rounds
from policies.proofs.normal_form import normalise
from policies.proofs.saturation import stops_of
from policies.proofs.stop_reasons import STILL_FITS
from policies.verification.certificate import check_certificate
from policies.verification.checks import Check, exactly
from policies.verification.checks import check as _check
from policies.verification.exact_equilibrium import products_proven
from policies.verification.filling import check_filling
from policies.verification.history import check_history
from policies.verification.schedule import check_division, check_schedule


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
    'shapes'
    """

    valid: bool
    checks: tuple[Check, ...]


def verify(
    problem: Problem, allocation: Allocation, history: History | None = None
) -> Verification:
    """Check a decision against the problem it claims to answer.

    Parameters
    ----------
    problem : Problem
        The problem, for example from a stored input.
    allocation : Allocation
        The answer. Its own ``problem`` and ``classes`` are not trusted.
    history : History, optional
        State of a long-term policy before the step; None is nothing, as in ``solve``.

    Returns
    -------
    Verification
        Every check, made with arithmetic only, in time linear in the size of the answer.

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
    """
    checks = list(check_feasible(problem, allocation, history))
    certificate, schedule = allocation.certificate, allocation.schedule
    if certificate is not None and all(item.holds for item in checks):
        if schedule is None:
            checks += check_certificate(problem, allocation, certificate)
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
