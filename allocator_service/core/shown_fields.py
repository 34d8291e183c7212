"""Values of an object's fields as lists and pages of the admin show them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from math import isfinite
from typing import Any, Protocol, cast

from django.contrib import admin
from django.contrib.admin.helpers import AdminForm, AdminReadonlyField, Fieldline, Fieldset
from django.db import models
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from allocator_service.core.display import (
    exact_text,
    list_instant_text,
    month_text,
    number_text,
    percent_text,
    twelve_digits,
)
from allocator_service.core.duration_fields import duration_text, seconds_text

_LONGEST_EXPONENT = 20  # beyond it a float is shown in scientific notation


class Kinds(Protocol):
    """Names of the fields whose values are durations or fractions."""

    @property
    def durations(self) -> Collection[str]: ...
    @property
    def in_seconds(self) -> Collection[str]: ...
    @property
    def shares(self) -> Collection[str]: ...


def column(field: "models.Field[Any, Any]", kinds: Kinds) -> Any:
    """Return the column of a field in a list.

    It is a function for a number, an instant or a duration, otherwise the name of the field.
    """
    name, label = field.name, str(field.verbose_name)
    if name in kinds.shares:
        return _column(name, label, _share)
    if name in kinds.durations:
        return _column(name, label, _duration)
    if name in kinds.in_seconds:
        return _column(name, label.removesuffix(" seconds"), seconds_text)
    if isinstance(field, models.DateTimeField):
        return _column(name, label, instant)
    if isinstance(field, models.DateField):
        return _column(name, label, _month)
    if isinstance(field, models.DecimalField):
        return _column(name, label, _breakable_text)
    if isinstance(field, models.FloatField):
        return _column(name, label, _text)
    return name


def instant(at: datetime | None) -> SafeString | None:
    """Return an instant for a column, None for none."""
    if at is None:
        return None
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), list_instant_text(at))


def between(start: datetime | None, end: datetime | None) -> SafeString | None:
    """Return an interval for a column, None for one that has not begun."""
    if start is None:
        return None
    if end is None:
        return format_html("since {}", instant(start))
    first = list_instant_text(start)
    if start.astimezone(UTC).date() == end.astimezone(UTC).date():
        first = first.removesuffix("\N{NO-BREAK SPACE}UTC")
        text = f"{end.astimezone(UTC):%H:%M:%S}\N{NO-BREAK SPACE}UTC"
    else:
        text = list_instant_text(end)
    return format_html(
        '<time datetime="{}">{}</time> to <time datetime="{}">{}</time>',
        start.isoformat(), first, end.isoformat(), text,
    )  # fmt: skip


def labels_text(labels: Mapping[str, Any]) -> str:
    """Return names with their values, such as disk=ssd, zone=a or b."""
    return ", ".join(
        f"{name}={' or '.join(value) if isinstance(value, list) else value}"
        for name, value in sorted(labels.items())
    )


def breakable(text: str) -> SafeString:
    """Return a number that a line may break only after the separators of its thousands."""
    return format_html_join(mark_safe(",<wbr>"), "{}", ((part,) for part in text.split(",")))


def _breakable_text(value: Decimal | None) -> SafeString | None:
    return None if value is None else breakable(exact_text(value))


def _month(value: date) -> str:
    """Return the month of its first day. Dates without a time are months."""
    return month_text(f"{value:%Y-%m}")


def _share(value: float | None) -> str | None:
    if value is None or not isfinite(value):
        return None if value is None else str(value)
    return format_html('<data value="{}">{}</data>', twelve_digits(value), percent_text(value))


def _duration(value: str) -> str | None:
    return duration_text(value) if value else None


@cache  # the admin sorts by a column only if it is the same object each time
def _column(
    name: str, label: str, text_of: Callable[[Any], str | None]
) -> Callable[[models.Model], str | None]:
    @admin.display(description=label, ordering=name, empty_value="-")
    def shown(row: models.Model) -> str | None:
        return text_of(getattr(row, name))

    shown.__name__ = name  # for the column's class
    return shown


def _exact_text(value: Any) -> str | None:
    return _text(value, exact=True)


def _text(value: Any, *, exact: bool = False) -> str | None:
    """Return a number for people, None for a value that the admin shows itself.

    `exact`: floats have all of their digits.
    """
    if isinstance(value, Decimal):
        return exact_text(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return _month(value)
    if isinstance(value, list) and value and all(type(each) is date for each in value):
        return ", ".join(map(_month, value))
    return _float_text(value, exact) if isinstance(value, float) else None


def _float_text(value: float, exact: bool) -> str:
    # `repr` has the fewest digits that are read as this float again.
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
        # Django has no setting for the class of a read-only field.
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
            value = getattr(row, name)
            if name in getattr(self.model_admin, "durations", ()):
                text = _duration(value)
            elif name in getattr(self.model_admin, "in_seconds", ()):
                text = seconds_text(value)
            elif name in getattr(self.model_admin, "labelled_by", ()):
                text = labels_text(value) or "-"
            else:
                text_of = getattr(self.model_admin, "texts_of", {}).get(name, _exact_text)
                text = text_of(value)
        return super().contents() if text is None else conditional_escape(text)
