"""Checks of the values in files, as strict as the API's."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import pointer_token
from allocator_service.imports.rows import Selector
from allocator_service.tenants.models import SLUG_PATTERN
from policies.fields import is_one_line

MAX_TEXT = 253
MAX_TITLE = 200
MAX_LABELS = 64
_SLUG = re.compile(SLUG_PATTERN, re.ASCII)
# `fromisoformat` reads more than RFC 3339 has, such as dates by week.
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,12})?"
    r"(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII,
)
# `Decimal` would read 1e9, NaN and the digits of other scripts.
_WEIGHT = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,12})?", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,20}", re.ASCII)


def check_text(value: object, pointer: str, *, blank: bool = False) -> str:
    """Return a text of one line of at most 253 characters. Raises `Unacceptable`."""
    if not isinstance(value, str):
        raise Unacceptable("Expected text.", code="field.type", pointer=pointer)
    if not value and not blank:
        raise Unacceptable("Expected text that is not empty.", code="field.blank", pointer=pointer)
    if len(value) > MAX_TEXT:
        raise Unacceptable(
            f"Expected at most {MAX_TEXT} characters.", code="field.length", pointer=pointer
        )
    if not is_one_line(value):
        raise Unacceptable(
            "Expected one line without leading or trailing blanks and control characters.",
            code="field.text",
            pointer=pointer,
        )
    return value


def check_title(value: object, pointer: str) -> str:
    """Return a tenant's name, one line of at most 200 characters. Raises `Unacceptable`."""
    text = check_text(value, pointer)
    if len(text) > MAX_TITLE:
        detail = f"Expected at most {MAX_TITLE} characters, got {len(text)}."
        raise Unacceptable(detail, code="field.length", pointer=pointer)
    return text


def check_slug(value: object, pointer: str) -> str:
    """Return a tenant's slug. Raises `Unacceptable`."""
    if not isinstance(value, str):
        raise Unacceptable("Expected text.", code="field.type", pointer=pointer)
    if not _SLUG.fullmatch(value):
        raise Unacceptable(
            f'"{value[:80]}" is not a slug: 1 to 63 lower-case letters, digits and hyphens, no hyphen at'
            " the ends.",
            code="slug.syntax",
            pointer=pointer,
        )
    return value


def slug_from_name(name: str, pointer: str) -> str:
    """Return the slug for an account, a user or a group of another system.

    The name is lowered, and `_` and `.` become hyphens. Raises `Unacceptable` if the result is not
    a slug.
    """
    return check_slug(name.lower().replace("_", "-").replace(".", "-"), pointer)


def check_instant(text: object, pointer: str) -> datetime:
    """Return an instant in the notation of RFC 3339, in UTC without an offset. Raises `Unacceptable`."""
    refusal = Unacceptable(
        f'"{str(text)[:40]}" is not an instant such as 2026-01-05T00:00:00Z.',
        code="timestamp.syntax",
        pointer=pointer,
    )
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        raise refusal
    try:
        # An offset can move an instant beyond the years that `datetime` has: OverflowError.
        # RFC 3339 allows `t` and `z` as well.
        instant = datetime.fromisoformat(text.upper())
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise refusal from error


def check_width(values: Sequence[str], header: Sequence[str]) -> None:
    """Raise `Unacceptable` unless a row has one cell for each column."""
    if len(values) != len(header):
        raise Unacceptable(
            f"Expected {len(header)} cells, as in the header, got {len(values)}.", code="row.cells"
        )


def check_labels(labels: Mapping[str, object], pointer: str) -> dict[str, str]:
    """Return at most 64 labels. Raises `Unacceptable`."""
    if len(labels) > MAX_LABELS:
        raise Unacceptable(
            f"Expected at most {MAX_LABELS} labels, got {len(labels)}.",
            code="labels.count",
            pointer=pointer,
        )
    return {
        check_text(key, f"{pointer}/{pointer_token(key)}"): check_text(
            value, f"{pointer}/{pointer_token(key)}", blank=True
        )
        for key, value in labels.items()
    }


def check_selector(selector: Mapping[str, list[str]], pointer: str) -> Selector:
    """Return the permitted values of each label, a single one as a text. Raises `Unacceptable`."""
    # The names and their number. The values are checked below.
    check_labels(dict.fromkeys(selector, ""), pointer)
    checked: Selector = {}
    for label, values in selector.items():
        where = f"{pointer}/{pointer_token(label)}"
        allowed = list(dict.fromkeys(check_text(value, where, blank=True) for value in values))
        if not 1 <= len(allowed) <= 100:
            raise Unacceptable(
                "Expected 1 to 100 values of a label.", code="selector.count", pointer=where
            )
        checked[label] = allowed[0] if len(allowed) == 1 else allowed
    return checked


def check_weight(text: str, pointer: str) -> Decimal:
    """Return a weight greater than 0 with at most 12 fractional digits. Raises `Unacceptable`."""
    if not _WEIGHT.fullmatch(text):
        raise Unacceptable(
            f'Expected a number such as 2 or 0.5 with at most 12 fractional digits, got "{text[:40]}".',
            code="field.type",
            pointer=pointer,
        )
    weight = Decimal(text)
    if not 0 < weight < Decimal(10) ** 12:
        raise Unacceptable(
            f"The weight must be greater than 0 and less than 10^12, got {text[:40]}.",
            code="weight.not_positive",
            pointer=pointer,
        )
    return weight


def check_whole_number(text: str, pointer: str, *, minimum: int, maximum: int) -> int:
    """Return a whole number from `minimum` to `maximum`. Raises `Unacceptable`."""
    if not _WHOLE.fullmatch(text):
        raise Unacceptable(
            f'Expected a whole number without a fraction, got "{text[:40]}".',
            code="field.type",
            pointer=pointer,
        )
    number = int(text)
    if not minimum <= number <= maximum:
        raise Unacceptable(
            f"Expected a whole number from {minimum} to {maximum}, got {number}.",
            code="field.range",
            pointer=pointer,
        )
    return number
