from django.urls import path

from api.v1.statements.groups import GroupStatementsView, GroupStatementView
from api.v1.statements.views import (
    FocusView,
    ManifestView,
    MonthEntriesView,
    MonthVerifyView,
    MonthView,
    StatementsView,
    StatementView,
)

_POOL = "pools/<str:pool>"

urlpatterns = [
    path(f"{_POOL}/statements/", StatementsView.as_view(), name="statements"),
    path(
        f"{_POOL}/statements/<str:month>/<str:tenant>/", StatementView.as_view(), name="statement"
    ),
    path(
        f"{_POOL}/groups/<str:group>/statements/",
        GroupStatementsView.as_view(),
        name="group-statements",
    ),
    path(
        f"{_POOL}/groups/<str:group>/statements/<str:month>/",
        GroupStatementView.as_view(),
        name="group-statement",
    ),
    path(f"{_POOL}/months/<str:month>/", MonthView.as_view(), name="month"),
    path(f"{_POOL}/months/<str:month>/manifest/", ManifestView.as_view(), name="manifest"),
    path(f"{_POOL}/months/<str:month>/verify/", MonthVerifyView.as_view(), name="month-verify"),
    path(f"{_POOL}/months/<str:month>/focus/", FocusView.as_view(), name="focus"),
    path(f"{_POOL}/months/<str:month>/entries/", MonthEntriesView.as_view(), name="month-entries"),
]
