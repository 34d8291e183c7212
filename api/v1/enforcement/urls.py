from django.urls import path

from api.v1.enforcement.views import EnforcementView, EntitlementsView, RenderingView

urlpatterns = [
    path("pools/<str:pool>/enforcement/", EnforcementView.as_view(), name="enforcement"),
    path("pools/<str:pool>/entitlements/", EntitlementsView.as_view(), name="entitlements"),
    path(
        "pools/<str:pool>/decision/renderings/<str:target>/",
        RenderingView.as_view(),
        name="rendering",
    ),
]
