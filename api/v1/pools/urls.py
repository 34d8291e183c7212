from django.urls import path

from api.v1.pools.views import OnePoolView, PoolsView

urlpatterns = [
    path("pools/", PoolsView.as_view(), name="pools"),
    path("pools/<str:pool>/", OnePoolView.as_view(), name="pool"),
]
