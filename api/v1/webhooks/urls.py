from django.urls import path

from api.v1.webhooks.views import (
    DeliveriesView,
    ResendView,
    RotateSecretView,
    TestWebhookView,
    WebhooksView,
    WebhookView,
)

_ONE = "webhooks/<str:webhook>"

urlpatterns = [
    path("webhooks/", WebhooksView.as_view(), name="webhooks"),
    path(f"{_ONE}/", WebhookView.as_view(), name="webhook"),
    path(f"{_ONE}/test/", TestWebhookView.as_view(), name="webhook-test"),
    path(f"{_ONE}/rotate-secret/", RotateSecretView.as_view(), name="webhook-rotate"),
    path(f"{_ONE}/deliveries/", DeliveriesView.as_view(), name="deliveries"),
    path(f"{_ONE}/deliveries/<str:delivery>/resend/", ResendView.as_view(), name="resend"),
]
