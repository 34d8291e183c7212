"""Reasons of a decision that name groups."""

from collections.abc import Callable

_LIMIT_OF_GROUP = "limit:group:"


def group_of_reason(limited_by: str) -> str | None:
    """Return the group whose limit a reason names, or None."""
    prefix, found, slug = limited_by.partition(_LIMIT_OF_GROUP)
    return slug if found and not prefix else None


def reason_renamed(limited_by: str, name: Callable[[str], str]) -> str:
    """Return a reason with another name for the group that it names."""
    slug = group_of_reason(limited_by)
    return limited_by if slug is None else f"{_LIMIT_OF_GROUP}{name(slug)}"
