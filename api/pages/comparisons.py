"""A tenant's tasks under other policies, computed in the background from the decision in force."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.allocation.policies import policy_title
from allocator_service.backtests.comparisons import (
    TOOK_TOO_LONG,
    PolicyColumn,
    comparison_request,
    tenant_comparison,
)
from allocator_service.core.clock import utc_now
from allocator_service.enforcement.selectors import decision_in_force
from api.pages.parts import decision_said
from api.pages.views import PoolPage
from api.v1.run_inputs import sees_whole

_REFUSALS = {
    "policy.no_groups": "It does not decide by groups, which this pool has.",
    "policy.no_limits": "It does not keep limits, which this pool has.",
    "policy.no_guarantees": "It does not keep guarantees, which this pool has.",
    "policy.no_placement": "It does not tell servers apart, and this pool has work for certain servers.",
    TOOK_TOO_LONG: "It did not finish in the time that it had.",
}
_OTHER_REFUSAL = "It cannot decide this pool."
_SAME = 1e-6


@dataclass(frozen=True)
class PolicyRow:
    """The tenant's tasks under a policy: of all workloads and of each, or why there are none."""

    title: str
    total: float
    more: float
    tasks: Sequence[float]
    refusal: str

    @property
    def less(self) -> float:
        """Tasks fewer than now, of all workloads."""
        return -self.more


class ComparisonPage(PoolPage):
    """`/my/pools/{pool}/policies/`: in transparent pools, the tenant's own tasks.

    Looking at it requests a comparison of the decision in force. A worker computes it.
    """

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        now, of_pool = utc_now(), self.pool
        if not sees_whole(of_pool, self.tenant):
            return self.shown("comparison", pool=of_pool, hidden=True)
        run = decision_in_force(pool=of_pool, now=now)
        if run is None:
            return self.shown("comparison", pool=of_pool)
        comparison_request(pool=of_pool, run=run, now=now)
        found = tenant_comparison(pool=of_pool, tenant=self.tenant)
        columns = [] if found is None else found.columns
        workloads = list(columns[0].tasks) if columns else []
        return self.shown(
            "comparison",
            pool=of_pool,
            decision=decision_said(pool=of_pool, run=run, tenant=self.tenant, now=now),
            found=found,
            workloads=workloads,
            present=_row(columns[0], columns[0], workloads) if columns else None,
            rows=[_row(each, columns[0], workloads) for each in columns[1:]],
        )


def _row(column: PolicyColumn, decided: PolicyColumn, workloads: Sequence[str]) -> PolicyRow:
    total, before = (sum(each.tasks.values()) for each in (column, decided))
    more = total - before
    return PolicyRow(
        title=policy_title(column.name),
        total=total,
        more=0.0 if abs(more) <= _SAME * max(before, 1.0) else more,
        tasks=[column.tasks[name] for name in workloads],
        refusal=_REFUSALS.get(column.error, _OTHER_REFUSAL) if column.error else "",
    )
