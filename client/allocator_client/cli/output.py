"""Output of commands, as tables for people or as the API's documents for scripts."""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import click

from allocator_client.answers import Download, Rows

# Widths are those of the first rows, so that a list of any length is shown while it arrives.
_MEASURED = 1000


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns.

    Columns whose heading starts with `>` have numbers and are aligned to the right.
    """
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


def echo(text: str = "") -> None:
    """Print a line for people.

    Control characters are replaced, because texts of other tenants must not steer the terminal.
    """
    click.echo(_clean(text))


def note(text: str) -> None:
    """Print a line to standard error."""
    click.echo(_clean(text), err=True)


def print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(document: object) -> None:
    click.echo(json.dumps(document, ensure_ascii=False))


def print_rows(
    rows: Rows[Any], *, around: Mapping[str, object] | None = None, member: str = "allocations"
) -> None:
    """Print a list as a document with one page of all rows, each on a line as soon as it arrives.

    `around` are members of an outer document. The page is then its last member, with the name `member`.
    """
    before = "".join(
        f"{json.dumps(name)}: {_compact(each)},\n" for name, each in (around or {}).items()
    )
    # By hand: a list of any length is printed without being held in memory.
    click.echo(f'{{{before}"{member}": {{"results": [' if around else '{"results": [', nl=False)
    for number, row in enumerate(rows):
        click.echo(f"{',' if number else ''}\n{_compact(row)}", nl=False)
    click.echo('\n], "next": null}' + ("}" if around else ""))


def print_pieces(pieces: Iterable[str]) -> None:
    for piece in pieces:
        click.echo(piece, nl=False)


def print_file(download: Download) -> None:
    """Print a file of the service while it arrives."""
    with download.open() as pieces:
        for piece in pieces:
            click.echo(piece, nl=False)


def _compact(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)


def _clean(text: str) -> str:
    """Replace characters that move the cursor, colour the screen or change the direction of text."""
    # Most texts: `isprintable` is one call, and the copy below takes one per character.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * max(0, width - _width(text))
    return space + text if right else text + space


def _width(text: str) -> int:
    """Return the columns that a text takes in a terminal.

    Chinese, Japanese and Korean letters take two, combining accents none.
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
