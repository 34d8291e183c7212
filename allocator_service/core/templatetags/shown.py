"""Numbers and instants in templates, short to read, with the exact value in the markup."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from allocator_service.core.display import (
    Precision,
    exact_resource_text,
    exact_text,
    instant_text,
    local_time,
    money_text,
    month_text,
    noun_of,
    number_text,
    percent_text,
    quantity_text,
    resource_text,
    short_day,
    twelve_digits,
)
from allocator_service.core.duration_fields import duration_text, seconds_text
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.core.shown_fields import between

register = template.Library()
register.filter("seconds", seconds_text)
register.filter("duration", duration_text)
_UNKNOWN = SafeString('<span class="soft">not known</span>')


@register.simple_tag
def amount(value: Decimal | float | str | None, unit: str = "") -> SafeString:
    """Return a quantity in at most four digits with its unit, and all its digits in the markup."""
    if value is None:
        return _UNKNOWN
    exact = _exact(value)
    return _data(exact, exact_text(exact, unit), quantity_text(exact, unit))


@register.simple_tag
def amount_of(value: Decimal | float | str | None, resource: Resource) -> SafeString:
    """Return an amount of a resource, such as 4 GPUs, 2 GiB memory."""
    if value is None:
        return _UNKNOWN
    exact = _exact(value)
    number = decimal_text(exact)
    return _data(exact, f"{number} {noun_of(resource, number)}", resource_text(exact, resource))


@register.simple_tag
def setting_of(value: Decimal | float | str, resource: Resource) -> SafeString:
    """Return an amount of a resource that someone set, with all of its digits."""
    exact = _exact(value)
    text = exact_resource_text(exact, resource)
    return _data(exact, text, text)


@register.simple_tag
def part_of(value: float, most: Decimal | float | str, resource: Resource) -> SafeString:
    """Return the part of a setting that is allocated, with all digits if rounding made it more."""
    shown = setting_of if _rounds_above(value, most) else amount_of
    return shown(value, resource)


@register.simple_tag
def number_within(value: float, most: Decimal | float | str) -> SafeString:
    """Return the part of a setting that is allocated as a number without its resource."""
    exact = _exact(value)
    text = exact_text(exact)
    return _data(exact, text, text if _rounds_above(value, most) else number_text(exact))


def _rounds_above(value: float, most: Decimal | float | str) -> bool:
    """Return True if a value that is at most another one has a rounded text of more."""
    exact, other = _exact(value), _exact(most)
    return exact <= other < Decimal(quantity_text(exact).replace(",", "")) if exact >= 1 else False


def _exact(value: Decimal | float | str) -> Decimal:
    """Return a number, of a float the digits that do not depend on other tenants."""
    return Decimal(twelve_digits(value) if isinstance(value, float) else str(value))


def _data(exact: Decimal, title: str, text: str) -> SafeString:
    return format_html('<data value="{}" title="{}">{}</data>', decimal_text(exact), title, text)


@register.simple_tag
def noun(resource: Resource) -> str:
    """Return what numbers of a resource count, such as cores, GPUs, GiB memory."""
    return noun_of(resource)


@register.simple_tag
def money(value: str | Decimal | None, currency: str = "") -> SafeString:
    """Return an amount of money in groups of three, with its exact value in the markup."""
    if value is None:
        return _UNKNOWN
    return format_html('<data value="{}">{}</data>', value, money_text(value, currency))


@register.simple_tag
def percent(value: float | None) -> SafeString:
    """Return a fraction in percent, in at most four digits."""
    if value is None:
        return _UNKNOWN
    return format_html('<data value="{}">{}</data>', twelve_digits(value), percent_text(value))


@register.simple_tag
def moment(at: datetime | None, zone: str, precision: Precision = "minute") -> SafeString:
    """Return an instant by the clocks of a time zone, which is named."""
    if at is None:
        return SafeString("")
    text = instant_text(at, zone, precision)
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), text)


@register.simple_tag(name="short_day")
def day_without_year(at: datetime, zone: str) -> SafeString:
    """Return the day of an instant by the clocks of a time zone, such as 24 Nov."""
    day = short_day(local_time(at, zone))
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), day)


@register.filter
def month(value: str) -> str:
    """Return a month as people write it, such as October 2026."""
    return month_text(value)


@register.filter
def age(length: timedelta) -> str:
    """Return a length of time in its two largest units, such as 3 min 12 s."""
    seconds = max(int(length.total_seconds()), 0)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        parts.append((count, unit))
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = [(count, unit) for count, unit in parts[first : first + 2] if count] or [(0, "s")]
    return " ".join(f"{count}\N{NO-BREAK SPACE}{unit}" for count, unit in shown)


@register.simple_tag
def second(at: datetime | None, otherwise: str = "") -> SafeString | str:
    """Return an instant to the second, in UTC."""
    return moment(at, "UTC", "second") if at is not None else otherwise


@register.simple_tag(name="between")
def interval(start: datetime | None, end: datetime | None) -> SafeString | str:
    """Return the interval in which something was in force, or that it never was."""
    return between(start, end) or "never"


@register.filter
def grouped(value: int) -> str:
    """Return a whole number in groups of three."""
    return f"{value:,}"


@register.filter
def paired(first: Iterable[object], second: Iterable[object]) -> list[tuple[object, object]]:
    """Return the elements of two sequences of the same length, side by side."""
    return list(zip(first, second, strict=True))


@register.filter
def significant(value: float) -> str:
    """Return a number that may be very small, in four significant digits."""
    return number_text(Decimal(str(value))) if abs(value) >= 1 else f"{value:,.4g}"
