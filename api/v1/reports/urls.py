from django.urls import path

from api.v1.reports.views import (
    FairnessView,
    LendingView,
    SharingDegreeView,
    UtilizationView,
)

VIEWS = (SharingDegreeView, FairnessView, UtilizationView, LendingView)

urlpatterns = [
    path(f"pools/<str:pool>/reports/{view.name}/", view.as_view(), name=f"report-{view.name}")
    for view in VIEWS
]
