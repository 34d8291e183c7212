from django.urls import path

from api.v1.price_plans.views import OnePlanView, PlansView, PublishView

urlpatterns = [
    path("price-plans/", PlansView.as_view(), name="price-plans"),
    path("price-plans/<str:plan>/", OnePlanView.as_view(), name="price-plan"),
    path("price-plans/<str:plan>/publish/", PublishView.as_view(), name="price-plan-publish"),
]
