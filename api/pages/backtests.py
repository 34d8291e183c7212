"""Pages of a tenant's backtests, with the policies side by side."""

from http import HTTPStatus

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.backtests.answers import label_of
from allocator_service.backtests.forms import BacktestForm
from allocator_service.backtests.models import OPEN, Backtest, BacktestStatus
from allocator_service.backtests.reports import shown
from allocator_service.backtests.selectors import Holder, backtest_get, backtests_of, percent
from allocator_service.backtests.services import backtest_cancel
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import pools_for
from api.contract.fields import uuid_or_none
from api.contract.pagination import by_id
from api.pages.views import TenantPage, see
from api.v1.backtests import backtest_ask

_BACKTESTS = by_id("my-backtests", descending=True)
BACKTESTS_SHOWN = 50
_STATUS_TEXTS = {
    BacktestStatus.QUEUED: "waits for a worker",
    BacktestStatus.RUNNING: "is being computed",
    BacktestStatus.SUCCEEDED: "is done",
    BacktestStatus.FAILED: "failed",
    BacktestStatus.CANCELLED: "was cancelled",
}


class _BacktestPage(TenantPage):
    """Return the backtests that the visitor may see.

    These are the key's own after a sign-in by key, and the tenant's for a person.
    """

    @property
    def holder(self) -> Holder:
        if self.visitor.user:
            return Holder(tenant_id=self.tenant.pk, user=self.visitor.user)
        return Holder(self.caller.holder_id)


class BacktestsPage(_BacktestPage):
    """Page `/my/backtests/` of the backtests that the visitor may see, newest first."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        page = _BACKTESTS.page(
            # A result can be megabytes, and a row of the list shows none of it.
            backtests_of(self.holder).defer("result"),
            cursor=request.GET.get("cursor"),
            limit=BACKTESTS_SHOWN,
        )
        return self.shown(
            "backtests",
            rows=[_row(backtest) for backtest in page.rows],
            next_cursor=page.next_cursor,
        )


class StartBacktestPage(_BacktestPage):
    """Page `/my/backtests/start/` of the form that starts a backtest, with its errors."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponseBase:
        return self._form(BacktestForm(pools=pools_for(self.tenant), label_suffix=""))

    def post(self, request: HttpRequest) -> HttpResponseBase:
        form = BacktestForm(
            request.POST, request.FILES, pools=pools_for(self.tenant), label_suffix=""
        )
        if not form.is_valid():
            return self._form(form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
        pool: Pool | None = form.cleaned_data["pool"]
        try:
            made = backtest_ask(
                holder=self.holder,
                tenant=self.tenant,
                pool=None if pool is None else pool.slug,
                price_plan=None,
                asked=form.asked(),
                now=utc_now(),
            )
        except DomainError as error:
            form.refused(error)
            return self._form(form, status=error.status)
        return see("my-backtest", made.pk)

    def _form(self, form: BacktestForm, *, status: int = HTTPStatus.OK) -> HttpResponseBase:
        return self.shown("start_backtest", status=status, form=form, file_sent=bool(form.files))


class BacktestPage(_BacktestPage):
    """Page `/my/backtests/<id>/` of a backtest. Those of others answer 404."""

    def get(self, request: HttpRequest, backtest: str) -> HttpResponseBase:
        found = backtest_get(backtest_id=uuid_or_none(backtest), holder=self.holder)
        done = shown(found) if found.status == BacktestStatus.SUCCEEDED else {}
        content = {**done, "backtest": found}
        return self.shown("backtest", row=_row(found), waits=found.status in OPEN, **content)


class CancelBacktestView(_BacktestPage):
    """Action `/my/backtests/<id>/cancel/`, by POST alone."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, backtest: str) -> HttpResponseBase:
        found = backtest_get(backtest_id=uuid_or_none(backtest), holder=self.holder)
        backtest_cancel(backtest=found, now=utc_now())
        return see("my-backtest", found.pk)


def _row(backtest: Backtest) -> dict[str, object]:
    return {
        "backtest": backtest,
        "status_text": _STATUS_TEXTS[BacktestStatus(backtest.status)],
        "percent": percent(backtest),
        "open": backtest.status in OPEN,
        "policies": ", ".join(label_of(each) for each in backtest.spec["policies"]),
        "why": (backtest.error or {}).get("detail", ""),
        "by": str(backtest.key or backtest.started_by),
    }
