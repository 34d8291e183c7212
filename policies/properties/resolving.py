"""Properties that need answers to other problems, without a tenant or with a misreport.

Sources: Ghodsi et al., NSDI 2011, §3 (population monotonicity, strategy-proofness); Tang et al.,
TPDS 2018, Example 2 (claiming more tasks than one has).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.errors import PolicyError, SolveTimeoutError
from policies.model.allocation import Allocation
from policies.model.history import History
from policies.model.limits import Amount
from policies.model.problem import Problem
from policies.model.tolerance import CHANGE_TOLERANCE
from policies.properties.bundles import Bundles, attainable, bundles_of
from policies.properties.fairness import counts_whole, takes_part
from policies.properties.shares import compared_shares, compared_units
from policies.properties.verdicts import Verdict, undecided
from policies.registry import solve

Progress = Callable[[int, int], None]

MOST_SOLVES = 2_000
SCALES = (0.5, 0.8, 1.25, 2.0)
INFLATIONS = (0.25, 0.5, 1.0)
CLAIMS = (1.25, 1.4, 2.0)


@dataclass
class Budget:
    """Seconds for solving again, and the progress callback."""

    deadline: float
    progress: Progress | None = None
    done: int = 0
    total: int = 0

    @classmethod
    def of(
        cls, seconds: float, progress: Progress | None = None, done: int = 0, total: int = 0
    ) -> Budget:
        """Return a budget that starts now.

        ``done`` of ``total`` solves were made by others before.
        """
        return cls(time.monotonic() + seconds, progress, done, total)

    def solve(
        self, allocation: Allocation, problem: Problem, history: History | None
    ) -> Allocation | None:
        """Return the same policy's answer to another problem.

        None if the time is used up.
        """
        left = self.deadline - time.monotonic()
        if left <= 0 or self.done >= MOST_SOLVES:
            return None
        try:
            answer = solve(
                problem,
                allocation.policy.name,
                mode=allocation.mode,
                options=allocation.options,
                time_limit=left,
                history=history,
            )
        except SolveTimeoutError:
            return None
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)
        return answer


def population_monotonic(
    allocation: Allocation, budget: Budget, history: History | None = None
) -> Verdict:
    """Check that no tenant has less when another leaves and its servers become the pool's own.

    Args:
        allocation: what is judged; budget: for one solve per tenant.
        history: what was remembered before the step, of a long-term policy.
    """
    problem = allocation.problem
    leaving = np.flatnonzero(takes_part(allocation)).tolist()
    if len(leaving) < 2:
        return undecided("there are no two tenants")
    budget.total += len(leaving)
    worst, loss = None, 0.0
    for count, i in enumerate(leaving):
        answer = budget.solve(
            allocation, without_tenant(problem, i), None if history is None else _drop(history, i)
        )
        if answer is None:
            # A loss that was found decides, though a larger one may not have been tried.
            if worst is not None:
                break
            return undecided(f"the budget was used up after {count} of {len(leaving)} tenants")
        before = np.delete(compared_shares(allocation), i)
        change = np.delete(takes_part(allocation), i) * (before - compared_shares(answer))
        loser = int(change.argmax())
        if change[loser] > max(loss, CHANGE_TOLERANCE * before[loser]):
            loss = float(change[loser])
            names = [name for position, name in enumerate(problem.tenants) if position != i]
            worst = {"tenant": names[loser], "other": problem.tenants[i], "size": loss}
    return Verdict(True) if worst is None else Verdict(False, worst)


def without_tenant(problem: Problem, tenant: int) -> Problem:
    """Return the problem after a tenant has left.

    Its servers stay, as the pool's own.
    """
    stays = problem.workload_tenant != tenant
    kept = np.arange(problem.t) != tenant
    owner = problem.contributed_by.copy()
    owner[owner == tenant] = -1
    return replace(
        problem,
        tenants=tuple(name for i, name in enumerate(problem.tenants) if i != tenant),
        weight=problem.weight[kept],
        best_effort=problem.best_effort[kept],
        tenant_group=problem.tenant_group[kept],
        tenant_tier=problem.tenant_tier[kept],
        deficit=problem.deficit[kept],
        contributed_by=owner - (owner > tenant),
        workload_tenant=(problem.workload_tenant - (problem.workload_tenant > tenant))[stays],
        workload_names=tuple(np.array(problem.workload_names, dtype=object)[stays]),
        demand=problem.demand[stays],
        tasks=problem.tasks[stays],
        priority=problem.priority[stays],
        selectors=tuple(row for row, stay in zip(problem.selectors, stays, strict=True) if stay),
        limits=_amounts_without(problem.limits, kept, stays),
        guarantees=_amounts_without(problem.guarantees, kept, stays),
        own_servers=problem.own_servers[kept],
        part_of=np.full(int(stays.sum()), -1, dtype=np.int64),
        kept=np.zeros(int(kept.sum()), dtype=np.bool_),
    )


def strategy_proof(
    allocation: Allocation,
    budget: Budget,
    history: History | None = None,
    *,
    task_count: bool = False,
) -> Verdict:
    """Check that no misreport lets a tenant run more true tasks within its true limit.

    The misreports that are tried, tenant by tenant, are each entry of the demand scaled, and zero or
    non-dominant entries inflated up to the dominant one.

    Args:
        allocation: the truthful answer; budget: for one solve per misreport.
        history: what was remembered before the step, of a long-term policy.
        task_count: try claims of more tasks than there are instead, which count as run.

    Returns:
        The best gain found, with the misreport; True if none of those tried pays.
    """
    problem = allocation.problem
    worst, best, tried = None, 0.0, 0
    shares = compared_shares(allocation)
    lies = [
        (i, label, demand)
        for i in np.flatnonzero(takes_part(allocation)).tolist()
        for label, demand in (_claims(problem, i) if task_count else _misreports(problem, i))
    ]
    budget.total += len(lies)
    for i, label, lie in lies:
        reported = replace(problem, tasks=lie) if task_count else replace(problem, demand=lie)
        try:
            answer = budget.solve(allocation, reported, history)
        except PolicyError:
            continue  # a lie that the policy refuses gains nothing
        if answer is None:
            # As above: a gain that was found decides.
            if worst is not None:
                break
            return undecided(f"the budget was used up after {tried} of {len(lies)} misreports")
        tried += 1
        has = float(shares[i])
        got = compared_shares(answer)[i] if task_count else _true_share(answer, problem, i)
        gain = got - has
        if gain > max(best, CHANGE_TOLERANCE * has):
            best = float(gain)
            worst = {"tenant": problem.tenants[i], "size": best, "misreport": label}
    if worst is not None:
        return Verdict(False, worst)
    return Verdict(True, reason=f"none of {tried} misreports pays")


def _true_share(answer: Allocation, problem: Problem, tenant: int) -> float:
    """Return the worth of a misreport's resources, in true tasks within the true limit."""
    bundles = bundles_of(answer)
    mine = bundles.owner == tenant
    got = Bundles(
        owner=np.zeros(int(mine.sum()), dtype=np.int64),
        server_class=bundles.server_class[mine],
        amount=bundles.amount[mine],
        times=bundles.times[mine],
    )
    lower, _ = attainable(
        problem,
        compared_units(problem, answer.choice),
        answer.classes.allowed,
        got,
        whole=counts_whole(answer),
        scale=np.ones(problem.t),
        per_owner=np.ones(1),
    )
    return float(lower[tenant, 0])


def _amounts_without(
    amounts: tuple[Amount, ...], tenants: BoolArray, workloads: BoolArray
) -> tuple[Amount, ...]:
    """Return limits or guarantees of groups, and of what stays of the others, renumbered."""
    of_tenant = np.where(tenants, np.cumsum(tenants) - 1, -1)
    of_workload = np.where(workloads, np.cumsum(workloads) - 1, -1)
    position = {"tenant": of_tenant, "lend": of_tenant, "workload": of_workload}
    kept = []
    for each in amounts:
        node = each.node if each.scope == "group" else int(position[each.scope][each.node])
        if node >= 0:
            kept.append(replace(each, node=node))
    return tuple(kept)


def _misreports(problem: Problem, tenant: int) -> Iterator[tuple[str, FloatArray]]:
    """Labels and (n, m) demands with the tenant's changed."""
    mine = problem.workload_tenant == tenant
    true = problem.demand[mine]
    for r, name in enumerate(problem.resources):
        for factor in SCALES:
            if (true[:, r] > 0).any():
                yield f"{name} × {factor:g}", _with(problem, mine, r, true[:, r] * factor)
        for part in INFLATIONS:
            inflated = part * problem.dominant_share_per_task[mine] * problem.totals[r]
            if (inflated > true[:, r]).any():
                label = f"{name} up to {part:g} of the dominant share"
                yield label, _with(problem, mine, r, np.maximum(true[:, r], inflated))


def _with(
    problem: Problem, mine: np.ndarray[tuple[int], np.dtype[np.bool_]], r: int, column: FloatArray
) -> FloatArray:
    demand = problem.demand.copy()
    demand[mine, r] = column
    return demand


def _claims(problem: Problem, tenant: int) -> Iterator[tuple[str, FloatArray]]:
    mine = (problem.workload_tenant == tenant) & np.isfinite(problem.tasks) & (problem.tasks > 0)
    for factor in CLAIMS:
        if mine.any():
            tasks = problem.tasks.copy()
            tasks[mine] = np.ceil(tasks[mine] * factor)
            yield f"tasks × {factor:g}", tasks


def _drop(history: History, tenant: int) -> History:
    literal = history.literal_alone
    return replace(
        history,
        used=np.delete(history.used, tenant, axis=0),
        alone=np.delete(history.alone, tenant, axis=0),
        waiting=np.delete(history.waiting, tenant),
        literal_alone=None if literal is None else np.delete(literal, tenant, axis=0),
    )
