from django.urls import path

from api.v1.evaluations.views import EvaluationsView

urlpatterns = [path("evaluations/", EvaluationsView.as_view(), name="evaluations")]
