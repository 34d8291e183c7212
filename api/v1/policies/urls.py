from django.urls import path

from api.v1.policies.views import PoliciesView

urlpatterns = [path("policies/", PoliciesView.as_view(), name="policies")]
