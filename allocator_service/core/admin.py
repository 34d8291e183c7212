"""The base classes of admin pages, which parse input, call services and render."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.admin.options import IS_POPUP_VAR
from django.contrib.admin.utils import get_fields_from_path
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import models
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.text import Truncator

from allocator_service.core import sign_in_admin  # noqa: F401 - registers its models
from allocator_service.core.errors import DomainError
from allocator_service.core.history import entries_done, history_page
from allocator_service.core.list_filters import ObjectTypeFilter
from allocator_service.core.models import AuditEntry, Event
from allocator_service.core.paging import EstimatingPaginator
from allocator_service.core.saved_filters import SavedFiltersAdmin
from allocator_service.core.shown_fields import ShownForm, column
from allocator_service.core.visible import visible_pools

M = TypeVar("M", bound=models.Model)
CONTENT_SHOWN = 120  # characters of an event


class ReasonForm(ActionForm):
    """The fields that every action has."""

    reason = forms.CharField(required=False)


class VisibleRelatedFilter(admin.RelatedFieldListFilter):
    """A filter that offers what the user sees in the related object's own list."""

    def field_choices(
        self, field: Any, request: HttpRequest, model_admin: admin.ModelAdmin
    ) -> list[Any]:
        seen = seen_of(model_admin.admin_site, field.related_model, request)
        choices = super().field_choices(field, request, model_admin)
        keys = None if seen is None else set(seen.values_list("pk", flat=True))
        return [choice for choice in choices if keys is None or choice[0] in keys]


def seen_of(
    site: admin.AdminSite, model: type[models.Model], request: HttpRequest
) -> QuerySet[Any] | None:
    """Return the objects of a model that the user sees in its list, None for an unregistered model."""
    registered = site._registry.get(model)
    return None if registered is None else registered.get_queryset(request)


@dataclass(frozen=True)
class Found:
    """An object that a search found."""

    name: str
    note: str
    url: str


class AuditedAdmin(SavedFiltersAdmin):
    """The admin of a model, with the history of its objects from the audit.

    `pool_path` leads from an object to its pool's slug. An operator who is limited to some pools sees
    the objects of those pools. Objects of the whole installation have none, and such an operator no
    permission for them. `limited_may` lists the actions that are open to such an operator, if the
    permissions allow them.
    """

    paginator = EstimatingPaginator
    show_full_result_count = False
    list_per_page = 50
    action_form = ReasonForm
    pool_path: ClassVar[str | None] = "pool__slug"
    limited_may: ClassVar[Collection[str]] = ("view", "add", "change")
    durations: ClassVar[Collection[str]] = ()  # fields with a duration in ISO 8601
    in_seconds: ClassVar[Collection[str]] = ()  # fields with a duration as a number of seconds
    shares: ClassVar[Collection[str]] = ()  # fields with a fraction, shown in percent
    labelled_by: ClassVar[Collection[str]] = ()  # fields with labels, or a selector of them
    keys_of: ClassVar[Mapping[str, type[models.Model]]] = {}  # keys that are not relations
    # What writes the values of fields for people.
    texts_of: ClassVar[Mapping[str, Callable[[Any], str]]] = {}
    appears: ClassVar[str] = ""  # what an empty list that the service fills will show, and when
    search_place: ClassVar[int | None] = None  # among the results of the search over everything

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """Return the columns, with numbers, instants and durations for people."""
        fields = {field.name: field for field in self.model._meta.fields}
        return [
            column(fields[name], self) if name in fields else name
            for name in super().get_list_display(request)
        ]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Render an object's page, with the fields that are only read for people."""
        given = context["adminform"]
        fieldsets, readonly = given.fieldsets, given.readonly_fields
        shown = ShownForm(given.form, fieldsets, {}, readonly, model_admin=self)
        # Django has dropped them where the user may not change the object.
        shown.prepopulated_fields = given.prepopulated_fields
        context["adminform"] = shown
        if context["original"] is not None:
            context |= self.page_context(request, context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the template of an object's page has beside Django's context, or in its place."""
        return {}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows that the user sees, in lists, searches, pages, actions and choices."""
        seen, rows = visible_pools(request.user), super().get_queryset(request)
        if self.pool_path is None:
            return rows.none() if seen.limited else rows
        return seen.of(rows, self.pool_path)

    def found(self, request: HttpRequest, text: str, *, limit: int) -> list[Found]:
        """Return objects that the user sees and that a text finds, as the model's own list does."""
        rows, duplicates = self.get_search_results(request, self.get_queryset(request), text)
        if self.list_select_related:
            rows = rows.select_related(*cast("Sequence[str]", self.list_select_related))
        if duplicates:
            rows = rows.distinct()
        return [
            Found(str(row), self.search_note(row), self.search_url(row)) for row in rows[:limit]
        ]

    def search_note(self, row: Any) -> str:
        """Return what distinguishes an object from others of its name."""
        return str(getattr(row, "pool", None) or "")

    def search_url(self, row: Any) -> str:
        """Return the address of an object's page."""
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])

    def of_theirs(self, request: HttpRequest, model: type[M], **lookup: Any) -> M:
        """Return the object of another model, if the user sees it there. Raises `Http404`."""
        seen = seen_of(self.admin_site, model, request)
        found: M = get_object_or_404(
            model._default_manager.none() if seen is None else seen, **lookup
        )
        return found

    def _may(self, request: HttpRequest, what: str) -> bool:
        if not visible_pools(request.user).limited:
            return True
        return self.pool_path is not None and what in self.limited_may

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "view") and super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._may(request, "add") and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "change") and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid deletion, since the audit refers to the objects."""
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self._may(request, "view") and super().has_module_permission(request)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return the values in the address. Raises `BadRequest` for an invalid key."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        for field in self.opts.fields:
            if field.is_relation and field.name in initial:
                try:
                    field.target_field.to_python(initial[field.name])  # type: ignore[attr-defined]
                except ValidationError as error:
                    raise BadRequest(f"“{field.name}” is not a key of an object.") from error
        return initial

    def get_list_filter(self, request: HttpRequest) -> list[Any] | tuple[Any, ...]:
        """Return the filters, of which those by related objects offer the objects that the user sees."""
        listed = super().get_list_filter(request)
        if not visible_pools(request.user).limited:
            return listed
        return [
            (name, VisibleRelatedFilter)
            if isinstance(name, str) and get_fields_from_path(self.model, name)[-1].is_relation
            else name
            for name in listed
        ]

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Return the form field, whose choices are limited to the objects that the user sees."""
        seen = seen_of(self.admin_site, db_field.related_model, request)
        if seen is not None and visible_pools(request.user).limited:
            kwargs["queryset"] = seen
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the changes of the object, with their actors and reasons."""
        instance = self.get_object(request, object_id)
        if instance is None:
            raise Http404
        if not self.has_view_or_change_permission(request, instance):
            raise PermissionDenied
        page, done = history_page(instance, request.GET.get("p", "1"))
        context = {
            **self.admin_site.each_context(request),
            "title": f"History of {instance}",
            "opts": self.opts,
            "object": instance,
            "module_name": str(self.opts.verbose_name_plural).capitalize(),
            "done": done,
            "page": page,
            "pages": list(page.paginator.get_elided_page_range(page.number)),
            **(extra_context or {}),
        }
        return render(request, "admin/audit_history.html", context)

    def apply_to_each(
        self,
        request: HttpRequest,
        objects: QuerySet[Any],
        service: Any,
        done_to_them: str,
        *,
        already: Q | None = None,
    ) -> None:
        """Call a service on each selected object and report the numbers of changes and refusals.

        Objects that match `already` are left alone, and counted.
        """
        before, done = 0, 0
        if already is not None:
            # Counted first: after the services have run, more objects match.
            before = objects.filter(already).count()
            objects = objects.exclude(already)
        for item in objects:
            # A refusal concerns one object. The others are still changed.
            try:
                service(item)
            except DomainError as error:
                self.message_user(request, f"{item}: {error.detail}", messages.ERROR)
            else:
                done += 1
        if done:
            text = f"{self._counted(done)} {done_to_them}."
            self.message_user(request, text, messages.SUCCESS)
        if before:
            text = f"{self._counted(before)} {'was' if before == 1 else 'were'} {done_to_them} already."
            self.message_user(request, text, messages.INFO)

    def _counted(self, count: int) -> str:
        names = self.opts.verbose_name if count == 1 else self.opts.verbose_name_plural
        return f"{count} {names}"


class ServiceAdmin(AuditedAdmin):
    """A model that is written through services only and never deleted."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Pass on the form's message. The form has already called the service."""
        if form.success_text:
            obj.success_text = form.success_text

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Report the new object, by the form's own message if it has one."""
        text = getattr(obj, "success_text", "")
        # Django's answer in a popup is a script that closes it.
        if not text or IS_POPUP_VAR in request.POST:
            return super().response_add(request, obj, post_url_continue)
        self.message_user(request, text, messages.SUCCESS)
        if "_addanother" in request.POST:
            return redirect(request.path)
        return self.response_post_save_add(request, obj)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Return the fields that the form offers for this object, then the read-only ones."""
        # Fields can depend on the object, so that only a form of it knows them.
        offered = list(self.form(instance=obj).fields)
        if obj is not None and not self.has_change_permission(request, obj):
            offered = [name for name in offered if name != "reason"]
        # The reason follows what it is the reason of.
        last = [name for name in ("reason",) if name in offered]
        read = self.get_readonly_fields(request, obj)
        return list(dict.fromkeys([*(name for name in offered if name not in last), *last, *read]))


class ReadOnlyAdmin(AuditedAdmin):
    """A history, which cannot be changed in the admin."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    appears = "An entry appears with each change that a person, a key or the service makes."
    pool_path = "pool"
    list_display = ["at", "actor", "action", "object_name", "pool", "reason"]
    list_filter = [("object_type", ObjectTypeFilter), "action", "at"]
    filter_titles: ClassVar = {"object_type": "Kind of object", "at": "Time"}
    search_fields = ["object_name", "actor", "reason", "request_id"]
    exclude = ["before", "after"]
    readonly_fields: ClassVar = ["differences"]

    @admin.display(description="differences")
    def differences(self, entry: AuditEntry) -> str:
        """Return the fields that were changed, before and after, for people."""
        (named,) = entries_done([entry])
        shown = {"differences": named.done.differences}
        return render_to_string("admin/differences.html", shown) or "-"


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    appears = (
        "An event appears with each change that webhooks and mail report, such as a new decision."
    )
    pool_path = "pool"
    list_display = ["occurred_at", "kind", "pool", "tenant", "content"]
    list_filter = ["kind"]
    ordering = ["-id"]

    @admin.display(description="content")
    def content(self, event: Event) -> str:
        shown = ", ".join(f"{name}: {value}" for name, value in event.payload.items())
        return Truncator(shown).chars(CONTENT_SHOWN)
