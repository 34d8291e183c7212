"""The base classes of admin pages, which parse input, call services and render."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.admin.options import IS_POPUP_VAR
from django.contrib.admin.utils import get_fields_from_path
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import DataError, IntegrityError, models
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.text import Truncator

from allocator_service.core import sign_in_admin  # noqa: F401 - registers its models
from allocator_service.core.conditional_fields import is_shown
from allocator_service.core.constraints import domain_error_for
from allocator_service.core.display import resource_text
from allocator_service.core.duration_fields import DurationField
from allocator_service.core.errors import DomainError, FieldError
from allocator_service.core.history import Difference, entries_done, history_page
from allocator_service.core.line_fields import ValueLinesField
from allocator_service.core.list_filters import ObjectTypeFilter
from allocator_service.core.models import AuditEntry, Event
from allocator_service.core.paging import EstimatingPaginator
from allocator_service.core.quantities import Resource, decimal_text, vector_from
from allocator_service.core.saved_filters import SavedFiltersAdmin
from allocator_service.core.shown_fields import ShownForm, column
from allocator_service.core.visible import visible_pools
from policies.fields import Field, Mistakes, is_one_line

M = TypeVar("M", bound=models.Model)
CONTENT_SHOWN = 120  # characters of an event


class ServiceForm(forms.ModelForm):
    """A form that writes through a service.

    `perform` makes the service call as the last step of validation, inside the admin's transaction. An
    error of the domain appears at the field that it points to, like any other mistake.
    """

    performed: models.Model
    read_as: ClassVar[Mapping[str, Field]] = {}  # what the API reads in the same way
    success_text = ""  # for a form that creates more than one object
    performs = True  # False: validate only, to show first what the change would do
    reason = forms.CharField(required=False, help_text="The reason, kept in the audit log.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, value in self.initial.items():
            if isinstance(value, Decimal):
                self.initial[name] = decimal_text(value)  # without the zeros of the column
        self.prepare(self.fields)

    def prepare(self, fields: Mapping[str, forms.Field]) -> None:
        """Name the parts of fields, and let them refuse what the API does not read."""
        for name, field in fields.items():
            if isinstance(field.widget, forms.MultiWidget):
                _name_parts(field.widget, str(field.label or name.replace("_", " ")))
            if isinstance(field, forms.DateTimeField | forms.SplitDateTimeField):
                field.help_text = f"{field.help_text} In UTC.".strip()
            if isinstance(field, forms.JSONField):
                field.validators.append(_refuse_other_than_object)
            elif isinstance(field.widget, forms.TextInput):
                field.validators.append(_refuse_controls)
            if name in self.read_as:
                field.validators.append(partial(refuse_unread, self.read_as[name]))

    def perform(self, cleaned: dict[str, Any]) -> models.Model:
        """Make the service call and return the object it wrote."""
        raise NotImplementedError

    def check(self, cleaned: dict[str, Any]) -> None:
        """Raise a `DomainError` for values that the service would reject.

        It is called for forms with other mistakes too, whose fields `cleaned` lacks, so that all
        mistakes are shown at once.
        """

    def changes(self) -> dict[str, Any]:
        """Return the changes of a valid form as a simulation's, empty if no impact is shown first."""
        return {}

    @property
    def adding(self) -> bool:
        return self.instance.pk is None or self.instance._state.adding

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned.pop("reason", None)  # the audit has it from the request
        try:
            self.check(cleaned)
            if self.performs and not self.errors:
                self.performed = self.perform(cleaned)
        except DomainError as error:
            places = error.errors or (FieldError("", error.code, error.detail),)
            for name, detail in dict.fromkeys((self.field_at(e.pointer), e.detail) for e in places):
                self.add_error(name, detail)
        except IntegrityError as error:
            self.add_error(*_constraint_mistake(error, self))
        except DataError as error:
            raise ValidationError(f"The database refused a value: {error}") from error
        return cleaned

    def field_at(self, pointer: str) -> str | None:
        """Return the field that a JSON pointer leads to or into, None for a place without a field."""
        parts = [part for part in pointer.split("/") if part and not part.isdigit()]
        names = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((name for name in names if name in self.fields), None)

    def _post_clean(self) -> None:
        """Leave the instance as the service has written it."""

    def save(self, commit: bool = True) -> models.Model:
        return self.performed

    def save_m2m(self) -> None:
        """Leave relations as the service has written them."""


def form_differences(form: ServiceForm) -> list[Difference]:
    """Return the fields that a valid form changes, before and after, as people read them."""
    found = [
        Difference(
            _label(form, name),
            _field_text(form.fields[name], form.get_initial_for_field(form.fields[name], name)),
            _field_text(form.fields[name], form.fields[name].clean(form[name].data))
            if isinstance(form.fields[name], forms.BooleanField | forms.MultiValueField)
            else _field_text(form.fields[name], form[name].value()),
        )
        for name in form.changed_data
        if name != "reason" and is_shown(form.fields[name], form.cleaned_data)
    ]
    found += [
        Difference(_label(form, name), _field_text(field, before), "not used")
        for name, field in form.fields.items()
        if not is_shown(field, form.cleaned_data) and is_shown(field, form.initial)
        if (before := form.get_initial_for_field(field, name)) not in (None, "", {}, False)
    ]
    # Browsers end the lines of a text in another way than it is stored.
    return [each for each in found if _lines(each.before) != _lines(each.after)]


def _label(form: ServiceForm, name: str) -> str:
    label = str(form[name].label)
    return label[:1].upper() + label[1:]


def _lines(text: str | None) -> list[str]:
    return (text or "").splitlines()


def _field_text(field: forms.Field, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, models.Model):
        return str(value)
    if isinstance(field, DurationField):
        value = field.text_of(value)
    elif isinstance(field, forms.ChoiceField):
        value = dict(field.choices).get(value, value)  # type: ignore[arg-type]
    elif isinstance(field, forms.JSONField | ValueLinesField) and not isinstance(value, str):
        value = field.prepare_value(value)
    return str(value) if value not in (None, "") else "nothing"


def _refuse_other_than_object(value: object) -> None:
    if not isinstance(value, dict):
        raise ValidationError('Expected a JSON object, such as {"name": "value"}.')


def _refuse_controls(value: object) -> None:
    if isinstance(value, str) and not is_one_line(value.strip()):
        raise ValidationError(
            "Expected one line without characters that control text or turn its direction."
        )


def refuse_unread(field: Field, value: object) -> None:
    """Raise a form's `ValidationError` for what the API's field does not read."""
    try:
        field.read(value)
    except Mistakes as wrong:
        raise ValidationError(
            [f"{each.pointer}: {each.detail}".removeprefix(": ") for each in wrong.found]
        ) from wrong


def _name_parts(widget: forms.MultiWidget, label: str) -> None:
    """Name the boxes of a date and time, or of a duration, which share one label on the page."""
    for part, of in zip(
        widget.widgets, getattr(widget, "part_names", ("date", "time")), strict=True
    ):
        part.attrs["aria-label"] = f"{label}: {of}"


def _constraint_mistake(error: IntegrityError, form: forms.ModelForm) -> tuple[str | None, str]:
    """Return the field and the sentence of a violated constraint. Raises the error of an unknown one.

    The field is None for a constraint on several fields of the form, or on none.
    """
    name = getattr(getattr(error.__cause__, "diag", None), "constraint_name", None)
    refused = domain_error_for(name)
    if refused is None:
        raise error
    constraints = form._meta.model._meta.constraints
    named = [
        field
        for each in constraints
        if each.name == name
        for field in _constrained_fields(each)
        if field in form.fields
    ]
    return (named[0] if len(named) == 1 else None), refused.detail


def _constrained_fields(constraint: models.BaseConstraint) -> Collection[str]:
    if isinstance(constraint, models.CheckConstraint) and isinstance(constraint.condition, Q):
        return constraint.condition.referenced_base_fields
    return constraint.fields if isinstance(constraint, models.UniqueConstraint) else ()


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
            before = objects.filter(already).count()
            objects = objects.exclude(already)
        for item in objects:
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
        if not text or IS_POPUP_VAR in request.POST:
            return super().response_add(request, obj, post_url_continue)
        self.message_user(request, text, messages.SUCCESS)
        if "_addanother" in request.POST:
            return redirect(request.path)
        return self.response_post_save_add(request, obj)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Return the fields that the form offers for this object, then the read-only ones."""
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


class QuantitiesField(forms.CharField):
    """Quantities written as `cpu=4 memory=16Gi`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            help_text="Such as cpu=4 memory=16Gi, with the pool's resources.", **kwargs
        )

    def to_python(self, value: Any) -> dict[str, str]:  # type: ignore[override]
        text = super().to_python(value) or ""
        quantities = {}
        for part in text.replace(",", " ").split():
            name, separator, quantity = part.partition("=")
            if not separator or name in quantities:
                raise ValidationError(f"“{part}”: write each resource once, as name=quantity.")
            quantities[name] = quantity
        return quantities


def quantities_text(vector: list[Any], resources: list[Resource]) -> str:
    """Return a stored vector as `QuantitiesField` reads it."""
    named = zip(resources, vector, strict=False)
    return " ".join(f"{resource.name}={decimal_text(amount)}" for resource, amount in named)


def quantities_shown(vector: Sequence[Any], resources: Sequence[Resource]) -> str:
    """Return the amounts of a stored vector for people, such as 4 cores, 16 GiB memory."""
    named = zip(resources, vector, strict=False)
    parts = [resource_text(amount, each) for each, amount in named if amount]
    return ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}", 1) for part in parts) or "nothing"


def quantities_vector(
    quantities: dict[str, str], resources: list[Resource], pointer: str
) -> list[Any]:
    """Return the vector that `QuantitiesField` has read, by the pool's resources."""
    return vector_from(quantities, resources, pointer=pointer)


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
