"""The pools that a user sees, all of them or those that an operator is limited to.

Objects of other pools are absent, exactly as objects that do not exist. Pools are named by their slugs,
which never change.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from django.db.models import Model, QuerySet

from allocator_service.core.models import PoolLimit

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class VisiblePools:
    """The pools of these slugs, or with None every pool."""

    slugs: frozenset[str] | None

    @property
    def limited(self) -> bool:
        return self.slugs is not None

    def __contains__(self, slug: str) -> bool:
        return self.slugs is None or slug in self.slugs

    def of(self, rows: "QuerySet[M]", path: str) -> "QuerySet[M]":
        """Return the rows that belong to one of the pools, whose slugs `path` leads to from a row."""
        return rows if self.slugs is None else rows.filter(**{f"{path}__in": self.slugs})


ALL_POOLS: Final = VisiblePools(None)
_KEPT: Final = "_visible_pools"


def visible_pools(user: Any) -> VisiblePools:
    """Return the pools that a user of the admin sees, all unless the user is limited to some.

    A superuser always sees all.
    """
    if user.is_superuser:
        return ALL_POOLS
    if not hasattr(user, _KEPT):  # a request has a user of its own
        limits = PoolLimit.objects.filter(user_id=user.pk).values_list("pools", flat=True)
        slugs = next(iter(limits), None)
        setattr(user, _KEPT, ALL_POOLS if slugs is None else VisiblePools(frozenset(slugs)))
    kept: VisiblePools = getattr(user, _KEPT)
    return kept
