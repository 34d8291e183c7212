from django.urls import path

from api.v1.ledger.views import BlocksView, CorrectionsView, EntriesView, ExportView, UsageView

urlpatterns = [
    path("pools/<str:pool>/usage/", UsageView.as_view(), name="usage"),
    path("ledger-entries/", EntriesView.as_view(), name="ledger-entries"),
    path("ledger-blocks/", BlocksView.as_view(), name="ledger-blocks"),
    path("ledger-entries/export/", ExportView.as_view(), name="ledger-export"),
    path(
        "ledger-entries/<str:entry>/corrections/",
        CorrectionsView.as_view(),
        name="ledger-corrections",
    ),
]
