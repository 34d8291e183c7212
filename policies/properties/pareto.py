"""Check of Pareto optimality, by a proof or an optimisation program.

An allocation is Pareto optimal if no tenant can have more unless another has less. A leximin that
its certificate proves is Pareto optimal. Otherwise a linear program finds the largest total gain,
and for whole tasks an integer program where that is small.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from policies.arrays import FloatArray, IntArray
from policies.model.allocation import Allocation
from policies.model.policy import Proof, ShareDefinition
from policies.model.problem import Problem
from policies.model.reasons import unserved_reasons
from policies.model.server_classes import ServerClasses, one_class, server_classes
from policies.model.tolerance import CHANGE_TOLERANCE, SHARE_TOLERANCE
from policies.properties.shares import compared_shares, compared_units
from policies.properties.verdicts import Verdict, undecided
from policies.verification.verify import verify

LARGEST_PROGRAM = 400_000
LARGEST_INTEGER_PROGRAM = 3000


def pareto_optimal(allocation: Allocation, seconds: float) -> Verdict:
    """Check that no share can grow unless another becomes less.

    Parameters
    ----------
    allocation : Allocation
        Any policy's answer.
    seconds : float
        For an integer program, which answers where the certificate does not prove it.

    Returns
    -------
    Verdict
        ``holds`` is None where the time was too short to decide.

    Examples
    --------
    >>> from policies import Problem, pareto_optimal, solve
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> pareto_optimal(solve(problem, "drf"), seconds=1).holds
    True
    """
    problem = allocation.problem
    certificate = allocation.certificate
    if (
        _proves_shares(allocation)
        and certificate is not None
        and all(item.proven for item in certificate.rounds)
    ):
        checks = verify(problem, allocation).checks
        names = {check.name for check in checks if check.holds}
        if all(check.holds for check in checks) and "tenants_stuck" in names:
            return Verdict(True, reason="the certificate proves it")
    if allocation.schedule is not None:
        return undecided("averages over slots are not decided without a proof")
    return _by_program(allocation, seconds)


def _proves_shares(allocation: Allocation) -> bool:
    """Return whether the policy's certificate is about the shares compared, so that no gain is possible.

    What counts otherwise, such as the sum of shares, grows with the dominant share of a tenant with one
    workload; of several, one can take over from another with more.
    """
    policy, problem = allocation.policy, allocation.problem
    if policy.proof is not Proof.LEVELS or allocation.options.keys() - {"share"}:
        return False
    one_each = len(np.unique(problem.workload_tenant)) == problem.n
    return policy.share is ShareDefinition.DOMINANT or one_each


def _by_program(allocation: Allocation, seconds: float) -> Verdict:
    problem = allocation.problem
    one = allocation.choice.sees_one_pool
    classes = one_class(problem) if one else server_classes(problem)
    runs = unserved_reasons(problem, classes.allowed) == ""
    pairs = np.argwhere(classes.allowed & runs[:, None])
    if not len(pairs):
        return Verdict(True, reason="nothing can run")
    if len(pairs) > LARGEST_PROGRAM:
        return undecided(f"{len(pairs)} variables are too many for the program")
    whole = allocation.mode == "indivisible"
    capacity = classes.capacity_share * problem.totals
    gain, worst = _largest_gain(allocation, classes, pairs, capacity, seconds, whole=False)
    per_task = compared_units(problem, allocation.choice).per_task[runs]
    least = float(per_task[per_task > 0].min(initial=np.inf)) if whole else 0.0
    # A program that may take a billionth from one tenant gives others more than that.
    enough = CHANGE_TOLERANCE * max(float(compared_shares(allocation).sum()), CHANGE_TOLERANCE)
    if gain <= max(enough, least * (1 - SHARE_TOLERANCE)):
        return Verdict(True, reason="no linear program finds a gain")
    if not whole:
        return Verdict(False, {"tenant": problem.tenants[worst], "size": gain})
    if not one and (classes.servers > 1).any():
        return undecided("whole tasks on many servers are not decided")
    if len(pairs) > LARGEST_INTEGER_PROGRAM:
        return undecided(f"{len(pairs)} whole variables are too many for the program")
    gain, worst = _largest_gain(allocation, classes, pairs, capacity, seconds, whole=True)
    if np.isnan(gain):
        return undecided("the time for the integer program was used up")
    if gain <= enough:
        return Verdict(True, reason="no integer program finds a gain")
    return Verdict(False, {"tenant": problem.tenants[worst], "size": gain})


def _largest_gain(
    allocation: Allocation,
    classes: ServerClasses,
    pairs: IntArray,
    capacity: FloatArray,
    seconds: float,
    *,
    whole: bool,
) -> tuple[float, int]:
    """Return the largest sum of shares gained without a loss of any tenant, and the largest gainer.

    NaN if there is no answer.
    """
    problem = allocation.problem
    j, c = pairs[:, 0], pairs[:, 1]
    size = len(pairs)
    share = compared_units(problem, allocation.choice).per_task[j]
    at = np.arange(size)
    of_tenant = sp.csr_matrix((share, (problem.workload_tenant[j], at)), (problem.t, size))
    of_workload = sp.csr_matrix((np.ones(size), (j, at)), (problem.n, size))
    rows = [
        sp.csr_matrix((problem.demand[j, r], (c, at)), (len(capacity), size))
        for r in range(problem.m)
    ]
    scale = np.where(capacity > 0, capacity, 1.0)
    resources = sp.vstack(
        [sp.diags(1 / scale[:, r]) @ rows[r] for r in range(problem.m)], format="csr"
    )
    own = compared_shares(allocation)
    bounded, amounts = _limits(problem, classes, pairs)
    result = milp(
        -share,
        integrality=np.full(size, int(whole)),
        bounds=Bounds(0, np.inf),
        constraints=[
            LinearConstraint(resources, -np.inf, (capacity > 0).T.ravel() * 1.0),
            LinearConstraint(of_tenant, own * (1 - 1e-9), np.inf),
            LinearConstraint(of_workload, -np.inf, problem.tasks),
            LinearConstraint(bounded, -np.inf, amounts),
        ],
        options={"time_limit": max(seconds, 0.1), "mip_rel_gap": 0.0},
    )
    if result.x is None:
        return float("nan"), 0
    gains = of_tenant @ result.x - own
    total = float(gains.sum())
    # A search that ended early still shows a gain, but never that there is none.
    if result.status != 0 and total <= SHARE_TOLERANCE:
        return float("nan"), 0
    return total, int(gains.argmax())


def _limits(
    problem: Problem, classes: ServerClasses, pairs: IntArray
) -> tuple[sp.csr_matrix, FloatArray]:
    """Return what one task of each pair takes of each amount (r, p), and the amounts (r,)."""
    rows, amounts = [sp.csr_matrix((0, len(pairs)))], []
    for item in problem.limited:
        below = np.zeros(problem.n, dtype=np.bool_)
        below[item.workloads] = True
        counted = below[pairs[:, 0]] & item.rows[classes.first_row][pairs[:, 1]]
        for r in np.flatnonzero(item.limited).tolist():
            rows.append(
                sp.csr_matrix(np.where(counted, problem.demand[pairs[:, 0], r], 0.0)[None, :])
            )
            amounts.append(float(item.limit.amount[r]))
    return sp.vstack(rows, format="csr"), np.array(amounts)
