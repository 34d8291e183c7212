from django.urls import path

from api.v1.reports.views import SharingDegreeView

urlpatterns = [
    path(
        "pools/<str:pool>/reports/sharing-degree/",
        SharingDegreeView.as_view(),
        name="report-sharing-degree",
    ),
]
