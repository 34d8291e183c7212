"""The tenants' pages."""

from django.urls import URLPattern, path, re_path

from api.pages.amounts import KINDS
from api.pages.backtests import (
    BacktestPage,
    BacktestsPage,
    CancelBacktestView,
    StartBacktestPage,
)
from api.pages.budgets import BudgetPage, BudgetsPage
from api.pages.changes import (
    ChangePage,
    ChangeWorkloadPage,
    SubmitWorkloadPage,
    WithdrawWorkloadView,
)
from api.pages.comparisons import ComparisonPage
from api.pages.groups import GroupPage
from api.pages.history import HistoryPage
from api.pages.live import StatePage
from api.pages.mail import ConfirmMailPage, EndMailPage, EndMailView, MailPage
from api.pages.pools import MyPoolsPage, PoolOverviewPage
from api.pages.signing_in import ChooseTenantPage, SignInView, SignOutView
from api.pages.signing_in_by_provider import BeginView, ProviderSignOutView, ReturnView
from api.pages.statements import ProofFile, StatementPage, StatementsPage
from api.pages.subtree_changes import AmountsPage, ChangeTermsView
from api.pages.subtrees import (
    SubtreeMemberPage,
    SubtreeStatementPage,
    SubtreeView,
)
from api.pages.views import NothingPage
from api.pages.workloads import WhyPage, WorkloadsPage

_POOL = "my/pools/<str:pool>/"


def _amounts_below(page: str, name: str) -> list[URLPattern]:
    """Return the pages of each kind of amount of a node, below the node's own page."""
    return [
        path(
            f"{page}{kind.plural}/",
            AmountsPage.as_view(kind=kind),
            name=f"{name}-{kind.plural}",
        )
        for kind in KINDS
        if kind.is_set_here
    ]


def _budgets_below(page: str, name: str) -> list[URLPattern]:
    """Return the pages of the budgets of a node, below the node's own page."""
    return [
        path(f"{page}budgets/", BudgetsPage.as_view(), name=f"{name}-budgets"),
        path(f"{page}budgets/<str:budget>/", BudgetPage.as_view(), name=f"{name}-budget"),
    ]


urlpatterns = [
    path("sign-in/", SignInView.as_view(), name="sign-in"),
    path("sign-in/oidc/", BeginView.as_view(), name="sign-in-by-provider"),
    path("sign-in/oidc/callback/", ReturnView.as_view(), name="back-from-provider"),
    path("sign-out/", SignOutView.as_view(), name="sign-out"),
    path("sign-out/oidc/", ProviderSignOutView.as_view(), name="sign-out-of-provider"),
    path("my/", MyPoolsPage.as_view(), name="my-pools"),
    path("my/tenant/", ChooseTenantPage.as_view(), name="my-tenant"),
    path("my/mail/", MailPage.as_view(), name="my-mail"),
    path("my/mail/<uuid:subscription>/end/", EndMailView.as_view(), name="my-mail-end"),
    path("mail/confirm/<str:token>/", ConfirmMailPage.as_view(), name="mail-confirm"),
    path("mail/end/<str:token>/", EndMailPage.as_view(), name="mail-end"),
    path("my/backtests/", BacktestsPage.as_view(), name="my-backtests"),
    path("my/backtests/start/", StartBacktestPage.as_view(), name="my-backtest-start"),
    path("my/backtests/<str:backtest>/", BacktestPage.as_view(), name="my-backtest"),
    path(
        "my/backtests/<str:backtest>/cancel/",
        CancelBacktestView.as_view(),
        name="my-backtest-cancel",
    ),
    path("my/group/", SubtreeView.as_view(), name="my-subtree"),
    path("my/groups/<str:group>/", SubtreeView.as_view(), name="my-subgroup"),
    path(
        "my/groups/<str:group>/statements/<str:month>/",
        SubtreeStatementPage.as_view(),
        name="my-group-statement",
    ),
    path("my/members/<str:tenant>/", SubtreeMemberPage.as_view(), name="my-member"),
    path("my/terms/", ChangeTermsView.as_view(), name="my-terms"),
    *_amounts_below("my/groups/<str:group>/", "my-subgroup"),
    *_amounts_below("my/members/<str:tenant>/", "my-member"),
    *_budgets_below("my/groups/<str:group>/", "my-subgroup"),
    *_budgets_below("my/members/<str:tenant>/", "my-member"),
    path(_POOL, PoolOverviewPage.as_view(), name="my-pool"),
    path(f"{_POOL}workloads/", WorkloadsPage.as_view(), name="my-workloads"),
    path(f"{_POOL}workloads/submit/", SubmitWorkloadPage.as_view(), name="my-submit"),
    path(
        f"{_POOL}workloads/<str:workload>/change/",
        ChangeWorkloadPage.as_view(),
        name="my-workload-change",
    ),
    path(
        f"{_POOL}workloads/<str:workload>/withdraw/",
        WithdrawWorkloadView.as_view(),
        name="my-workload-withdraw",
    ),
    path(f"{_POOL}changes/<str:change>/", ChangePage.as_view(), name="my-change"),
    path(f"{_POOL}groups/<str:group>/", GroupPage.as_view(), name="my-group"),
    path(f"{_POOL}history/", HistoryPage.as_view(), name="my-history"),
    path(f"{_POOL}state/", StatePage.as_view(), name="my-state"),
    path(f"{_POOL}why/", WhyPage.as_view(), name="my-why"),
    path(f"{_POOL}policies/", ComparisonPage.as_view(), name="my-comparison"),
    path(f"{_POOL}statements/", StatementsPage.as_view(), name="my-statements"),
    path(f"{_POOL}statements/<str:month>/", StatementPage.as_view(), name="my-statement"),
    path(f"{_POOL}decisions/<str:run>/proof/", ProofFile.as_view(), name="my-proof"),
    re_path("^(?:my|mail|sign-in|sign-out)/", NothingPage.as_view(), name="my-nothing"),
]
