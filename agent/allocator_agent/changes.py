"""Changes of objects, as plans show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ADD, CHANGE, REMOVE = "+", "~", "-"


@dataclass(frozen=True)
class Value:
    """A limit, quota or other field with its text before and after, empty where it has none."""

    name: str
    before: str
    after: str

    def text(self) -> str:
        """Return the value as a person reads it."""
        return f"{self.name} {' -> '.join(filter(None, (self.before, self.after)))}"


@dataclass(frozen=True)
class ObjectChange:
    """An object to add, to change or to remove."""

    sign: str
    name: str
    values: tuple[Value, ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the object, each of its values and each of its notes."""
        texts = [*(value.text() for value in self.values), *self.notes]
        return [f"  {self.sign} {self.name}", *(f"      {text}" for text in texts)]


def by_object(changes: Iterable[ObjectChange]) -> list[ObjectChange]:
    """Return one change for each object, sorted by name."""
    found: dict[str, list[ObjectChange]] = {}
    for change in changes:
        found.setdefault(change.name, []).append(change)
    return [_joined(found[name]) for name in sorted(found)]


def plan_lines(title: str, changes: Iterable[ObjectChange]) -> list[str]:
    """Return the changes of one side below its title, no line for none."""
    lines = [line for change in by_object(changes) for line in change.lines()]
    return [f"{title}:", *lines] if lines else []


def counts_text(changes: Iterable[ObjectChange]) -> str:
    """Return how many objects are added, changed and removed."""
    signs = [change.sign for change in by_object(changes)]
    add, change, remove = (signs.count(sign) for sign in (ADD, CHANGE, REMOVE))
    return f"{add} to add, {change} to change, {remove} to remove"


def _joined(changes: Sequence[ObjectChange]) -> ObjectChange:
    """Return several changes of an object as one."""
    # An account's limits and minutes are written by commands of their own.
    signs = {change.sign for change in changes}
    return ObjectChange(
        signs.pop() if len(signs) == 1 else CHANGE,
        changes[0].name,
        tuple(value for change in changes for value in change.values),
        tuple(note for change in changes for note in change.notes),
    )


def few(names: Iterable[str], *, most: int = 10) -> str:
    """Return names as a text that fits into a line."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
