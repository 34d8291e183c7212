from django.urls import path

from api.v1.reports.views import (
    BillingView,
    FairnessView,
    LendingView,
    SharingDegreeView,
    UtilizationView,
)

VIEWS = (SharingDegreeView, FairnessView, UtilizationView, LendingView, BillingView)

urlpatterns = [
    path(f"pools/<str:pool>/reports/{name}/", view.as_view(), name=f"report-{name}")
    for name, view in ((view.report.name, view) for view in VIEWS)
]
