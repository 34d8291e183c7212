"""The operators' board, the admin's first page: each app says what an operator is to know of it.

An app registers sections, as it registers its models. A section makes a few statements however many
pools there are, and asks for a permission.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from allocator_service.core.visible import VisiblePools, visible_pools

NOTICES_SHOWN = 50


class Urgency(StrEnum):
    """How a notice looks: an `ERROR` keeps something from working, a `WARNING` can wait for a person."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Notice:
    """What needs a person, and where to go for it."""

    urgency: Urgency
    text: str
    url: str = ""


@dataclass(frozen=True)
class Cell:
    """What stands in a table; `number`: it is aligned with those above and below. `bad` is marked."""

    text: str
    url: str = ""
    number: bool = False
    bad: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under a heading; `more` leads to those that are not shown."""

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
    """What one app has to say."""

    notices: Sequence[Notice] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Board:
    """All sections: what needs a person first; `hidden` is how many notices are not shown."""

    notices: Sequence[Notice] = ()
    hidden: int = 0
    tables: Sequence[Table] = field(default_factory=tuple)


Told = Callable[[datetime, VisiblePools], Section]
_sections: list[tuple[int, str, Told]] = []


def tells(*, permission: str, place: int) -> Callable[[Told], Told]:
    """Register a function that writes a section of the board of people with a permission.

    Sections are in order of `place`. The function is given the time and the pools to write about.
    """

    def register(told: Told) -> Told:
        _sections.append((place, permission, told))
        return told

    return register


def board_for(viewer: Any, *, now: datetime) -> Board:
    """What there is to know now for a user of the admin."""
    in_order, pools = sorted(_sections, key=lambda section: section[0]), visible_pools(viewer)
    sections = [told(now, pools) for _, permission, told in in_order if viewer.has_perm(permission)]
    notices = sorted(_all_notices(sections), key=lambda notice: notice.urgency)
    return Board(
        notices[:NOTICES_SHOWN],
        max(len(notices) - NOTICES_SHOWN, 0),
        [table for section in sections for table in section.tables],
    )


def _all_notices(sections: Iterable[Section]) -> list[Notice]:
    return [notice for section in sections for notice in section.notices]
