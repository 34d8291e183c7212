"""The operators' board on the first page of the admin.

An app registers sections, as it registers its models. A section makes a few statements however many
pools there are, and requires a permission.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from allocator_service.core.visible import VisiblePools, visible_pools

NOTICES_SHOWN = 50


class Urgency(StrEnum):
    """The urgency of a notice.

    An `ERROR` keeps something from working, a `WARNING` can wait for a person.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Notice:
    """Something that needs a person, with the page where to act on it."""

    urgency: Urgency
    text: str
    url: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    `number` aligns it with those above and below. `bad` marks it.
    """

    text: str
    url: str = ""
    number: bool = False
    bad: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under a heading, where `more` leads to those that are not shown."""

    title: str
    columns: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    more: Cell | None = None

    @property
    def labelled(self) -> list[list[tuple[Cell, Cell]]]:
        """Rows with the column of each cell."""
        return [list(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Section:
    """The notices and tables of one app."""

    notices: Sequence[Notice] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Board:
    """All sections, with the most urgent notices first.

    `hidden` is the number of notices that are not shown.
    """

    notices: Sequence[Notice] = ()
    hidden: int = 0
    tables: Sequence[Table] = field(default_factory=tuple)


SectionWriter = Callable[[datetime, VisiblePools], Section]
_sections: list[tuple[int, str, SectionWriter]] = []


def board_section(*, permission: str, place: int) -> Callable[[SectionWriter], SectionWriter]:
    """Register a function that writes a section of the board, for users with a permission.

    Sections are in order of `place`. The function gets the time and the pools to write about.
    """

    def register(write: SectionWriter) -> SectionWriter:
        _sections.append((place, permission, write))
        return write

    return register


def board_for(viewer: Any, *, now: datetime) -> Board:
    """Return the board of a user of the admin at an instant."""
    in_order, pools = sorted(_sections, key=lambda section: section[0]), visible_pools(viewer)
    sections = [
        write(now, pools) for _, permission, write in in_order if viewer.has_perm(permission)
    ]
    notices = sorted(_all_notices(sections), key=lambda notice: notice.urgency)
    return Board(
        notices[:NOTICES_SHOWN],
        max(len(notices) - NOTICES_SHOWN, 0),
        [table for section in sections for table in section.tables],
    )


def _all_notices(sections: Iterable[Section]) -> list[Notice]:
    return [notice for section in sections for notice in section.notices]
