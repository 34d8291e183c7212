"""The level of each group in an answer, and the resources that its tenants use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray
from policies.model.allocation import Allocation
from policies.model.policy import ShareDefinition
from policies.model.share_definition import share_units, shares_of
from policies.proofs.normal_form import normalise


@dataclass(frozen=True, eq=False)
class GroupStanding:
    """A group's part of an answer.

    Attributes
    ----------
    group : int
        Index of the group.
    tenants : tuple of int
        Indices of the tenants below it.
    level : float or None
        Largest share of any resource that they hold, over the group's weight, or the sum of their
        tasks over those alone where these count; None of a group without tenants.
    used : (m,) float array
        Resources that their tasks use, in their own units.
    frozen_in : int or None
        Round in which the last of them was frozen; None without a certificate.

    Examples
    --------
    >>> from policies import Problem, group_standings, solve
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A", "B"],
    ...     demand=[[1], [3]], groups=["physics"], tenant_group=[0, -1])
    >>> group_standings(solve(problem, "drf"))[0].tenants
    (0,)
    """

    group: int
    tenants: tuple[int, ...]
    level: float | None
    used: FloatArray
    frozen_in: int | None


def group_standings(allocation: Allocation) -> tuple[GroupStanding, ...]:
    """Return the standing of every group of the answer's problem, in order.

    Divisible tasks count by the directions in which shares rise. Long-term policies count past use.

    Parameters
    ----------
    allocation : Allocation
        Any answer.

    Returns
    -------
    tuple of GroupStanding
        One per group.

    Examples
    --------
    >>> from policies import Problem, group_standings, solve
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A", "B"],
    ...     demand=[[1], [3]], groups=["physics"], tenant_group=[0, -1])
    >>> group_standings(solve(problem, "drf"))[0].level
    0.5
    """
    problem = allocation.problem
    if not problem.groups:
        return ()
    mine: list[list[int]] = [[] for _ in problem.groups]
    for tenant, first in enumerate(problem.tenant_group.tolist()):
        group = first
        while group >= 0:
            mine[group].append(tenant)
            group = int(problem.group_parent[group])
    held, by_sum = _held(allocation)
    frozen_in = None if allocation.certificate is None else allocation.certificate.frozen_in
    derived = problem.derived_group_weight
    found = []
    for group, tenants in enumerate(mine):
        first_stage = bool((~problem.second_stage[tenants]).any()) and derived[group] > 0
        weight = float(derived[group] if first_stage else problem.group_weight[group])
        vector = held[tenants].sum(axis=0)
        size = float(vector.sum() if by_sum else vector.max(initial=0.0))
        last = -1 if frozen_in is None else int(frozen_in[tenants].max(initial=-1))
        found.append(
            GroupStanding(
                group=group,
                tenants=tuple(tenants),
                level=size / weight if tenants else None,
                used=allocation.used_by_group[group],
                frozen_in=last if last >= 0 else None,
            )
        )
    return tuple(found)


def tenant_levels(allocation: Allocation) -> FloatArray:
    """Return the level of every tenant, on the scale of the levels of groups.

    Without history it is the weighted share, as the policy counts it. Long-term policies count past use.

    Parameters
    ----------
    allocation : Allocation
        Any answer.

    Returns
    -------
    (t,) float array
        Levels; NaN for tenants of the second stage.

    Examples
    --------
    >>> from policies import Problem, solve, tenant_levels
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A", "B"],
    ...     demand=[[1], [3]], groups=["physics"], tenant_group=[0, -1])
    >>> tenant_levels(solve(problem, "drf")).tolist()
    [0.5, 0.5]
    """
    problem = allocation.problem
    by_tasks = allocation.choice.share is ShareDefinition.ALONE
    if allocation.history is None and not by_tasks:
        return allocation.weighted_share
    held, by_sum = _held(allocation)
    size = held.sum(axis=1) if by_sum else held.max(axis=1, initial=0.0)
    return np.where(problem.second_stage, np.nan, size / problem.effective_weight)


def _held(allocation: Allocation) -> tuple[FloatArray, bool]:
    """Return the shares that tenants hold of each resource (t, m), and True if their sum counts."""
    problem, choice = allocation.problem, allocation.choice
    if allocation.history is not None:
        share = np.divide(
            allocation.history.used,
            problem.totals,
            out=np.zeros((problem.t, problem.m)),
            where=problem.totals > 0,
        )
        return share, choice.share is ShareDefinition.SUM
    if choice.share is ShareDefinition.ALONE:
        return shares_of(problem, choice, allocation.tasks)[:, None], False
    if allocation.certificate is not None and problem.has_groups:
        form = normalise(problem, allocation.classes, share_units(problem, choice))
        held = np.zeros((problem.t, problem.m))
        if form.leximin.groups is not None:
            held[form.tenants] = form.leximin.groups.direction
        return held * allocation.tenant_share[:, None], False
    held = np.zeros((problem.t, problem.m))
    np.add.at(held, problem.workload_tenant, allocation.tasks[:, None] * problem.demand_share)
    return held, False
