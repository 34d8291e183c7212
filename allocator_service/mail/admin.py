"""Subscriptions in the admin."""

from django.contrib import admin

from allocator_service.core.admin import ReadOnlyAdmin
from allocator_service.mail.models import Subscription


@admin.register(Subscription)
class SubscriptionAdmin(ReadOnlyAdmin):
    list_display = ["address", "tenant", "confirmed_at", "sent_at", "failures", "error"]
    search_fields = ["address", "tenant__slug", "tenant__name"]
    exclude = ["id"]
