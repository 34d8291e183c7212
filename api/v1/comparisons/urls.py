from django.urls import path

from api.v1.comparisons.views import ComparisonsView

urlpatterns = [path("comparisons/", ComparisonsView.as_view(), name="comparisons")]
