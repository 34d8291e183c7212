"""Checks that a policy can run tasks of several pieces."""

from __future__ import annotations

import numpy as np

from policies.errors import PolicyNotApplicableError
from policies.model.policy import Choice, Servers, ShareDefinition
from policies.model.problem import Problem


def gangs_refusal(choice: Choice, *, two_kinds: bool, guaranteed: bool, at_least: bool) -> str:
    """State why a policy cannot run tasks of several pieces, an empty text if it can.

    Parameters
    ----------
    choice : Choice
        The policy with its mode and options.
    two_kinds : bool
        Whether some tasks have two kinds of pieces.
    guaranteed : bool
        Whether there are guarantees or own servers.
    at_least : bool
        Whether several tasks of some workload start at once.

    Returns
    -------
    str
        A sentence.

    Examples
    --------
    >>> from policies import choose, gangs_refusal
    >>> gangs_refusal(choose("mrfs"), two_kinds=False, guaranteed=False, at_least=False)
    "The policy 'mrfs' places whole tasks of one piece only."
    """
    if choice.sees_one_pool or choice.policy.time_sharing:
        return ""
    name = choice.policy.name
    if choice.places_pieces:
        if choice.share is ShareDefinition.ALONE:
            return "The option `share: alone` is for tasks of one piece."
        why = "In a pool or problem with guarantees or own servers, `at_least` must be 1."
        return why * (guaranteed and at_least)
    if choice.policy.servers[choice.mode] is not Servers.CLASSES:
        return f"The policy {name!r} places whole tasks of one piece only."
    return "A divisible task has one kind of pieces, as only their sum counts." * two_kinds


def check_gangs(problem: Problem, choice: Choice) -> Problem:
    """Return the problem as a choice sees it.

    Raises:
        PolicyNotApplicableError: the choice can do neither.
    """
    if not problem.gangs:
        return problem
    two = [j for j, gang in problem.gangs.items() if len(gang.count) > 1]
    guaranteed = bool(problem.guarantees) or bool(np.any(problem.own_servers))
    several = [j for j, gang in problem.gangs.items() if gang.at_least > 1]
    why = gangs_refusal(choice, two_kinds=bool(two), guaranteed=guaranteed, at_least=bool(several))
    if why:
        some = several if choice.places_pieces else two
        _refuse(why, min(some or problem.gangs))
    return problem.placed_by(choice)


def check_simulated_gangs(problem: Problem, choice: Choice) -> None:
    """Raise an error if a simulation cannot run the gangs of a problem under a policy.

    Raises:
        PolicyNotApplicableError: the policy cannot decide them, or ``slots``, which decides by the sum
            of slots and is simulated on single servers.
    """
    if problem.gangs and choice.policy.share is ShareDefinition.SLOTS:
        _refuse("Simulations of 'slots' place whole tasks of one piece only.", min(problem.gangs))
    check_gangs(problem, choice)
    if problem.gangs and choice.places_pieces and problem.has_floors:
        why = "Simulations of guarantees and own servers are for tasks of one piece."
        _refuse(why, min(problem.gangs))


def _refuse(why: str, workload: int) -> None:
    raise PolicyNotApplicableError("workload.pieces", why, f"/workloads/{workload}/pieces")
