from django.urls import path

from api.v1.decisions.views import DecisionView, PoolAllocationsView, PoolPlacementsView

urlpatterns = [
    path("pools/<str:pool>/decision/", DecisionView.as_view(), name="decision"),
    path("pools/<str:pool>/allocations/", PoolAllocationsView.as_view(), name="allocations"),
    path("pools/<str:pool>/placements/", PoolPlacementsView.as_view(), name="placements"),
]
