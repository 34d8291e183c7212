"""Groups in the admin, as a list with parent, weight and tier."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Prefetch, Q, QuerySet
from django.http import HttpRequest

from allocator_service.core.admin import ServiceAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.list_filters import PresentFilter
from allocator_service.core.quantities import decimal_text
from allocator_service.core.service_forms import ServiceForm
from allocator_service.pools.group_services import (
    AMOUNTS,
    GroupDraft,
    GroupSettings,
    group_retire,
    group_update,
    groups_create,
)
from allocator_service.pools.limit_forms import (
    LimitsField,
    has_changed,
    limits_text,
    own_servers_form_field,
)
from allocator_service.pools.models import LARGEST_TIER, Group, GroupTerms
from policies.fields import TextField


def tier_form_field() -> forms.IntegerField:
    """Return the form's field for a tier."""
    return forms.IntegerField(
        min_value=-LARGEST_TIER,
        max_value=LARGEST_TIER,
        required=False,
        help_text="Order among siblings: nothing rises while a sibling of a lower tier can."
        " Empty: 0.",
    )


def group_form_field(label: str) -> forms.SlugField:
    """Return the form's field for the slug of a group in the form's pool."""
    return forms.SlugField(
        label=label, required=False, help_text="Slug of a group. Empty: the pool itself."
    )


class GroupForm(ServiceForm):
    read_as: ClassVar = {"name": TextField(max_length=200)}
    parent = group_form_field("Parent")
    weight = forms.DecimalField(max_digits=24, decimal_places=12, initial=1)
    tier = tier_form_field()
    guarantee = LimitsField("guarantee")
    limit = LimitsField()
    own_servers = own_servers_form_field()

    class Meta:
        model = Group
        fields = ["pool", "slug", "name"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        terms = None if self.adding else self._present_terms()
        if terms is not None:
            parent = terms.parent.slug if terms.parent else ""
            self.initial.update(
                parent=parent,
                weight=terms.weight.normalize(),
                tier=terms.tier,
                own_servers=terms.own_servers,
                **{kind: limits_text(getattr(terms, kind)) for kind in AMOUNTS},
            )

    def _present_terms(self) -> GroupTerms | None:
        present: GroupTerms | None = (
            self.instance.terms.select_related("parent").filter(end=None).first()
        )
        return present

    def affecting(self) -> list[str]:
        terms, new = self._present_terms(), self._settings(self.cleaned_data)
        if terms is None:
            return []
        present = (terms.parent.slug if terms.parent else None, terms.weight, terms.tier)
        is_same = present == (new.parent, new.weight, new.tier)
        return ["groups"] if not is_same or has_changed(terms, self.cleaned_data, AMOUNTS) else []

    def perform(self, cleaned: dict[str, Any]) -> Group:
        settings = self._settings(cleaned)
        if not self.adding:
            return group_update(
                group=self.instance,
                settings=settings,
                version=self.instance.version,
                now=utc_now(),
            )
        draft = GroupDraft(cleaned["slug"], settings)
        (group,) = groups_create(pool=cleaned["pool"], drafts=[draft], now=utc_now())
        return group

    def _settings(self, cleaned: dict[str, Any]) -> GroupSettings:
        return GroupSettings(
            cleaned["name"],
            cleaned["parent"] or None,
            cleaned["weight"],
            cleaned["tier"] or 0,
            cleaned["limit"],
            cleaned["guarantee"],
            cleaned["own_servers"] or None,
        )


class GroupAdmin(ServiceAdmin):
    """Registered by `allocation.admin`, which computes the effect of a change before it is saved."""

    form = GroupForm
    list_display = ["slug", "name", "pool", "parent", "weight", "tier", "retired_at"]
    list_filter = ["pool", ("retired_at", PresentFilter)]
    filter_titles: ClassVar = {"retired_at": "Current or retired"}
    list_select_related = ["pool"]
    search_fields = ["slug", "name"]
    search_place = 3
    autocomplete_fields = ["pool"]
    actions = ["retire"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        present = GroupTerms.objects.filter(end=None).select_related("parent")
        return (
            super()
            .get_queryset(request)
            .prefetch_related(Prefetch("terms", queryset=present, to_attr="present_terms"))
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pool", "slug", "created_at", "retired_at"] if obj else []

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the group can be changed, which a retired one cannot."""
        retired = obj is not None and obj.retired_at is not None
        return not retired and super().has_change_permission(request, obj)

    @admin.display(description="parent")
    def parent(self, group: Any) -> str:
        return next((str(terms.parent or "") for terms in group.present_terms), "")

    @admin.display(description="weight")
    def weight(self, group: Any) -> str:
        return next((decimal_text(terms.weight) for terms in group.present_terms), "")

    @admin.display(description="tier")
    def tier(self, group: Any) -> str:
        return next((str(terms.tier) for terms in group.present_terms), "")

    @admin.action(description="Retire the selected empty groups", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Group]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda group: group_retire(group=group, version=None, now=now),
            "retired",
            already=Q(retired_at__isnull=False),
        )
