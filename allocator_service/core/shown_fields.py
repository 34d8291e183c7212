"""Values of an object's fields as lists and pages of the admin show them."""

from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from functools import cache
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.helpers import AdminForm, AdminReadonlyField, Fieldline, Fieldset
from django.db import models
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from allocator_service.core.display import exact_text, number_text
from allocator_service.core.duration_fields import duration_text

_LONGEST_EXPONENT = 20  # beyond it a float is shown in scientific notation


def column(field: "models.Field[Any, Any]", durations: Collection[str]) -> Any:
    """Return the column of a field in a list.

    It is a function for a number or a duration, otherwise the name of the field.
    """
    name = field.name
    is_number = isinstance(field, models.DecimalField | models.FloatField)
    if is_number or name in durations:
        return _column(name, str(field.verbose_name), name in durations)
    return name


@cache  # the admin sorts by a column only if it is the same object each time
def _column(name: str, label: str, is_duration: bool) -> Callable[[models.Model], str | None]:
    @admin.display(description=label, ordering=name, empty_value="-")
    def shown(row: models.Model) -> str | None:
        return _text(getattr(row, name), is_duration)

    shown.__name__ = name  # for the column's class
    return shown


def _text(value: Any, is_duration: bool, *, exact: bool = False) -> str | None:
    """Return a value for people, None for one that the admin shows itself.

    `exact`: floats have all of their digits.
    """
    if isinstance(value, Decimal):
        return exact_text(value)
    if isinstance(value, float):
        return _float_text(value, exact)
    return duration_text(value) if is_duration and value else None


def _float_text(value: float, exact: bool) -> str:
    number = Decimal(repr(value))
    if not number.is_finite():
        return str(value)
    if not exact:
        return number_text(number)
    return exact_text(number) if abs(number.adjusted()) <= _LONGEST_EXPONENT else repr(value)


class ShownForm(AdminForm):
    """Form of an object whose fields that are only read have values for people."""

    def __iter__(self) -> Iterator[Fieldset]:
        for name, options in self.fieldsets:
            yield _Fieldset(
                self.form,
                name,
                readonly_fields=self.readonly_fields,
                model_admin=self.model_admin,
                **cast("dict[str, Any]", options),
            )


class _Fieldset(Fieldset):
    fields: Any

    def __iter__(self) -> Iterator[Fieldline]:
        for field in self.fields:
            yield _Fieldline(self.form, field, self.readonly_fields, model_admin=self.model_admin)


class _Fieldline(Fieldline):
    def __iter__(self) -> Iterator[Any]:
        for index, each in enumerate(super().__iter__()):
            if not isinstance(each, AdminReadonlyField):
                yield each
                continue
            field = self.fields[index]
            yield _ReadField(self.form, field, is_first=index == 0, model_admin=self.model_admin)


class _ReadField(AdminReadonlyField):
    def contents(self) -> SafeString:
        """Return the value for people, or as the admin shows it."""
        name, row = str(self.field["field"]), self.form.instance
        text = None
        if name in {field.name for field in row._meta.fields}:
            durations = getattr(self.model_admin, "durations", ())
            text = _text(getattr(row, name), name in durations, exact=True)
        return super().contents() if text is None else conditional_escape(text)
