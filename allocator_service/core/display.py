"""Texts of quantities, money, instants and counts for people.

Machines get exact decimals (`core.quantities`) and ISO 8601 instead.
"""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Literal
from zoneinfo import ZoneInfo

from allocator_service.core.quantities import Resource, decimal_text

Precision = Literal["day", "minute", "second", "time"]

# Of a percentage, but for rounding of floating-point numbers.
_ALL = Decimal("99.9999999")
_LEAST, _WITHOUT_FRACTION = Decimal("0.001"), Decimal(10_000)
_CLOCKS = {"minute": "%H:%M", "second": "%H:%M:%S"}
# Words and abbreviations of devices (GPU, vCPU) have a plural. Symbols such as GiB, MHz or W have none.
_NOUN = re.compile(r"[a-z]{3,}|v?[A-Z]{1,3}U|FPGA", re.ASCII)
_NAMED_BY_UNIT = {("cpu", "core"), ("cpus", "core")}


def number_text(value: Decimal) -> str:
    """Return a number with up to four significant digits, or without a fraction from 10,000 on."""
    size = abs(value)
    if not value or size >= _WITHOUT_FRACTION:
        return f"{value:,.0f}"
    if size < _LEAST:
        return "less than 0.001" if value > 0 else "nearly 0"
    rounded = round(value, 3 - size.adjusted())
    return f"{int(rounded):,}" if rounded == int(rounded) else f"{rounded.normalize():,f}"


def unit_text(unit: str, count: str = "") -> str:
    """Return a unit in singular if `count` is "1", otherwise in plural if it has one.

    For example core, cores; GiB, GiB.
    """
    if not _NOUN.fullmatch(unit):
        return unit
    one = unit[:-1] if unit.endswith("s") and not unit.endswith("ss") else unit
    return one if count == "1" else f"{one}s"


def quantity_text(value: Decimal, unit: str = "") -> str:
    """Return a quantity with its unit, such as 4 GPUs, 1,234 cores, 138.2 GiB."""
    number = number_text(value)
    return f"{number} {unit_text(unit, number)}".rstrip()


def exact_text(value: Decimal, unit: str = "") -> str:
    """Return a quantity with all of its digits, in groups of three, and its unit."""
    number = f"{Decimal(decimal_text(value)):,f}"
    return f"{number} {unit_text(unit, number)}".rstrip()


def noun_of(resource: Resource, count: str = "") -> str:
    """Return the noun after an amount of a resource, such as cores, GPUs, GiB memory, a100 GPUs."""
    name, unit = resource.name, resource.unit
    one = unit_text(unit, "1")
    if not unit:
        return name
    if one.lower() in (name.lower(), unit_text(name.lower(), "1")) or (name, one) in _NAMED_BY_UNIT:
        return unit_text(unit, count)
    counted = unit_text(unit, count)
    return f"{name} {counted}" if _NOUN.fullmatch(unit) else f"{counted} {name}"


def resource_text(value: Decimal, resource: Resource) -> str:
    """Return an amount of a resource with its noun, such as 4 GPUs, 24.35 cores, 2 GiB memory."""
    number = number_text(value)
    return f"{number} {noun_of(resource, number)}"


def exact_resource_text(value: Decimal, resource: Resource) -> str:
    """Return an amount that someone set, such as 8.9999999999 GPUs, with all of its digits.

    Rounded, it could be another setting.
    """
    number = exact_text(value)
    return f"{number} {noun_of(resource, number)}"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun, such as 1 pool, 2,000 pools."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def twelve_digits(number: float | Decimal) -> str:
    """Return a number without the digits in which rounding depends on other tenants."""
    return f"{number:.12g}"


def percent_text(fraction: float | Decimal) -> str:
    """Return a fraction in percent with at most four digits, such as 71.43 %.

    A no-break space keeps the sign beside its number in narrow columns.
    """
    percent = Decimal(twelve_digits(fraction)) * 100
    shown = number_text(percent)
    # Less than all is not called all.
    if shown == "100" and percent < _ALL:
        shown = "less than 100"
    return f"{shown}\N{NO-BREAK SPACE}%"


def money_text(amount: str | Decimal, currency: str = "") -> str:
    """Return an amount of money with thousands separators and all digits, such as 1,234.50 EUR."""
    return f"{Decimal(amount):,f} {currency}".rstrip()


def local_time(at: datetime, zone: str) -> datetime:
    """Return an instant by the clocks of a time zone.

    At the ends of the calendar, where the zone has no such day, it keeps the clocks that it has.
    """
    try:
        return at.astimezone(ZoneInfo(zone))
    except OverflowError:
        return at


def instant_text(at: datetime, zone: str = "UTC", precision: Precision = "minute") -> str:
    """Return an instant in a time zone, such as 24 November 2026, 07:50 UTC.

    The precision "time" leaves the day out.
    """
    there = local_time(at, zone)
    day = f"{there.day} {there:%B %Y}"
    if precision == "day":
        return day
    named = there.tzname() or zone
    if precision == "time":
        return f"{there:%H:%M:%S} {named}"
    return f"{day}, {there:{_CLOCKS[precision]}} {named}"


def list_instant_text(at: datetime) -> str:
    """Return an instant in UTC for a narrow column, such as 24 Nov 2026, 07:50:12 UTC.

    The day and the time have no-break spaces, so that a line breaks between them.
    """
    there = at.astimezone(UTC)
    day, time = f"{there.day} {there:%b %Y}", f"{there:%H:%M:%S} UTC"
    return ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in (day, time))


def short_day(at: date) -> str:
    """Return a day without its year, for axes, such as 24 Nov."""
    return f"{at.day} {at:%b}"


def month_text(month: str) -> str:
    """Return the text of a month, such as October 2026 for 2026-10."""
    return f"{date.fromisoformat(f'{month}-01'):%B %Y}"
