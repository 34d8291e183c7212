"""Keys, grants to groups and limits of operators to pools in the admin."""

from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from allocator_service.core.admin import ServiceAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unacceptable
from allocator_service.core.models import PoolLimit
from allocator_service.core.service_forms import ServiceForm
from allocator_service.core.shown_fields import instant
from allocator_service.pools.models import (
    Group,
    Pool,
)
from allocator_service.pools.operators import pool_limit_lift, pool_limit_set
from allocator_service.tenants.models import ApiKey, GroupGrant
from allocator_service.tenants.people import group_grant_create, group_grant_withdraw
from allocator_service.tenants.services import (
    IssuedKey,
    api_key_create,
    api_key_revoke,
    api_key_rotate,
)

DEFAULT_LIFETIME = timedelta(days=365)


class GroupChoiceField(forms.ModelChoiceField):
    """Groups of all pools, each with its pool's slug."""

    def label_from_instance(self, obj: Group) -> str:
        return f"{obj.pool.slug}: {obj.slug}"


def pool_group_field(help_text: str) -> GroupChoiceField:
    """Return a choice among the present groups of all open pools."""
    return GroupChoiceField(
        Group.objects.filter(retired_at=None, pool__retired_at=None)
        .select_related("pool")
        .order_by("pool__slug", "slug"),
        required=False,
        help_text=help_text,
    )


class ApiKeyForm(ServiceForm):
    issued: IssuedKey
    expires_at = forms.SplitDateTimeField(
        widget=AdminSplitDateTime,
        initial=lambda: utc_now() + DEFAULT_LIFETIME,
    )
    pool = forms.ModelChoiceField(
        Pool.objects.filter(retired_at=None).order_by("slug"),
        to_field_name="slug",
        required=False,
        help_text="The one pool that the key sees: of an agent's or a group's key always, of an"
        " operator's or a billing system's if you choose one.",
    )
    group = pool_group_field("The group of the pool that a key of scope group sees.")

    class Meta:
        model = ApiKey
        fields = ["name", "scope", "tenant", "pool", "group", "access", "cluster", "expires_at"]
        help_texts: ClassVar = {
            "cluster": "Of an agent: the cluster of its servers, if the pool has several.",
            "access": "Of scope group: whether it changes weights, tiers and limits below the group.",
        }

    def clean_group(self) -> int | None:
        group: Group | None = self.cleaned_data["group"]
        if group is None:
            return None
        # Slugs of groups repeat among pools, and the form offers the groups of all pools.
        if self.cleaned_data.get("pool") != group.pool.slug:
            raise forms.ValidationError(f"The group belongs to the pool {group.pool.slug}.")
        return group.pk

    def clean_pool(self) -> str:
        pool: Pool | None = self.cleaned_data["pool"]
        return pool.slug if pool else ""

    def perform(self, cleaned: dict[str, Any]) -> ApiKey:
        self.issued = api_key_create(**cleaned, now=utc_now())
        return self.issued.key


class GroupGrantForm(ServiceForm):
    pool_group = pool_group_field("The group of a pool whose pages they may open.")

    class Meta:
        model = GroupGrant
        fields = ["group", "tenant", "pool_group", "access"]
        help_texts: ClassVar = {
            "group": "As the provider writes it in the claim, such as /research/biology.",
            "tenant": "The tenant whose pages they may open. Choose this or a group of a pool.",
            "access": "Of a group of a pool: whether they change weights, tiers and limits below it.",
        }

    def perform(self, cleaned: dict[str, Any]) -> GroupGrant:
        found: Group | None = cleaned["pool_group"]
        return group_grant_create(
            group=cleaned["group"],
            tenant=cleaned["tenant"],
            pool=found.pool.slug if found else "",
            pool_group=found.pk if found else None,
            access=cleaned["access"],
            now=utc_now(),
        )


@admin.register(GroupGrant)
class GroupGrantAdmin(ServiceAdmin):
    """Pages that groups of the provider open. Granted and withdrawn, not edited."""

    pool_path = None
    keys_of: ClassVar = {"pool_group": Group}

    form = GroupGrantForm
    list_display = [
        "group", "tenant", "pool", "of_group", "access", "granted_at", "withdrawn_at",
    ]  # fmt: skip
    list_select_related = ["tenant"]
    search_fields = ["group", "tenant__slug", "pool"]
    autocomplete_fields = ["tenant"]
    actions = ["withdraw"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[GroupGrant]:
        # A subquery for all rows: without a foreign key each row would cost a query of its own.
        of_grant = Group.objects.filter(pk=OuterRef("pool_group")).values("slug")
        rows: QuerySet[GroupGrant] = super().get_queryset(request)
        return rows.annotate(group_slug=Subquery(of_grant))

    @admin.display(description="group of the pool")
    def of_group(self, grant: GroupGrant) -> str:
        return getattr(grant, "group_slug", None) or ""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["granted_at", "withdrawn_at"] if obj else []

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request, obj)

    @admin.action(description="Withdraw from the selected groups", permissions=["change"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[GroupGrant]) -> None:
        now = utc_now()
        self.apply_to_each(
            request, queryset, lambda grant: group_grant_withdraw(grant=grant, now=now), "withdrawn"
        )


class PoolLimitForm(ServiceForm):
    pools = forms.ModelMultipleChoiceField(
        Pool.objects.order_by("slug"),
        to_field_name="slug",
        required=False,
        help_text="The only pools that this user sees; without any, the user sees nothing.",
    )

    class Meta:
        model = PoolLimit
        fields = ["user", "pools"]

    def perform(self, cleaned: dict[str, Any]) -> PoolLimit:
        user = cleaned["user"] if self.adding else self.instance.user
        return pool_limit_set(user=user, pools=cleaned["pools"], now=utc_now())


@admin.register(PoolLimit)
class PoolLimitAdmin(ServiceAdmin):
    """Operators who see some pools only, limited by a superuser or by the provider's groups."""

    pool_path = None
    form = PoolLimitForm
    list_display = ["user", "pools"]
    list_select_related = ["user"]
    search_fields = ["user__username", "pools"]
    actions = ["lift"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["user"] if obj else []

    @admin.action(description="Lift: they see every pool again", permissions=["change"])
    def lift(self, request: HttpRequest, queryset: QuerySet[PoolLimit]) -> None:
        now = utc_now()
        self.apply_to_each(
            request, queryset, lambda limit: pool_limit_lift(limit=limit, now=now), "lifted"
        )


@admin.register(ApiKey)
class ApiKeyAdmin(ServiceAdmin):
    """Keys, which are issued, rotated and revoked but not edited."""

    pool_path = None
    keys_of: ClassVar = {"group": Group}
    form = ApiKeyForm
    search_fields = ["name", "prefix", "tenant__slug", "pool"]
    search_place = 9
    list_display = ["prefix", "name", "scope", "subject", "last_used_at", "validity"]
    list_filter = ["scope"]
    list_select_related = ["tenant"]
    autocomplete_fields = ["tenant"]
    actions = ["rotate", "revoke"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        # A key holds its group as a number without a foreign key, which select_related cannot follow.
        of_key = Group.objects.filter(pk=OuterRef("group")).values("slug")
        rows: QuerySet[ApiKey] = super().get_queryset(request)
        return rows.annotate(group_slug=Subquery(of_key))

    @admin.display(description="tenant or pool", empty_value="-")
    def subject(self, key: ApiKey) -> str | None:
        if key.tenant is not None:
            return key.tenant.slug
        group = getattr(key, "group_slug", None)
        if group is None:
            return key.pool or None
        return f"group {group} of {key.pool} ({key.get_access_display().lower()})"

    @admin.display(description="valid", ordering="expires_at")
    def validity(self, key: ApiKey) -> SafeString:
        if key.revoked_at is not None:
            return format_html("revoked {}", instant(key.revoked_at))
        is_past = key.expires_at <= utc_now()
        return format_html("{} {}", "expired" if is_past else "until", instant(key.expires_at))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["prefix", "created_at", "last_used_at", "revoked_at"] if obj else []

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # A key is rotated or revoked. Edited, it would give its holder other rights unannounced.
        return obj is None and super().has_change_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        self._show_once(request, form.issued)

    @admin.action(
        description="Rotate: issue a second live key of the same name", permissions=["add"]
    )
    def rotate(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        now = utc_now()

        def rotate_one(key: ApiKey) -> None:
            # Rotation goes by the name, which may have another live key: that is not the selected one.
            if key.revoked_at is not None or key.expires_at <= now:
                raise Unacceptable("The key is no longer live.", code="api_key.unknown")
            issued = api_key_rotate(name=key.name, expires_at=now + DEFAULT_LIFETIME, now=now)
            self._show_once(request, issued)

        self.apply_to_each(request, queryset, rotate_one, "rotated")

    @admin.action(description="Revoke the selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        now = utc_now()
        self.apply_to_each(
            request, queryset, lambda key: api_key_revoke(identifier=key.prefix, now=now), "revoked"
        )

    def _show_once(self, request: HttpRequest, issued: IssuedKey) -> None:
        self.message_user(
            request,
            f"The key “{issued.key.name}”, shown this once: {issued.text}",
            messages.WARNING,
        )
