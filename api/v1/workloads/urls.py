from django.urls import path

from api.v1.workloads.views import WorkloadsView, WorkloadView

urlpatterns = [
    path("pools/<str:pool>/workloads/", WorkloadsView.as_view(), name="workloads"),
    path("pools/<str:pool>/workloads/<str:workload>/", WorkloadView.as_view(), name="workload"),
]
