from django.urls import path

from api.v1.runs.explanations import ExplanationView
from api.v1.runs.schedules import ScheduleView
from api.v1.runs.trees import TreeView
from api.v1.runs.views import (
    AllocationsView,
    CertificateView,
    InputView,
    PlacementsView,
    ProofView,
    RunsView,
    RunView,
    VerifyView,
)

urlpatterns = [
    path("pools/<str:pool>/runs/", RunsView.as_view(), name="runs"),
    path("runs/<str:run>/", RunView.as_view(), name="run"),
    path("runs/<str:run>/allocations/", AllocationsView.as_view(), name="run-allocations"),
    path("runs/<str:run>/placements/", PlacementsView.as_view(), name="run-placements"),
    path("runs/<str:run>/certificate/", CertificateView.as_view(), name="run-certificate"),
    path("runs/<str:run>/schedule/", ScheduleView.as_view(), name="run-schedule"),
    path("runs/<str:run>/tree/", TreeView.as_view(), name="run-tree"),
    path("runs/<str:run>/input/", InputView.as_view(), name="run-input"),
    path("runs/<str:run>/proof/", ProofView.as_view(), name="run-proof"),
    path(
        "runs/<str:run>/explanation/<str:tenant>/",
        ExplanationView.as_view(),
        name="run-explanation",
    ),
    path("runs/<str:run>/verify/", VerifyView.as_view(), name="run-verify"),
]
