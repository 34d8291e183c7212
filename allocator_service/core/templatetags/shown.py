"""How pages write numbers and instants: short to read, exact for whoever points at them."""

from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from allocator_service.core.quantities import decimal_text

register = template.Library()
_UNKNOWN = SafeString('<span class="soft">not known</span>')
_LEAST, _WITHOUT_FRACTION = Decimal("0.001"), Decimal(10_000)


@register.simple_tag
def amount(value: Decimal | float | str | None, unit: str = "") -> SafeString:
    """A quantity in at most four digits, with its unit; all its digits are in the markup."""
    if value is None:
        return _UNKNOWN
    exact = Decimal(str(value))
    text = f"{short(exact)} {unit}".rstrip()
    told = f"{decimal_text(exact)} {unit}".rstrip()
    return format_html('<data value="{}" title="{}">{}</data>', decimal_text(exact), told, text)


def short(value: Decimal) -> str:
    """Four significant digits; from ten thousand on whole numbers, in groups of three."""
    size = abs(value)
    if not value or size >= _WITHOUT_FRACTION:
        return f"{value:,.0f}"
    if size < _LEAST:
        return "less than 0.001" if value > 0 else "nearly 0"
    rounded = round(value, 3 - size.adjusted())
    return f"{int(rounded):,}" if rounded == int(rounded) else f"{decimal_text(rounded):s}"


@register.simple_tag
def percent(value: float | None) -> SafeString:
    """A fraction in percent, in at most four digits."""
    if value is None:
        return _UNKNOWN
    text = short(Decimal(repr(value)) * 100)
    return format_html('<data value="{}">{} %</data>', repr(value), text)


@register.simple_tag
def moment(at: datetime | None, zone: str, form: str = "%Y-%m-%d %H:%M") -> SafeString:
    """An instant by the clocks of a time zone, which is named."""
    if at is None:
        return SafeString("")
    there = at.astimezone(ZoneInfo(zone))
    return format_html(
        '<time datetime="{}">{} {}</time>',
        at.isoformat(),
        f"{there:{form}}",
        there.tzname() or zone,
    )


@register.filter
def age(length: timedelta) -> str:
    """A length of time in its two largest units, such as 3 min 12 s."""
    seconds = max(int(length.total_seconds()), 0)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        parts.append((count, unit))
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count) or "0 s"


@register.simple_tag
def second(at: datetime | None, otherwise: str = "") -> SafeString | str:
    """An instant to the second, in UTC."""
    return moment(at, "UTC", "%Y-%m-%d %H:%M:%S") if at is not None else otherwise


@register.filter
def significant(value: float) -> str:
    """A number that may be very small, in four significant digits; whole ones in groups of three."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"
