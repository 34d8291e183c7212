from django.urls import path

from api.v1.billing.views import (
    BudgetsView,
    BudgetView,
    CreditNotesView,
    ReratingsView,
    ReverseView,
    ServiceUnitsView,
)

_POOL = "pools/<str:pool>"

urlpatterns = [
    path(f"{_POOL}/reratings/", ReratingsView.as_view(), name="reratings"),
    path(f"{_POOL}/credit-notes/", CreditNotesView.as_view(), name="credit-notes"),
    path(
        f"{_POOL}/credit-notes/<str:credit_note>/reverse/",
        ReverseView.as_view(),
        name="credit-note-reverse",
    ),
    path(f"{_POOL}/budgets/", BudgetsView.as_view(), name="budgets"),
    path(f"{_POOL}/budgets/<str:budget>/", BudgetView.as_view(), name="budget"),
    path(f"{_POOL}/service-units/", ServiceUnitsView.as_view(), name="service-units"),
]
