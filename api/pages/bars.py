"""One bar for each resource of a tenant's part, as an SVG that needs neither script nor inline style."""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.pages.parts import Part

# Room beside the longest part, so that the mark of the entitlement is inside the picture.
_ROOM = Decimal("1.04")


@dataclass(frozen=True)
class Area:
    """A rectangle of a bar, in percent of its width."""

    kind: str
    start: str
    width: str


@dataclass(frozen=True)
class Bar:
    """A tenant's part of a resource.

    `mark` is the place of the entitlement, `used` the length of the line of what is used.
    """

    areas: list[Area]
    mark: str
    used: str | None


def bar_of(part: "Part") -> Bar | None:
    """Return the bar of a resource, or None where nothing of it is known or there is none."""
    if part.entitled is None or part.has is None:
        return None
    borrowed, lent = part.borrowed or Decimal(0), part.lent or Decimal(0)
    full = max(part.entitled, part.has, part.used or Decimal(0)) * _ROOM
    if not full:
        return None

    def percent(amount: Decimal) -> str:
        return f"{100 * amount / full:.2f}%"

    own = max(part.has - borrowed, Decimal(0))
    edges = [("own", Decimal(0), own), ("lent", own, lent), ("borrowed", part.entitled, borrowed)]
    areas = [
        Area(kind, percent(start), percent(length)) for kind, start, length in edges if length > 0
    ]
    used = None if part.used is None else percent(part.used)
    return Bar(areas, percent(part.entitled), used)
