"""Mistakes in a document, with their places."""

from __future__ import annotations

from collections.abc import Sequence

from policies.errors import Mistake


class Mistakes(ValueError):
    """Mistakes in a value, with pointers that start at the value."""

    def __init__(self, found: Sequence[Mistake]) -> None:
        super().__init__(found[0].detail)
        self.found = found

    def under(self, name: str | int) -> list[Mistake]:
        """Return the mistakes as seen from the object or array that has the value as member ``name``."""
        place = f"/{escaped(name)}"
        return [Mistake(place + each.pointer, each.code, each.detail) for each in self.found]


def mistake(code: str, detail: str, pointer: str = "") -> Mistakes:
    """Return a single mistake, to be raised."""
    return Mistakes([Mistake(pointer, code, detail)])


def escaped(name: str | int) -> str:
    """Return a name as a token of a JSON pointer (RFC 6901)."""
    return str(name)[:200].replace("~", "~0").replace("/", "~1")
