"""Registry of solvers for each policy and mode, with ``solve`` and the checks on answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from policies import catalogue
from policies.equilibrium import ceei
from policies.errors import (
    PolicyNotApplicableError,
    ProblemError,
    SolveFailedError,
)
from policies.filling import mrfs, pool, servers, static
from policies.finishing.feasibility_rounding import rounded_to_feasible
from policies.finishing.placement_stickiness import keeps_places, stay_in_place
from policies.floors.known_pools import KnownPools
from policies.floors.solving import solve_with_floors
from policies.leximin import drf, drfh
from policies.long_term import hand_out
from policies.long_term.measures import H_MRF, LT_AF, LT_DRF
from policies.model.allocation import Allocation
from policies.model.current_placements import CurrentPlacements
from policies.model.gang_checks import check_gangs
from policies.model.history import History, check_history_fits
from policies.model.limit_checks import check_amounts, check_kept_placements
from policies.model.policy import Choice, Policy
from policies.model.problem import Problem
from policies.model.request import Request, Solver, deadline_of
from policies.selection import choose, make_known, policy_named
from policies.time_division import tda
from policies.verification.feasible import check_feasible
from policies.verification.guaranteed_places import run_where_guaranteed
from policies.verification.stated import Stated
from policies.verification.verify import with_proofs

_SOLVERS: dict[str, Mapping[str, Solver]] = {}


def register(policy: Policy, **solvers: Solver) -> None:
    """Make a policy available by its name, with one solver per mode.

    Parameters
    ----------
    policy : Policy
        Its name, modes, options and traits.
    **solvers : Solver
        By mode: a function that takes a :class:`Request` and returns an :class:`Allocation`.

    Raises
    ------
    ValueError
        The modes are not the policy's, the name is taken, or a schema has an unsupported keyword.

    Examples
    --------
    >>> from policies import policy_named, register
    >>> try:
    ...     register(policy_named("ceei"), divisible=lambda request: None)
    ... except ValueError as error:
    ...     print(error)
    a policy 'ceei' is already registered
    """
    if set(solvers) != set(policy.modes):
        raise ValueError(f"policy {policy.name!r} has modes {policy.modes}, not {tuple(solvers)}")
    if policy.name in _SOLVERS:
        raise ValueError(f"a policy {policy.name!r} is already registered")
    make_known(policy)
    _SOLVERS[policy.name] = MappingProxyType(solvers)


register(catalogue.DRF, divisible=drf.solve_divisible, indivisible=pool.solve_indivisible)
register(catalogue.ASSET, divisible=drf.solve_divisible, indivisible=pool.solve_indivisible)
register(catalogue.DRFH, divisible=drfh.solve_divisible, indivisible=servers.solve_indivisible)
register(catalogue.CEEI, divisible=ceei.solve_divisible)
register(catalogue.SINGLE_RESOURCE, indivisible=pool.solve_indivisible)
register(catalogue.SLOTS, indivisible=pool.solve_indivisible)
register(catalogue.STATIC, indivisible=static.solve_indivisible)
register(catalogue.MRFS, indivisible=mrfs.solve_indivisible)
register(catalogue.TDA, indivisible=tda.solve_indivisible)
register(catalogue.LT_DRF, indivisible=hand_out.solver(LT_DRF))
register(catalogue.LT_AF, indivisible=hand_out.solver(LT_AF))
register(catalogue.H_MRF, indivisible=hand_out.solver(H_MRF))


def solve(
    problem: Problem,
    policy: str,
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    running: CurrentPlacements | None = None,
    history: History | None = None,
) -> Allocation:
    """Allocate the pool by the named policy.

    Parameters
    ----------
    problem : Problem
        Servers, tenants and workloads.
    policy : str
        A name from :func:`policies_available`.
    mode : str, optional
        One of the policy's modes; its default if None.
    options : mapping, optional
        See the policy's ``options_schema``.
    time_limit : float, optional
        Seconds after which to give up, greater than 0; None is no limit.
    running : CurrentPlacements, optional
        Where tasks run now. They stay there where that gives the same counts.
    history : History, optional
        State of a long-term policy before this step; None is an empty history and a step of
        length 1.

    Returns
    -------
    Allocation
        An allocation that is feasible exactly. The levels of divisible tasks of ``drf``, ``drfh``
        and ``asset`` are proven exactly, or the certificate's rounds mark those left open. The
        same input gives the same answer, to the last bit.

    Raises
    ------
    PolicyUnknownError, PolicyModeError, PolicyOptionsError
        The policy, the mode or the options do not exist or do not fit.
    PolicyNotApplicableError
        A selector under a policy that does not place, a history under a memoryless policy, a deficit
        under a policy that is not time-sharing, or groups, limits, guarantees or kept tasks under a
        policy without them.
    ProblemError
        The problem is not a ``Problem``, or the history is not about its tenants and resources.
    PolicyError
        The time limit is not greater than 0 (``solve.time_limit``).
    ProblemTooLargeError, SolveTimeoutError
        The problem is too large, or the time limit passed.
    SolveFailedError
        No answer passed its checks.

    References
    ----------
    Each policy names its paper in ``policy_named(name).source``.

    Examples
    --------
    Dominant Resource Fairness, figure 3 of Ghodsi et al., NSDI 2011:

    >>> from policies import Problem, solve
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> solve(problem, "drf").tasks.round(6).tolist()
    [3.0, 2.0]
    """
    deadline = deadline_of(time_limit)
    if not isinstance(problem, Problem):
        raise ProblemError(
            "field.type",
            f"expected a Problem, got a {type(problem).__name__}: build one with Problem.create, or "
            "read a document with problem_from_document",
        )
    choice = choose(policy, mode, options)
    if problem.has_selectors and choice.sees_one_pool:
        first = next(j for j, selector in enumerate(problem.selectors) if selector)
        raise PolicyNotApplicableError(
            "policy.no_placement",
            f"policy {policy!r} sees the pool as one server: workload {first} "
            f"({problem.workload_names[first]!r}) cannot have a server_selector",
            f"/workloads/{first}/server_selector",
        )
    if problem.has_groups:
        _check_groups(choice)
    check_kept_placements(problem, choice)
    problem = check_gangs(problem, choice)
    check_amounts(problem, choice, (p for p in _SOLVERS if policy_named(p).takes_limits))
    if history is not None:
        _check_history(problem, choice.policy, history)
    if problem.deficit.any() and not choice.policy.time_sharing:
        raise PolicyNotApplicableError(
            "policy.owed",
            f"policy {policy!r} is not time-sharing and cannot repay a deficit",
            f"/tenants/{int(np.flatnonzero(problem.deficit)[0])}/owed",
        )
    before = history
    if choice.policy.long_term and history is None:
        before = History.zeros(problem)
    with _linear_algebra_in_one_thread():
        return _solved(Request(problem, choice, before, deadline), running)


def _solved(
    request: Request,
    running: CurrentPlacements | None = None,
    known: KnownPools | None = None,
) -> Allocation:
    """Return the checked answer to a request whose policy takes its problem.

    `known` are the pools of guarantees that were divided already.
    """
    problem, choice = request.problem, request.choice
    if problem.has_floors:
        pools = KnownPools() if known is None else known
        allocation = solve_with_floors(
            problem,
            choice,
            lambda step, by, kept: _solved(
                Request(step, by, None, request.deadline, kept), known=pools
            ),
            pools,
            request.deadline,
        )
        # Its steps are proven already, each as an answer of its own.
        return _checked(_in_place(allocation, running, request.deadline), request.history)
    # First, because all that follows relies on capacities that hold exactly.
    allocation = rounded_to_feasible(_SOLVERS[choice.policy.name][choice.mode](request))
    allocation = _in_place(allocation, running, request.deadline)
    # Read once for the checks and the proofs, if both are about the same problem.
    stated = Stated(problem, allocation.choice) if allocation.problem is problem else None
    # Last, because proofs are about the shares that are returned.
    return with_proofs(problem, _checked(allocation, request.history, stated), stated)


def _in_place(
    allocation: Allocation, running: CurrentPlacements | None, deadline: float | None
) -> Allocation:
    """Return the answer with tasks on the servers on which they run, where that is possible."""
    if running is None or not keeps_places(allocation):
        return allocation
    accepts = None if allocation.floors is None else run_where_guaranteed
    return stay_in_place(allocation.problem, allocation, running, deadline, accepts)


def _checked(
    allocation: Allocation, history: History | None, stated: Stated | None = None
) -> Allocation:
    """Return a feasible answer as it is.

    Args:
        stated: its problem, if it was read already.

    Raises:
        SolveFailedError: it is not feasible.
    """
    found = check_feasible(allocation.problem, allocation, history, stated)
    failed = [item for item in found if not item.holds]
    if failed:
        raise SolveFailedError(
            "solve.failed",
            f"policy {allocation.policy.name!r}: {failed[0].name}: {failed[0].detail}",
        )
    return allocation


def _check_groups(choice: Choice) -> None:
    if not choice.policy.takes_groups:
        names = ", ".join(name for name in sorted(_SOLVERS) if policy_named(name).takes_groups)
        raise PolicyNotApplicableError(
            "policy.no_groups",
            f"policy {choice.policy.name!r} does not decide by groups or tiers; these do: {names}",
            "/policy/name",
        )
    if choice.option("resource_weights"):
        raise PolicyNotApplicableError(
            "policy.no_groups",
            "weights per resource are for pools without groups and tiers",
            "/policy/options/resource_weights",
        )


def _linear_algebra_in_one_thread() -> AbstractContextManager[object]:
    """Return a context in which linear algebra runs in one thread.

    Sums then have one order, whatever the number of cores, so that the same input gives the same
    bits.
    """
    limited: AbstractContextManager[object] = _linear_algebra().limit(limits=1, user_api="blas")
    return limited


@cache
def _linear_algebra() -> ThreadpoolController:
    return ThreadpoolController()


def _check_history(problem: Problem, policy: Policy, history: History) -> None:
    if not policy.long_term:
        raise PolicyNotApplicableError(
            "policy.history",
            f"policy {policy.name!r} is memoryless; history is not accepted",
            "/history",
        )
    check_history_fits(problem, history)
