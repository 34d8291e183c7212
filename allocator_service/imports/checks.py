"""What a name, a label or a whole number of a file must be: as strict as the API is."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import pointer_token
from allocator_service.imports.rows import Selector
from allocator_service.tenants.models import SLUG_PATTERN
from policies.fields import is_one_line

MAX_TEXT = 253
MAX_TITLE = 200
MAX_LABELS = 64
_SLUG = re.compile(SLUG_PATTERN, re.ASCII)
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,12})?"
    r"(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII,
)
_WHOLE = re.compile(r"-?[0-9]{1,20}", re.ASCII)


def checked_text(value: object, pointer: str, *, blank: bool = False) -> str:
    """One line of at most 253 characters. Raises `Unacceptable`."""
    if not isinstance(value, str):
        raise Unacceptable("Expected text.", code="field.type", pointer=pointer)
    if not value and not blank:
        raise Unacceptable("Expected text that is not empty.", code="field.blank", pointer=pointer)
    if len(value) > MAX_TEXT:
        raise Unacceptable(
            f"This has at most {MAX_TEXT} characters.", code="field.length", pointer=pointer
        )
    if not is_one_line(value):
        raise Unacceptable(
            "Expected one line without blanks at its ends or characters that control text.",
            code="field.text",
            pointer=pointer,
        )
    return value


def checked_title(value: object, pointer: str) -> str:
    """The name of a tenant: one line of at most 200 characters. Raises `Unacceptable`."""
    text = checked_text(value, pointer)
    if len(text) > MAX_TITLE:
        detail = f"This has at most {MAX_TITLE} characters."
        raise Unacceptable(detail, code="field.length", pointer=pointer)
    return text


def checked_slug(value: object, pointer: str) -> str:
    """The slug of a tenant. Raises `Unacceptable`."""
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


def slug_of(name: str, pointer: str) -> str:
    """The slug that an account, a user or a group of another system has here.

    Lower case, with hyphens for `_` and `.`. Raises `Unacceptable` for what is no slug then either.
    """
    return checked_slug(name.lower().replace("_", "-").replace(".", "-"), pointer)


def checked_instant(text: object, pointer: str) -> datetime:
    """An instant as RFC 3339 writes it; without an offset it is in UTC. Raises `Unacceptable`."""
    refusal = Unacceptable(
        f'"{str(text)[:40]}" is not an instant such as 2026-01-05T00:00:00Z.',
        code="timestamp.syntax",
        pointer=pointer,
    )
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        raise refusal
    try:
        instant = datetime.fromisoformat(text.upper())
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise refusal from error


def refuse_other_width(values: Sequence[str], header: Sequence[str]) -> None:
    """Raise `Unacceptable` for a row that has not a cell for each column."""
    if len(values) != len(header):
        raise Unacceptable(
            f"The row has {len(values)} cells, the header {len(header)}.", code="row.cells"
        )


def checked_labels(labels: Mapping[str, object], pointer: str) -> dict[str, str]:
    """At most 64 labels, texts keyed by texts. Raises `Unacceptable`."""
    if len(labels) > MAX_LABELS:
        raise Unacceptable(
            f"There are {len(labels)} labels; at most {MAX_LABELS} are kept.",
            code="labels.count",
            pointer=pointer,
        )
    return {
        checked_text(key, f"{pointer}/{pointer_token(key)}"): checked_text(
            value, f"{pointer}/{pointer_token(key)}", blank=True
        )
        for key, value in labels.items()
    }


def checked_selector(selector: Mapping[str, list[str]], pointer: str) -> Selector:
    """For each label the values allowed, a single one as itself. Raises `Unacceptable`."""
    checked_labels(dict.fromkeys(selector, ""), pointer)
    checked: Selector = {}
    for label, values in selector.items():
        where = f"{pointer}/{pointer_token(label)}"
        allowed = list(dict.fromkeys(checked_text(value, where, blank=True) for value in values))
        if not 1 <= len(allowed) <= 100:
            raise Unacceptable(
                "A selector names 1 to 100 values of a label.", code="selector.count", pointer=where
            )
        checked[label] = allowed[0] if len(allowed) == 1 else allowed
    return checked


def whole_number(text: str, pointer: str, *, minimum: int, maximum: int) -> int:
    """A whole number from `minimum` to `maximum`. Raises `Unacceptable`."""
    if not _WHOLE.fullmatch(text):
        raise Unacceptable(
            f'"{text[:40]}" is not a whole number, written without a fraction.',
            code="field.type",
            pointer=pointer,
        )
    number = int(text)
    if not minimum <= number <= maximum:
        raise Unacceptable(
            f"This is a whole number from {minimum} to {maximum}.",
            code="field.range",
            pointer=pointer,
        )
    return number
