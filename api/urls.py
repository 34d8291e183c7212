"""Operations at the root, the contract under /api/v1/, the tenants' pages under /my/."""

from django.urls import include, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from api.health import HealthView, MetricsView, ReadinessView
from api.openapi.serving import SchemaView
from api.root import LandingView, RootView

urlpatterns = [
    path("", LandingView.as_view(), name="landing"),
    path("healthz", HealthView.as_view(), name="healthz"),
    path("readyz", ReadinessView.as_view(), name="readyz"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    path("api/v1/schema/", SchemaView.as_view(), name="schema"),
    path(
        "api/v1/docs/",
        SpectacularSwaggerSplitView.as_view(url_name="schema", authentication_classes=[]),
        name="docs",
    ),
    path("api/v1/", RootView.as_view(), name="root"),
    path("api/v1/", include("api.v1.urls")),
    path("", include("api.pages.urls")),
]
