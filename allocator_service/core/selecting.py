"""Reads of single objects, which are missing to callers that may not see them."""

from typing import TypeVar

from django.db.models import Model, QuerySet

from allocator_service.core.errors import Missing

M = TypeVar("M", bound=Model)


def missing(code: str) -> Missing:
    """Return the error of a code such as `price_plan.not_found`."""
    noun = code.partition(".")[0].replace("_", " ")
    return Missing(f"There is no such {noun}.", code=code)


def get_or_missing(queryset: QuerySet[M], code: str, **lookup: object) -> M:
    """Return the object of a lookup. Raises `Missing` if there is none, or a value is None."""
    # A text that is no id or slug is read as None, and NULL is never a key.
    found = None if None in lookup.values() else queryset.filter(**lookup).first()
    if found is None:
        raise missing(code)
    return found
