"""Limits as text, one to a line, for forms."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import decimal_text, parse_quantity
from allocator_service.pools.limits import Limit, limits_from

HELP = (
    "One limit to a line: amounts; servers; from; to. Such as"
    ' "gpu=8; gpu=h100,a100; 2027-01-01T00:00Z; 2027-04-01T00:00Z", or "gpu=8" for all servers'
    " at any time."
)


class LimitsField(forms.CharField):
    """Lines of limits, as a list of `Limit`."""

    def __init__(self) -> None:
        super().__init__(
            label="limit",
            required=False,
            help_text=HELP,
            widget=forms.Textarea(attrs={"rows": 3, "cols": 80, "spellcheck": "false"}),
        )

    def clean(self, value: Any) -> list[Limit]:
        lines = [line for line in super().clean(value).splitlines() if line.strip()]
        return [_limit(line, number) for number, line in enumerate(lines, start=1)]


def limits_text(stored: Iterable[Mapping[str, Any]]) -> str:
    """Return the lines of limits that a node keeps."""
    return "\n".join(_line(limit) for limit in limits_from(stored))


def _line(limit: Limit) -> str:
    amounts = ", ".join(f"{name}={decimal_text(amount)}" for name, amount in limit.amount.items())
    servers = " ".join(
        f"{label}={values if isinstance(values, str) else ','.join(values)}"
        for label, values in limit.where.items()
    )
    dates = [_date(limit.start), _date(limit.end)]
    return "; ".join([amounts, servers, *dates]).rstrip("; ")


def _date(instant: datetime | None) -> str:
    if instant is None:
        return ""
    text = instant.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return text.replace(":00Z", "Z")


def _limit(line: str, number: int) -> Limit:
    parts = [part.strip() for part in line.split(";")]
    if len(parts) > 4:
        raise _wrong(number, "expected at most four parts: amounts; servers; from; to")
    amounts, servers, start, end = parts + [""] * (4 - len(parts))
    try:
        amount = {
            name: parse_quantity(text)
            for name, text in _pairs(amounts.replace(",", " ").split(), number)
        }
    except Unacceptable as error:
        raise _wrong(number, error.detail) from error
    where = {label: text.split(",") for label, text in _pairs(servers.split(), number)}
    return Limit(amount, where, _instant(start, number), _instant(end, number))


def _pairs(texts: Iterable[str], number: int) -> Iterable[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise _wrong(number, f'expected name=value, got "{text}"')
        yield name, value


def _instant(text: str, number: int) -> datetime | None:
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise _wrong(number, f'expected a time such as 2027-01-01T00:00Z, got "{text}"') from error
    if instant.tzinfo is None:
        raise _wrong(number, f'"{text}" needs an offset, such as Z for UTC')
    return instant.astimezone(UTC)


def _wrong(number: int, detail: str) -> ValidationError:
    return ValidationError(f"Limit {number}: {detail}.")


def limits_changed(limits: Iterable[Limit], at: datetime) -> list[dict[str, Any]]:
    """Return the limits in force at an instant as a simulation takes them."""
    return [
        {
            "where": dict(limit.where),
            "amount": {name: decimal_text(amount) for name, amount in limit.amount.items()},
        }
        for limit in limits
        if limit.is_in_force(at)
    ]
