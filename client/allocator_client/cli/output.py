"""What commands print: tables for people, the API's documents for scripts."""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import chain, islice
from typing import Any

import click

from allocator_client.answers import Download, Rows

SECONDS_PER_HOUR = 3600
_DIGITS = 4
_NONE = "-"
# Widths are those of the first rows, so that a list of any length is shown while it comes.
_MEASURED = 1000


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns; those whose heading starts with `>` are of numbers, set to the right."""
    right = [heading.startswith(">") for heading in headings]
    titles = [heading.removeprefix(">") for heading in headings]
    coming = iter(rows)
    measured = [[_clean(cell) for cell in row] for row in islice(coming, _MEASURED)]
    widths = [max(map(_width, column)) for column in zip(titles, *measured, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            _pad(cell, width, right=is_right)
            for cell, width, is_right in zip(cells, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    click.secho(line(titles), bold=True)
    for row in chain(measured, ([_clean(cell) for cell in row] for row in coming)):
        click.echo(line(row))


def say(text: str = "") -> None:
    """Print a line for a person; what the service has from others cannot steer the terminal."""
    click.echo(_clean(text))


def note(text: str) -> None:
    """Say something beside the output."""
    click.echo(_clean(text), err=True)


def print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(document: object) -> None:
    click.echo(json.dumps(document, ensure_ascii=False))


def print_rows(
    rows: Rows[Any], *, around: Mapping[str, object] | None = None, member: str = "allocations"
) -> None:
    """A list as the document of one page that holds all of it, a row a line while they come.

    `around` are members that come before it; the page is then the member of that name.
    """
    before = "".join(
        f"{json.dumps(name)}: {_compact(each)},\n" for name, each in (around or {}).items()
    )
    click.echo(f'{{{before}"{member}": {{"results": [' if around else '{"results": [', nl=False)
    for number, row in enumerate(rows):
        click.echo(f"{',' if number else ''}\n{_compact(row)}", nl=False)
    click.echo('\n], "next": null}' + ("}" if around else ""))


def print_pieces(pieces: Iterable[str]) -> None:
    for piece in pieces:
        click.echo(piece, nl=False)


def print_file(download: Download) -> None:
    """A file of the service to standard output, while it comes."""
    with download.open() as pieces:
        for piece in pieces:
            click.echo(piece, nl=False)


def _compact(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)


def number(value: object) -> str:
    """A number for a person: four significant digits, all of those before the point.

    >>> [number(each) for each in (12583, 5 / 7, "15.50", 1234.5678, 0.00001234, None)]
    ['12,583', '0.7143', '15.5', '1,235', '1.23e-5', '-']
    """
    if value is None:
        return _NONE
    try:
        exact = Decimal(str(value))
    except InvalidOperation:
        return str(value)
    if not exact.is_finite():
        return str(value)
    if exact and abs(exact) < Decimal("0.0001"):
        mantissa, _, exponent = f"{exact:.2e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    places = max(0, _DIGITS - 1 - exact.adjusted()) if abs(exact) >= 1 else _DIGITS
    text = f"{exact:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: object) -> str:
    return _NONE if value is None else f"{100 * float(str(value)):.1f} %"


def instant(text: str | None) -> str:
    """A time to the second, in UTC.

    >>> instant("2027-01-04T09:00:00.123456+01:00")
    '2027-01-04 08:00:00Z'
    """
    if text is None:
        return _NONE
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def quantities(amounts: Mapping[str, object], units: Mapping[str, str] | None = None) -> str:
    """Amounts of resources in a line: `cpu 2 core, memory 12 GiB`."""
    parts = []
    for name, amount in amounts.items():
        unit = (units or {}).get(name, "")
        parts.append(f"{name} {number(amount)}{f' {unit}' if unit else ''}")
    return ", ".join(parts) or _NONE


def _clean(text: str) -> str:
    """Without what moves the cursor, colours the screen, or turns the direction of the text."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * max(0, width - _width(text))
    return space + text if right else text + space


def _width(text: str) -> int:
    """Columns of a terminal: Chinese, Japanese and Korean letters take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
