"""The tenants' pages."""

from django.urls import path, re_path

from api.pages.pools import MyPoolsPage, PoolOverviewPage
from api.pages.signing_in import SignInView, SignOutView
from api.pages.statements import ProofFile, StatementPage, StatementsPage
from api.pages.views import NothingPage
from api.pages.workloads import WhyPage, WorkloadsPage

_POOL = "my/pools/<str:pool>/"

urlpatterns = [
    path("sign-in/", SignInView.as_view(), name="sign-in"),
    path("sign-out/", SignOutView.as_view(), name="sign-out"),
    path("my/", MyPoolsPage.as_view(), name="my-pools"),
    path(_POOL, PoolOverviewPage.as_view(), name="my-pool"),
    path(f"{_POOL}workloads/", WorkloadsPage.as_view(), name="my-workloads"),
    path(f"{_POOL}why/", WhyPage.as_view(), name="my-why"),
    path(f"{_POOL}statements/", StatementsPage.as_view(), name="my-statements"),
    path(f"{_POOL}statements/<str:month>/", StatementPage.as_view(), name="my-statement"),
    path(f"{_POOL}decisions/<str:run>/proof/", ProofFile.as_view(), name="my-proof"),
    re_path("^(?:my|sign-in|sign-out)/", NothingPage.as_view(), name="my-nothing"),
]
