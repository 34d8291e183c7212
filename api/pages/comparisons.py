"""A tenant's tasks under other policies, computed in the background from the decision in force."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.allocation.policies import policy_is_divisible, policy_title
from allocator_service.backtests.comparisons import (
    FAILED,
    TOOK_TOO_LONG,
    PolicyColumn,
    comparison_request,
    tenant_comparison,
)
from allocator_service.core.clock import utc_now
from allocator_service.enforcement.selectors import decision_in_force
from api.pages.parts import tenant_decision
from api.pages.views import PoolPage
from api.v1.run_inputs import sees_whole

_REFUSALS = {
    "policy.no_groups": "It does not decide by groups or tiers, which this pool has.",
    "policy.no_limits": "It does not keep limits, which this pool has.",
    "policy.no_guarantees": "It does not keep guarantees, which this pool has.",
    "policy.no_placement": "It sees one big server, and this pool has work for certain servers.",
    "policy.no_kept_tasks": "It does not keep running tasks on their servers, as this pool does.",
    "policy.options": "Its settings do not suit the servers and resources of this pool.",
    "workload.pieces": "It does not run the gangs of this pool: tasks whose parts start together.",
    "problem.too_large": "This pool has more tasks or servers than it can decide.",
    "solve.failed": "It found no exact answer: amounts in this pool are too far apart.",
    TOOK_TOO_LONG: "It did not finish in the time that it had.",
    FAILED: "It failed on this pool. Your operator finds the cause in the log of the service.",
}
_OTHER_REFUSAL = "It refused this pool ({code}). Your operator can look the code up."
_SAME = 1e-6


@dataclass(frozen=True)
class PolicyRow:
    """The tenant's tasks under a policy, in all and by workload, or the reason without any.

    `is_divisible` is true for divisible shares beside a decision of whole tasks.
    """

    title: str
    total: float
    more: float
    by_workload: Sequence[tuple[str, float]]
    is_divisible: bool
    refusal: str

    @property
    def less(self) -> float:
        """Tasks fewer than now, of all workloads."""
        return -self.more


class ComparisonPage(PoolPage):
    """Page `/my/pools/{pool}/policies/` of the tenant's tasks under each policy.

    Looking at it requests a comparison of the decision in force. A worker computes it.
    """

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        now, of_pool = utc_now(), self.pool
        # What the tenant would get elsewhere depends on the demands of all others.
        if not sees_whole(of_pool, self.tenant):
            return self.shown("comparison", pool=of_pool, hidden=True)
        run = decision_in_force(pool=of_pool, now=now)
        if run is None:
            return self.shown("comparison", pool=of_pool)
        # Idempotent: a comparison of this decision that waits or exists is not computed again.
        comparison_request(pool=of_pool, run=run, now=now)
        found = tenant_comparison(pool=of_pool, tenant=self.tenant)
        columns = [] if found is None else found.columns
        workloads = list(columns[0].tasks) if columns else []
        compared = None if found is None else found.run
        whole_tasks = compared is not None and compared.policy["mode"] == "indivisible"
        # The first column is the decision itself, which all others are compared with.
        rows = [_row(each, columns[0], workloads, whole_tasks=whole_tasks) for each in columns]
        return self.shown(
            "comparison",
            pool=of_pool,
            decision=tenant_decision(pool=of_pool, run=run, tenant=self.tenant, now=now),
            found=found,
            waits=found is not None and found.pending,
            workloads=workloads,
            present=rows[0] if rows else None,
            rows=rows[1:],
        )


def refusal_text(code: str) -> str:
    """Return why a policy has no answer for a pool, by the code of its error."""
    if not code:
        return ""
    return _REFUSALS.get(code) or _OTHER_REFUSAL.format(code=code)


def _row(
    column: PolicyColumn, decided: PolicyColumn, workloads: Sequence[str], *, whole_tasks: bool
) -> PolicyRow:
    total, before = (sum(each.tasks.values()) for each in (column, decided))
    more = total - before
    return PolicyRow(
        title=policy_title(column.name),
        total=total,
        # Divisible shares of two policies differ in their last digits even where they agree.
        more=0.0 if abs(more) <= _SAME * max(before, 1.0) else more,
        by_workload=[(name, column.tasks[name]) for name in workloads],
        is_divisible=whole_tasks and policy_is_divisible(column.name),
        refusal=refusal_text(column.error),
    )
