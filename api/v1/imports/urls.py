from django.urls import path

from api.v1.imports.views import (
    GroupImportsView,
    NodeImportsView,
    UsageImportsView,
    WorkloadImportsView,
)

urlpatterns = [
    path("pools/<str:pool>/imports/groups/", GroupImportsView.as_view(), name="import-groups"),
    path("pools/<str:pool>/imports/nodes/", NodeImportsView.as_view(), name="import-nodes"),
    path("pools/<str:pool>/imports/usage/", UsageImportsView.as_view(), name="import-usage"),
    path(
        "pools/<str:pool>/imports/workloads/",
        WorkloadImportsView.as_view(),
        name="import-workloads",
    ),
]
