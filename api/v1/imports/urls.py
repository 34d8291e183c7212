from django.urls import path

from api.v1.imports.views import NodeImportsView, UsageImportsView, WorkloadImportsView

urlpatterns = [
    path("pools/<str:pool>/imports/nodes/", NodeImportsView.as_view(), name="import-nodes"),
    path("pools/<str:pool>/imports/usage/", UsageImportsView.as_view(), name="import-usage"),
    path(
        "pools/<str:pool>/imports/workloads/",
        WorkloadImportsView.as_view(),
        name="import-workloads",
    ),
]
