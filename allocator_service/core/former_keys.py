"""Primary keys that objects of imported pools had in other installations.

Integers count the rows of one installation. Audit rows and digests that were sealed elsewhere keep them,
as changing them would break the chain. Keys are therefore looked up as of an instant.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import ForeignKey, Model, Q

from allocator_service.core.models import AuditEntry, FormerKey


def keys_at(*, pool: str, object_type: str, at: datetime) -> dict[int, int]:
    """Return the primary keys that objects of a pool had at an instant, by their present ones.

    Objects that have kept their keys since are left out.
    """
    later = FormerKey.objects.filter(pool=pool, object_type=object_type, until__gte=at)
    # The last one read is that of the first move after the instant.
    return dict(later.order_by("-until").values_list("key", "former"))


def first_keys(*, pool: str, object_type: str) -> dict[int, int]:
    """Return the first primary keys of a pool's objects, by their present ones.

    Documents name objects by them, which therefore stay the same wherever the pool goes. Objects that
    have not moved are left out.
    """
    found = FormerKey.objects.filter(pool=pool, object_type=object_type)
    return dict(found.order_by("-until").values_list("key", "former"))


@dataclass(frozen=True)
class FormerKeys:
    """The keys that objects of some pools had in other installations.

    `moves` are by pool, each an instant with the present keys by object type and former key. They are in
    the order of their instants. `formers` are the moves of an object, by pool, object type and key.
    """

    moves: Mapping[str, Mapping[datetime, Mapping[tuple[str, int], int]]]
    formers: Mapping[tuple[str, str, int], Sequence[FormerKey]]

    def __bool__(self) -> bool:
        return bool(self.moves)

    def entries(self, object_type: str, key: Any, pool: str | None) -> Q:
        """Return the condition of the audit rows of an object, under all keys that it has had."""
        if pool is None:
            return Q(object_type=object_type, object_id=str(key))
        found, since = Q(), Q()
        for former in self.formers.get((pool, object_type, key), ()):
            found |= since & Q(object_id=str(former.former), at__lte=former.until)
            since = Q(at__gt=former.until)
        # Rows that came with another pool name its objects by keys that may be those of others here.
        of_pool = Q(object_type=object_type) & (Q(pool=pool) | Q(pool=None))
        return of_pool & (found | since & Q(object_id=str(key)))

    def states(
        self, entry: AuditEntry, model: type[Model] | None, states: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the fields that an audit row states, with present keys of related objects."""
        moves = self.moves.get(entry.pool or "", {})
        keys = next((found for until, found in moves.items() if entry.at <= until), None)
        if model is None or keys is None:
            return states
        changed = {
            field.attname: keys.get(
                (str(field.related_model._meta.model_name), states[field.attname])
            )
            for field in model._meta.concrete_fields
            if isinstance(field, ForeignKey) and isinstance(states.get(field.attname), int)
        }
        return {**states, **{name: key for name, key in changed.items() if key is not None}}


def former_keys(pools: Collection[str]) -> FormerKeys:
    """Return the former keys of the objects of those pools that were imported."""
    moves: dict[str, dict[datetime, dict[tuple[str, int], int]]] = {}
    formers: dict[tuple[str, str, int], list[FormerKey]] = {}
    for each in FormerKey.objects.filter(pool__in=pools).order_by("until"):
        keys = moves.setdefault(each.pool, {}).setdefault(each.until, {})
        keys[each.object_type, each.former] = each.key
        formers.setdefault((each.pool, each.object_type, each.key), []).append(each)
    return FormerKeys(moves, formers)
