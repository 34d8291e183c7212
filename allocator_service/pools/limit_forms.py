"""Limits as lines of text, for forms of the admin."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from allocator_service.core.quantities import decimal_text, parse_quantity
from allocator_service.pools.limits import NOUNS, Limit, is_same_list, limits_from
from allocator_service.pools.models import GroupTerms, MembershipTerms, OwnServers

_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?", re.ASCII)
HELP = (
    "One {kind} per line: amounts of resources; labels of servers; from; to. Examples:"
    ' "gpu=8; gpu=h100,a100; 2027-01-01T00:00Z; 2027-04-01T00:00Z", or "gpu=8" for all servers'
    " without dates."
)


class LimitsField(forms.CharField):
    """A text of limits, one per line, which is cleaned to a list of `Limit`."""

    def __init__(self, kind: str = "limit") -> None:
        self._kind = kind
        super().__init__(
            label=kind.capitalize(),
            required=False,
            help_text=HELP.format(kind=NOUNS[kind]),
            widget=forms.Textarea(attrs={"rows": 3, "cols": 80, "spellcheck": "false"}),
        )

    def clean(self, value: Any) -> list[Limit]:
        return limits_parse(super().clean(value), self._kind)


def limits_parse(text: str, kind: str = "limit") -> list[Limit]:
    """Return the limits, guarantees or loans in a text, one per line. Raises `ValidationError`."""
    found = []
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_parse_line(line))
        except ValidationError as error:
            noun = NOUNS[kind].capitalize()
            raise ValidationError(f"{noun} {number}: {error.messages[0]}.") from error
    return found


def limits_text(stored: Iterable[Mapping[str, Any]]) -> str:
    """Return the limits that a node stores, one per line."""
    return "\n".join(_line_of(limit) for limit in limits_from(stored))


def _line_of(limit: Limit) -> str:
    amounts = ", ".join(f"{name}={decimal_text(amount)}" for name, amount in limit.amount.items())
    servers = " ".join(
        f"{label}={values if isinstance(values, str) else ','.join(values)}"
        for label, values in limit.where.items()
    )
    dates = [_instant_text(limit.start), _instant_text(limit.end)]
    return "; ".join([amounts, servers, *dates]).rstrip("; ")


def _instant_text(instant: datetime | None) -> str:
    if instant is None:
        return ""
    text = instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
    # Seconds are left out where they are 0, as people write times.
    return text.replace(":00Z", "Z")


def _parse_line(line: str) -> Limit:
    parts = [part.strip() for part in line.split(";")]
    if len(parts) > 4:
        raise ValidationError("expected at most four parts: amounts; servers; from; to")
    amounts, servers, start, end = parts + [""] * (4 - len(parts))
    amount = {
        name: _parse_amount(text) for name, text in _parse_pairs(amounts.replace(",", " ").split())
    }
    where = {label: text.split(",") for label, text in _parse_pairs(servers.split())}
    # An empty value is a comma too many. It would match servers with an empty label.
    if any(not value for values in where.values() for value in values):
        raise ValidationError(f'expected values between the commas, got "{servers}"')
    return Limit(amount, where, _parse_instant(start), _parse_instant(end))


def _parse_amount(text: str) -> Decimal:
    # Suffixes such as Gi depend on the resource's unit, which a form does not know.
    if not _NUMBER.fullmatch(text):
        raise ValidationError(f'expected a number in the unit of the resource, got "{text}"')
    return parse_quantity(text)


def _parse_pairs(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    seen = set()
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ValidationError(f'expected name=value, got "{text}"')
        if name in seen:
            raise ValidationError(f'"{name}" is named twice')
        seen.add(name)
        yield name, value


def _parse_instant(text: str) -> datetime | None:
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None:
            raise ValidationError(
                f'expected a time with an offset, such as Z for UTC, got "{text}"'
            )
        # An offset can move an instant beyond the years that `datetime` has: OverflowError.
        return instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValidationError(f'expected a time such as 2027-01-01T00:00Z, got "{text}"') from error


def own_servers_form_field() -> forms.ChoiceField:
    """Return a field for the setting of a node for own servers."""
    return forms.ChoiceField(
        label="Own servers",
        required=False,
        choices=[
            (OwnServers.INHERIT, "inherit: as the group above or the pool"),
            (OwnServers.YES, "guarantee what a workload gets alone on its tenant's servers"),
            (OwnServers.NO, "no guarantee of own servers"),
        ],
    )


def has_changed(
    terms: GroupTerms | MembershipTerms, cleaned: Mapping[str, Any], kinds: Iterable[str]
) -> bool:
    """Return True if a form changes amounts or the setting for own servers."""
    return cleaned["own_servers"] not in ("", terms.own_servers) or any(
        not is_same_list(cleaned[kind], limits_from(getattr(terms, kind))) for kind in kinds
    )
