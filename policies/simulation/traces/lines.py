"""Reader of a trace's file, line by line, with errors that name the line."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from policies.errors import ProblemError

# What is remembered of bad lines that are skipped; all of them are counted.
MOST_REMEMBERED = 20
LONGEST_LINE = 1_000_000
# Larger amounts and times are mistakes, and sums of them would be inexact.
LARGEST = 1e15


class TraceLineError(ProblemError):
    """A line of a trace cannot be read (``trace.line``).

    Attributes:
        line: its number, from 1 on; 0 for the file as a whole.
        reason: a sentence.
    """

    code = "trace.line"

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(self.code, f"line {line}: {reason}" if line else reason)
        self.line = line
        self.reason = reason

    def __reduce__(self) -> tuple[type[TraceLineError], tuple[object, ...]]:
        # Exceptions are pickled with the arguments of their base, which here are others.
        return type(self), (self.line, self.reason)


class Unusable(ValueError):
    """Reason for which one line cannot be read."""


@dataclass(frozen=True)
class BadLine:
    """Line that was skipped, with its number from 1 and the reason."""

    line: int
    reason: str


class LineReader:
    """Goes through the lines of a file and keeps account of bad ones.

    Attributes:
        bad: the first bad lines; bad_lines: how many there were.
    """

    def __init__(self, path: str | Path, *, skip_bad_lines: bool) -> None:
        self.path, self.skip = Path(path), skip_bad_lines
        self.number, self.bad_lines = 0, 0
        self.bad: list[BadLine] = []

    def lines(self) -> Iterator[str]:
        """Yield every line without its end.

        Files that end in ``.gz`` are unpacked on the way.

        Raises:
            TraceLineError: the file cannot be read, is not UTF-8, or ends in the middle.
        """
        try:
            with _opened(self.path) as file:
                # A limit, so that a file without ends of lines does not fill the memory.
                while line := file.readline(LONGEST_LINE):
                    self.number += 1
                    yield line.rstrip("\r\n")
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise TraceLineError(
                self.number, f"{self.path.name} cannot be read: {error}"
            ) from error

    def refuse(self, error: Unusable) -> None:
        """Note a bad line, or stop at it.

        Raises:
            TraceLineError: bad lines are not to be skipped.
        """
        if not self.skip:
            raise TraceLineError(self.number, str(error)) from error
        self.bad_lines += 1
        if len(self.bad) < MOST_REMEMBERED:
            self.bad.append(BadLine(self.number, str(error)))


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    if path.suffix == ".gz":
        # utf-8-sig, because spreadsheets write a mark before the first column's name.
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="\n") as file:
            yield file
    else:
        with path.open(encoding="utf-8-sig", newline="\n") as plain:
            yield plain


def require(holds: bool, reason: str) -> None:
    """Raise Unusable with the reason unless something holds."""
    if not holds:
        raise Unusable(reason)


def number(text: str, what: str, *, least: float = -LARGEST) -> float:
    """Return a finite number that is at least ``least``.

    Raises:
        Unusable: the text is not such a number.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # Python reads 1_000 as a number; other programs do not.
    if not least <= value <= LARGEST or "_" in text:
        bound = "" if least == -LARGEST else f" from {least:g} on"
        raise Unusable(f"{what} is {text[:40]!r}; it must be a number{bound}")
    return value


def fields(line: str, separator: str | None, count: int) -> list[str]:
    """So many fields.

    Raises:
        Unusable: there are more or fewer.
    """
    found = line.split(separator)
    if len(found) != count:
        raise Unusable(f"it has {len(found)} fields; it needs {count}")
    return found
