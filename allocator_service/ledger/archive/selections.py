"""Selections of archived entries, by which readers name what they need."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

# Django runs no statement for it.
_NONE = Q(pk__in=[])


@dataclass(frozen=True)
class Selection:
    """Conditions on entries, of which all that are not None must hold.

    Attributes:
        after, through: bounds of the sequence, without `after`.
        begin, end: entries with a part in the interval.
        changes: intervals in one of which the entry begins or ends.
    """

    pool: int | None = None
    tenant: int | None = None
    after: int | None = None
    through: int | None = None
    begin: datetime | None = None
    end: datetime | None = None
    changes: Sequence[tuple[datetime, datetime]] | None = None
    ids: Collection[UUID] | None = None

    def files(self) -> Q:
        """Return the condition on the rows of `ArchivedPool` whose file may have such entries."""
        condition = Q(pk__isnull=False)
        if self.pool is not None:
            condition &= Q(pool=self.pool)
        if self.after is not None:
            condition &= Q(last_sequence__gt=self.after)
        if self.through is not None:
            condition &= Q(first_sequence__lte=self.through)
        if self.begin is not None:
            condition &= Q(last_end__gt=self.begin)
        if self.end is not None:
            condition &= Q(first_start__lt=self.end)
        if self.changes is not None:
            # One interval around all: a report may have a thousand of them.
            begin = min((begin for begin, _ in self.changes), default=None)
            until = max((until for _, until in self.changes), default=None)
            condition &= Q(first_start__lt=until, last_end__gte=begin) if begin else _NONE
        if self.ids is not None and not self.ids:
            condition &= _NONE
        return condition
