"""Sources of the values that a document is written from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

Getter = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Given:
    """A path of attributes that begins at the context of a document, not at the object."""

    path: str


# A path of attributes that begins at the object, where "." is the object itself; a path in the
# context; or a function of the object and the context.
Source = str | Given | Callable[[Any, Any], Any]


def getter_of(source: Source) -> Getter:
    """Return the function of an object and a context that finds a field's value."""
    if isinstance(source, Given):
        find = _path_getter(source.path)
        return lambda _, context: find(context)
    if isinstance(source, str):
        find = _path_getter(source)
        return lambda found, _: find(found)
    return source


def lookup_of(source: Source) -> str | None:
    """Return the column of a query that holds the value, or None if the context holds it.

    Raises:
        TypeError: a query has no column for a function of the object.
    """
    if isinstance(source, Given):
        return None
    if not isinstance(source, str) or source == ".":
        raise TypeError(f"No column holds the source {source!r}.")
    return source.replace(".", "__")


def _path_getter(path: str) -> Callable[[Any], Any]:
    if path == ".":
        return lambda found: found
    if "." not in path:
        return attrgetter(path)
    names = path.split(".")

    def find(found: Any) -> Any:
        for name in names:
            # A relation that is null ends the path, as an outer join does.
            if found is None:
                return None
            found = getattr(found, name)
        return found

    return find
