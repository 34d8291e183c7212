"""The ledger in the admin: to be read, by everybody with the permission, and changed by nobody."""

from django.contrib import admin

from allocator_service.core.admin import ReadOnlyAdmin
from allocator_service.ledger.models import Block, Entry


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    list_display = [
        "recorded_at", "pool", "tenant", "resource", "quantity", "start", "end", "kind", "source",
    ]  # fmt: skip
    list_filter = ["kind", "pool"]
    list_select_related = ["pool", "tenant"]
    search_fields = ["tenant__slug", "event_id"]


@admin.register(Block)
class BlockAdmin(ReadOnlyAdmin):
    list_display = ["pool", "number", "entries", "first_sequence", "last_sequence", "sealed_at"]
    list_filter = ["pool"]
    list_select_related = ["pool"]
    ordering = ["-id"]
