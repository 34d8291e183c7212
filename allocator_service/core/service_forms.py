"""Forms that write through a service, and show what they would change."""

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.db import DataError, IntegrityError, models
from django.db.models import Q

from allocator_service.core.conditional_fields import is_shown
from allocator_service.core.constraints import domain_error_for
from allocator_service.core.duration_fields import DurationField
from allocator_service.core.errors import DomainError, FieldError
from allocator_service.core.history import Difference
from allocator_service.core.line_fields import ValueLinesField
from allocator_service.core.quantities import decimal_text
from policies.fields import Field, Mistakes, is_one_line


class ServiceForm(forms.ModelForm):
    """A form that writes through a service.

    `perform` makes the service call as the last step of validation, inside the admin's transaction. An
    error of the domain appears at the field that it points to, like any other mistake.
    """

    performed: models.Model
    read_as: ClassVar[Mapping[str, Field]] = {}  # what the API reads in the same way
    success_text = ""  # for a form that creates more than one object
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

    def affecting(self) -> list[str]:
        """Return the names of changes by which a valid form affects decisions.

        Without any, the form is saved without showing an impact first.
        """
        return []

    @property
    def adding(self) -> bool:
        return self.instance.pk is None or self.instance._state.adding

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned.pop("reason", None)  # the audit has it from the request
        try:
            self.check(cleaned)
            if not self.errors:
                self.performed = self.perform(cleaned)
        except DomainError as error:
            add_refusal(self, error, self.field_at)
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


def add_refusal(
    form: forms.BaseForm, error: DomainError, field_at: Callable[[str], str | None]
) -> None:
    """Add each error of a refusal to the field that its pointer leads to.

    `field_at` returns the name of that field, None for a place without one.
    """
    places = error.errors or (FieldError("", error.code, error.detail),)
    # Several pointers may lead to one field, which need not repeat a sentence.
    for name, detail in dict.fromkeys((field_at(each.pointer), each.detail) for each in places):
        form.add_error(name, detail)


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
