"""Checks that a policy can run tasks of several pieces."""

from __future__ import annotations

import numpy as np

from policies.errors import PolicyNotApplicableError
from policies.model.policy import Choice, Servers, ShareDefinition
from policies.model.problem import Problem


def check_gangs(problem: Problem, choice: Choice) -> Problem:
    """Return the problem as a choice sees it: with pieces, or with the sum of each task.

    Raises:
        PolicyNotApplicableError: the choice can do neither.
    """
    if not problem.gangs:
        return problem
    if choice.places_pieces:
        _check_placing(problem, choice)
        return problem
    name, first = choice.policy.name, min(problem.gangs)
    if not choice.sees_one_pool and not choice.policy.time_sharing:
        if choice.policy.servers[choice.mode] is not Servers.CLASSES:
            raise PolicyNotApplicableError(
                "workload.pieces",
                f"policy {name!r} places tasks of one piece only; use 'drfh' with whole tasks, or a "
                "policy that sees the pool as one server",
                f"/workloads/{first}/pieces",
            )
        two = [j for j, gang in problem.gangs.items() if len(gang.count) > 1]
        if two:
            raise PolicyNotApplicableError(
                "workload.pieces",
                "a divisible task has one kind of pieces, as only their sum counts; whole tasks can "
                "have two",
                f"/workloads/{min(two)}/pieces",
            )
    return problem.of_sums


def refuse_gangs(problem: Problem, choice: Choice) -> None:
    """Raise an error if pieces of tasks would have to be placed in a simulation.

    Raises:
        PolicyNotApplicableError: the choice places tasks on servers, and some have several pieces.
    """
    if problem.gangs and not choice.sees_one_pool:
        raise PolicyNotApplicableError(
            "workload.pieces",
            f"simulations of policy {choice.policy.name!r} place tasks of one piece only; a policy that "
            "sees the pool as one server counts the sum of the pieces",
            f"/workloads/{min(problem.gangs)}/pieces",
        )


def _check_placing(problem: Problem, choice: Choice) -> None:
    """Raise an error for what is not defined for whole tasks of several pieces."""
    first = min(problem.gangs)
    if choice.share is ShareDefinition.ALONE:
        raise PolicyNotApplicableError(
            "workload.pieces",
            "shares of what a workload would run alone are for tasks of one piece",
            f"/workloads/{first}/pieces",
        )
    if problem.guarantees or np.any(problem.own_servers):
        raise PolicyNotApplicableError(
            "workload.pieces",
            "guarantees and own servers with whole tasks are for tasks of one piece",
            f"/workloads/{first}/pieces",
        )
