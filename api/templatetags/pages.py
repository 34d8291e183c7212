"""How pages write numbers and instants: short to read, exact for whoever points at them."""

from datetime import datetime
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
