"""Checks of answers to problems with guarantees.

Each of the problems that follow (``floor_problems``) is verified as any other problem. Then the answer
must be what their answers make together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from policies.arrays import grouped_sum
from policies.model.allocation import Allocation, Floors, current_placements_of
from policies.model.current_placements import CurrentPlacements
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.tolerance import AGREEMENT
from policies.verification.checks import Check, check
from policies.verification.floor_parts import (
    Part,
    Parts,
    kept_of,
    parts_of,
)
from policies.verification.floor_problems import (
    kinds_of_steps,
    pools_of,
    rest_problem,
    rising_problem,
)
from policies.verification.guaranteed_places import missed_on_servers, run_where_guaranteed
from policies.verification.handed_out import check_places
from policies.verification.in_place import found_tasks
from policies.verification.kept_tasks import OnServers
from policies.verification.places import Places
from policies.verification.stated import Stated
from policies.verification.whole_tasks import Whole

# Verifies the answer to a problem, beside parts of workloads that run already.
Verify = Callable[[Problem, Allocation, CurrentPlacements | None], tuple[Check, ...]]


def check_floors(
    stated: Stated,
    places: Places,
    allocation: Allocation,
    running: CurrentPlacements | None,
    verify: Verify,
) -> Iterator[Check]:
    """Check the answers of all steps, and that the answer is what they make together."""
    choice, floors = stated.choice, allocation.floors
    assert floors is not None  # noqa: S101 - for mypy; ``promised`` is checked before
    placed = choice.whole_tasks and not choice.sees_one_pool
    kept = kept_of(stated) if placed else None
    pools = list(pools_of(stated, kept))
    agrees = len(floors.pools) == len(pools) and all(
        answer is None
        if pool.problem is None
        else answer is not None and _same(answer.choice, pool.choice)
        for pool, answer in zip(pools, floors.pools, strict=True)
    )
    yield Check("floor_pools", agrees, "each guarantee has the answer of its pool", 0.0)
    # The problems of the steps follow from the answers of the pools.
    if not agrees:
        return
    for number, (pool, answer) in enumerate(zip(pools, floors.pools, strict=True)):
        if pool.problem is None or answer is None:
            continue
        yield from _named(verify(pool.problem, answer, None), f"floor pool {number}")
        # Parts are read from these tasks, whose shape is not known to be right.
        if np.shape(answer.tasks) != (pool.problem.n,):
            return
    found = parts_of(stated, pools, floors.pools, kept)
    parts, steps = found.parts, _steps(stated, found, floors)
    for name, (step, answer, before) in steps.items():
        if answer.tasks.shape != (step.n,) or not _same(answer.choice, choice):
            yield Check(f"{name}_fits", False, "the step is about the problem's workloads", 0.0)
            return
        yield from _named(verify(step, answer, before), name)
    yield from _check_together(stated, parts, allocation, floors)
    left_out = np.flatnonzero([pool.left_out for pool in pools])
    agree = np.array_equal(floors.left_out, left_out)
    yield Check("floors_left_out", agree, "workloads with too many tasks have no floor", 0.0)
    if placed:
        kinds, _ = kinds_of_steps(stated, parts)
        # Indices of an answer are not trusted.
        if not np.isin(floors.rest.placement_piece, np.arange(len(kinds))).all():
            yield Check(
                "rest_pieces", False, "the pieces of the rest are those of its workloads", 0.0
            )
            return
        rest = replace(floors.rest, placement_piece=kinds[floors.rest.placement_piece])
        fresh = found_tasks(stated.places(rest.classes.servers), stated, rest)

        def guaranteed(found: OnServers) -> bool:
            return run_where_guaranteed(_placed(stated, allocation, found))

        yield from check_places(Whole.of(stated, places, allocation), fresh, running, guaranteed)


def _placed(stated: Stated, allocation: Allocation, found: OnServers) -> Allocation:
    """Return an answer with other placements."""
    kinds, rows = max(len(stated.pieces.owner), 1), stated.rows
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    one_by_one = replace(
        allocation.classes,
        first_row=rows.row[row_of],
        servers=np.ones(len(row_of), dtype=np.int64),
        offset=np.arange(len(row_of)) - (np.cumsum(rows.servers) - rows.servers)[row_of],
        allowed_kinds=rows.allowed,
        kind=row_of,
    )
    return replace(
        allocation,
        classes=one_by_one,
        placement_piece=found[0] % kinds,
        placement_class=found[0] // kinds,
        placement_tasks=found[1],
    )


def floors_of(
    stated: Stated,
    of_pool: Callable[[int, Problem | None, Choice], Allocation | None],
    of_raised: Callable[[Problem], Allocation],
    of_rest: Callable[[Problem], Allocation],
) -> Floors:
    """Put together the answers of all steps, each of which is asked for once its problem is known."""
    n = stated.problem.n
    kept = kept_of(stated)
    pools = list(pools_of(stated, kept))
    answers = tuple(of_pool(at, pool.problem, pool.choice) for at, pool in enumerate(pools))
    found = parts_of(stated, pools, answers, kept)
    parts = found.parts
    raised = of_raised(rising_problem(stated, found))
    met = raised.tasks[n:]
    of = np.array([part.workload for part in parts], dtype=np.int64)
    floor = grouped_sum(np.array([part.tasks for part in parts]), of, n)
    rest = of_rest(rest_problem(stated, found, met))
    pool_of_part = np.array([part.pool for part in parts], dtype=np.int64)
    left_out = np.flatnonzero([pool.left_out for pool in pools])
    return Floors(answers, raised, rest, floor, grouped_sum(met, of, n), pool_of_part, left_out)


def _same(one: Choice, other: Choice) -> bool:
    """True if both are the same policy, mode and options."""
    named = one.policy.name, one.mode, dict(one.options)
    return named == (other.policy.name, other.mode, dict(other.options))


def _named(checks: tuple[Check, ...], step: str) -> Iterator[Check]:
    """Yield what fails in a step, or that all of it holds."""
    failed = [each for each in checks if not each.holds]
    for each in failed:
        yield replace(each, detail=f"{step}: {each.detail}")
    if not failed:
        yield Check(step.split(" ")[0], True, f"{step} is the policy's answer", 0.0)


def _steps(
    stated: Stated, found: Parts, floors: Floors
) -> dict[str, tuple[Problem, Allocation, CurrentPlacements | None]]:
    """Return the two problems with parts as tenants, their answers and what runs before."""
    first = second = None
    if stated.choice.whole_tasks and not stated.choice.sees_one_pool:
        first = found.placed_on_own()
        placements = current_placements_of(floors.raised)
        of_part = np.flatnonzero(kinds_of_steps(stated, found.parts)[1])
        second = placements.some(np.isin(placements.workload, of_part))
    rising = rising_problem(stated, found)
    met = np.zeros(len(found.parts))
    if floors.raised.tasks.shape == (rising.n,):
        met = floors.raised.tasks[stated.problem.n :]
    return {
        "floors": (rising, floors.raised, first),
        "rest": (rest_problem(stated, found, met), floors.rest, second),
    }


def _check_together(
    stated: Stated, parts: list[Part], allocation: Allocation, floors: Floors
) -> Iterator[Check]:
    """Check that the answer is the rest and the parts, and that it states the floors."""
    problem, rest = stated.problem, floors.rest
    of = np.array([part.workload for part in parts], dtype=np.int64)
    whole = np.concatenate([np.arange(problem.n), of])
    names = problem.workload_names
    tasks = grouped_sum(rest.tasks, whole, problem.n)
    yield check(
        "floors_together",
        np.abs(tasks - allocation.tasks) / np.maximum(tasks, 1e-300),
        AGREEMENT,
        "every workload runs its guaranteed parts and its part of the rest",
        names,
    )
    expected = stated.tenant_shares(stated.columns, allocation.tasks) / stated.weight
    # An answer states no level of a tenant without workloads.
    level = np.where(np.isin(np.arange(problem.t), problem.workload_tenant), allocation.level, 0.0)
    yield check(
        "floors_level",
        np.nan_to_num(np.abs(level - expected) / np.maximum(expected, 1e-300), nan=np.inf),
        AGREEMENT,
        "every tenant's level is its share over its weight",
        problem.tenants,
    )
    floor = grouped_sum(np.array([part.tasks for part in parts]), of, problem.n)
    met = grouped_sum(floors.raised.tasks[problem.n :], of, problem.n)
    pools = np.array([part.pool for part in parts], dtype=np.int64)
    agree = np.array_equal(floors.pool_of_part, pools)
    yield Check("floor_parts", agree, "each part is of the pool that guarantees it", 0.0)
    for name, given, expected in (("floor", floors.floor, floor), ("floor_met", floors.met, met)):
        yield check(
            name,
            np.abs(given - expected) / np.maximum(expected, 1e-300)
            if np.shape(given) == expected.shape
            else np.full(problem.n, np.inf),
            AGREEMENT,
            "it follows from the answers of the pools and of the first step",
            names,
        )
    # Those of whole tasks on servers follow from where the answer has them.
    placed = stated.choice.whole_tasks and not stated.choice.sees_one_pool
    reasons = allocation.limited_by if placed else rest.limited_by[: problem.n]
    yield check(
        "floors_limited_by",
        np.array([a != b for a, b in zip(allocation.limited_by, reasons, strict=True)]) * 1.0,
        0.0,
        "the reasons are those of the rest",
        names,
    )
    numbers = zip(
        (allocation.objective, allocation.bound, allocation.gap),
        (rest.objective, rest.bound, rest.gap),
        strict=True,
    )
    same = [np.isclose(a, b, rtol=AGREEMENT, atol=AGREEMENT, equal_nan=True) for a, b in numbers]
    yield check(
        "floors_objective",
        ~np.array(same) * 1.0,
        0.0,
        "objective, bound and gap are those of the rest",
        ("objective", "bound", "gap"),
    )
    if not stated.choice.sees_one_pool:
        # Where pieces run is judged by the placement rule.
        tasks = floors.raised.tasks[problem.n :].tolist()
        missed = missed_on_servers(
            allocation,
            [
                (part.workload, part.rows, met)
                for part, met in zip(parts, tasks, strict=True)
                if not part.own and part.workload not in problem.gangs
            ],
        )
        yield check(
            "floors_on_servers",
            missed,
            AGREEMENT,
            "guaranteed tasks run on the servers for which they are guaranteed",
            names,
        )
