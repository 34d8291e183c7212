"""What the admin pages share: they parse, call the services every interface calls, and render."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.core.exceptions import ValidationError
from django.db import IntegrityError, models
from django.db.models import QuerySet
from django.http import HttpRequest

from allocator_service.core.constraints import domain_error_for
from allocator_service.core.errors import DomainError
from allocator_service.core.models import AuditEntry, Event
from allocator_service.core.paging import EstimatingPaginator
from allocator_service.core.quantities import Resource, decimal_text, vector_from


class ServiceForm(forms.ModelForm):
    """A form that writes through a service.

    `perform` makes the service call as the last step of validation, inside the admin's transaction:
    what the domain refuses appears on the form like any other mistake.
    """

    performed: models.Model
    performs = True  # False: validate only, to show first what the change would do
    reason = forms.CharField(required=False, help_text="The reason, kept in the audit log.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            if isinstance(field.widget, forms.MultiWidget):
                _name_parts(field.widget, str(field.label or name.replace("_", " ")))
            if isinstance(field, forms.JSONField):
                field.validators.append(_refuse_other_than_object)

    def perform(self, cleaned: dict[str, Any]) -> models.Model:
        """Make the service call and return the object it wrote."""
        raise NotImplementedError

    def changes(self) -> dict[str, Any]:
        """What a valid form would change, as a simulation's `changes`; empty: nothing to show first."""
        return {}

    @property
    def adding(self) -> bool:
        return self.instance.pk is None or self.instance._state.adding

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned.pop("reason", None)  # the audit has it from the request
        if self.performs and not self.errors:
            try:
                self.performed = self.perform(cleaned)
            except DomainError as error:
                details = [item.detail for item in error.errors] or [error.detail]
                raise ValidationError(list(dict.fromkeys(details))) from error
            except IntegrityError as error:
                raise ValidationError(_constraint_detail(error)) from error
        return cleaned

    def _post_clean(self) -> None:
        """Leave the instance alone: the service has validated and written."""

    def save(self, commit: bool = True) -> models.Model:
        return self.performed

    def save_m2m(self) -> None:
        """Nothing: services write relations too."""


def _refuse_other_than_object(value: object) -> None:
    if not isinstance(value, dict):
        raise ValidationError('Expected a JSON object, such as {"name": "value"}.')


def _name_parts(widget: forms.MultiWidget, label: str) -> None:
    """Name the boxes of a date and time, which share one label on the page."""
    for part, of in zip(widget.widgets, ("date", "time"), strict=True):
        part.attrs["aria-label"] = f"{label}: {of}"


def _constraint_detail(error: IntegrityError) -> str:
    diagnostics = getattr(error.__cause__, "diag", None)
    refused = domain_error_for(getattr(diagnostics, "constraint_name", None))
    if refused is None:
        raise error
    return refused.detail


class ReasonForm(ActionForm):
    """What is asked for with every action."""

    reason = forms.CharField(required=False)


class ServiceAdmin(admin.ModelAdmin):
    """A model that is written through services only and never deleted."""

    action_form = ReasonForm
    paginator = EstimatingPaginator

    show_full_result_count = False
    list_per_page = 50

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Nothing: the form has called the service."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """What the form offers for this object, then what can only be read."""
        offered = self.form(instance=obj).fields
        return list(dict.fromkeys([*offered, *self.get_readonly_fields(request, obj)]))

    def apply_to_each(
        self, request: HttpRequest, objects: QuerySet[Any], service: Any, done_to_them: str
    ) -> None:
        """Call a service on each selected object; say how many it changed and which it refused."""
        done = 0
        for item in objects:
            try:
                service(item)
            except DomainError as error:
                self.message_user(request, f"{item}: {error.detail}", messages.ERROR)
            else:
                done += 1
        if done:
            names = self.opts.verbose_name if done == 1 else self.opts.verbose_name_plural
            self.message_user(request, f"{done} {names} {done_to_them}.", messages.SUCCESS)


class ReadOnlyAdmin(admin.ModelAdmin):
    """History: to be looked at by everybody with the permission, changed by nobody."""

    paginator = EstimatingPaginator
    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
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
    """A stored vector as `QuantitiesField` reads it."""
    named = zip(resources, vector, strict=False)
    return " ".join(f"{resource.name}={decimal_text(amount)}" for resource, amount in named)


def quantities_vector(quantities: dict[str, str], resources: list[Resource]) -> list[Any]:
    """The vector that `QuantitiesField` has read, by the pool's resources."""
    return vector_from(quantities, resources, pointer="")


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["at", "actor", "action", "object_name", "pool", "reason"]
    list_filter = ["action"]
    search_fields = ["object_name", "actor", "request_id"]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ["occurred_at", "kind", "pool", "tenant", "payload"]
    list_filter = ["kind"]
    ordering = ["-id"]
