"""What commands print: tables for people, the API's documents for scripts."""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import click

from allocator_client.answers import Download, Rows

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
