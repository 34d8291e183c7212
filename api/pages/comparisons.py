"""What other policies would give a tenant: the decision in force, computed again under each."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.allocation.selectors import input_of
from allocator_service.backtests.side_by_side import side_by_side
from allocator_service.core.clock import utc_now
from allocator_service.enforcement.selectors import decision_in_force
from api.pages.parts import decision_said
from api.pages.views import PoolPage
from api.v1.evaluations import admitted_evaluation
from api.v1.run_inputs import input_for, sees_whole


class ComparisonPage(PoolPage):
    """`/my/pools/{pool}/policies/`: in transparent pools, with pseudonyms for the others.

    It computes, within the limits of an evaluation.
    """

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        now, of_pool = utc_now(), self.pool
        if not sees_whole(of_pool, self.tenant):
            return self.shown("comparison", pool=of_pool, hidden=True)
        run = decision_in_force(pool=of_pool, now=now)
        if run is None:
            return self.shown("comparison", pool=of_pool)
        document = input_for(input_of(run), pool=of_pool, caller=self.tenant)
        with admitted_evaluation(self.caller):
            found = side_by_side(document, first=self.tenant.slug)
        said = decision_said(pool=of_pool, run=run, tenant=self.tenant, now=now)
        return self.shown("comparison", pool=of_pool, decision=said, **found)
