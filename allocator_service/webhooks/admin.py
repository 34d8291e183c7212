"""Webhooks and deliveries in the admin."""

from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from allocator_service.core.admin import ReasonForm, ServiceAdmin
from allocator_service.core.board import Notice, Section, Urgency, board_section
from allocator_service.core.clock import utc_now
from allocator_service.core.display import counted
from allocator_service.core.shown_fields import instant
from allocator_service.core.templatetags.shown import age
from allocator_service.core.visible import VisiblePools
from allocator_service.webhooks.models import Delivery, Webhook
from allocator_service.webhooks.selectors import delivery_counts
from allocator_service.webhooks.services import (
    WebhookSettings,
    delivery_resend,
    webhook_test,
    webhook_update,
)

LATE_AFTER = timedelta(hours=1)


class ActionsOnlyAdmin(ServiceAdmin):
    """Objects of the API that the admin shows and has actions on, but neither adds nor edits."""

    action_form = ReasonForm

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request, obj)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [field.name for field in self.opts.fields]


@board_section(permission="webhooks.view_webhook", place=4)
def webhooks_section(now: datetime, pools: VisiblePools) -> Section:
    """Return the notices of webhooks that are disabled, failing or late."""
    if pools.limited:  # the counts are of the whole installation, other pools included
        return Section()
    counts = delivery_counts(failed_since=now - timedelta(days=1))
    notices = []
    if counts["disabled"]:
        text = f"{counted(counts['disabled'], 'webhook')} disabled."
        url = reverse("admin:webhooks_webhook_changelist")
        notices.append(Notice(Urgency.WARNING, text, url))
    if counts["failed"]:
        text = f"{counted(counts['failed'], 'delivery', 'deliveries')} failed in the last 24 hours."
        url = reverse("admin:webhooks_delivery_changelist") + "?state__exact=failed"
        notices.append(Notice(Urgency.WARNING, text, url))
    if counts["oldest"] is not None and now - counts["oldest"] > LATE_AFTER:
        text = f"The oldest pending delivery has waited for {age(now - counts['oldest'])}."
        url = reverse("admin:webhooks_delivery_changelist") + "?state__exact=pending"
        notices.append(Notice(Urgency.WARNING, text, url))
    return Section(notices)


@admin.register(Webhook)
class WebhookAdmin(ActionsOnlyAdmin):
    appears = "A webhook appears when it is created over the API."
    list_display = ["url", "scope", "tenant", "pool", "state"]
    list_filter = ["disabled_because", "scope", "tenant", "pool"]
    filter_titles: ClassVar = {"disabled_because": "Why disabled", "scope": "Subscriber"}
    list_select_related = ["tenant", "pool"]
    actions = ["disable", "enable", "test"]

    @admin.display(description="state")
    def state(self, webhook: Webhook) -> SafeString | str:
        if webhook.retired_at is not None:
            return format_html("retired {}", instant(webhook.retired_at))
        if webhook.disabled_at is not None:
            reason = webhook.get_disabled_because_display().lower()
            return format_html("disabled ({}) since {}", reason, instant(webhook.disabled_at))
        if webhook.failing_since is not None:
            return format_html("failing since {}", instant(webhook.failing_since))
        return "enabled"

    @admin.action(description="Disable and cancel pending deliveries", permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        self._set_enabled(request, queryset, False, "disabled")

    @admin.action(description="Enable again", permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        self._set_enabled(request, queryset, True, "enabled")

    @admin.action(description="Send a test", permissions=["change"])
    def test(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        now = utc_now()
        self.apply_to_each(
            request, queryset, lambda webhook: webhook_test(webhook=webhook, now=now), "tested"
        )

    def _set_enabled(
        self, request: HttpRequest, queryset: QuerySet[Webhook], enabled: bool, done: str
    ) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset.filter(retired_at=None),
            lambda webhook: webhook_update(
                webhook=webhook,
                settings=WebhookSettings(webhook.url, webhook.events, enabled),
                version=None,
                allowed=settings.ENVIRONMENT.webhook_allowed_networks,
                now=now,
            ),
            done,
            already=Q(disabled_at__isnull=enabled),
        )


@admin.register(Delivery)
class DeliveryAdmin(ActionsOnlyAdmin):
    appears = "A delivery appears with each event that a webhook subscribes to, and with each test."
    pool_path = "webhook__pool__slug"
    list_display = ["created_at", "kind", "webhook", "progress", "tries"]
    list_filter = ["state", "kind"]
    filter_titles: ClassVar = {"kind": "Event"}
    list_select_related = ["webhook"]
    actions = ["resend"]

    @admin.display(description="attempts")
    def tries(self, delivery: Delivery) -> int:
        return len(delivery.attempts)

    @admin.display(description="state", ordering="state")
    def progress(self, delivery: Delivery) -> SafeString:
        state = delivery.get_state_display()
        if delivery.finished_at is not None:
            return format_html("{} {}", state, instant(delivery.finished_at))
        return format_html("{}, due {}", state, instant(delivery.due_at))

    @admin.action(description="Send again", permissions=["change"])
    def resend(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset.select_related("webhook"),
            lambda delivery: delivery_resend(delivery=delivery, now=now),
            "sent again",
        )
