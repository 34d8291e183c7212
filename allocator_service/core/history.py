"""History of an object in the admin, from the audit, newest first."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Model, Q

from allocator_service.core.audit import stated_fields
from allocator_service.core.display import instant_text
from allocator_service.core.duration_fields import duration_text
from allocator_service.core.models import AuditEntry
from allocator_service.core.quantities import decimal_text

ENTRIES_A_PAGE = 50
_DURATION = re.compile(r"P(T?[0-9]+[YMWDHS])+", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+|(?:\.[0-9]+)?E[+-][0-9]+)", re.ASCII)
_INSTANT = re.compile(r"[0-9-]{10}T[0-9:]{8}(?:\.[0-9]+)?(?:Z|[+-][0-9:]{5})", re.ASCII)


@dataclass(frozen=True)
class Difference:
    """A field before and after, as texts.

    `before` is None for an object that was made.
    """

    field: str
    before: str | None
    after: str


@dataclass(frozen=True)
class Done:
    """An entry of the audit: who did what when and why, and what is different since."""

    at: datetime
    actor: str
    action: str
    reason: str
    request_id: str
    differences: Sequence[Difference]


@dataclass(frozen=True)
class Named:
    """An entry of the audit with the name of its object."""

    object_name: str
    done: Done


def history_page(instance: Model, number: str) -> tuple["Page[AuditEntry]", list[Done]]:
    """A page of what was done to the object; for one made by a bulk request, that request too."""
    mine = Q(object_type=instance._meta.model_name, object_id=str(instance.pk))
    pool, made = getattr(instance, "pool_id", None), getattr(instance, "created_at", None)
    if pool is not None and made is not None:
        mine |= Q(
            object_type="pool",
            object_id=str(pool),
            action__startswith=f"{instance._meta.model_name}.",
            at=made,
        )
    entries = AuditEntry.objects.filter(mine).order_by("-id")
    page = Paginator(entries, ENTRIES_A_PAGE).get_page(number)
    kind = instance._meta.model_name
    return page, [
        _done(entry, None, _first_state(instance))
        # The entry of a bulk request counts its objects; of this one it shows what it was made as.
        if entry.object_type != kind and entry.at == made
        else _done(entry, entry.before, entry.after)
        for entry in page.object_list
    ]


def entries_done(entries: Iterable[AuditEntry]) -> list[Named]:
    """Return entries of the audit with the objects that they are about."""
    return [Named(entry.object_name, _done(entry, entry.before, entry.after)) for entry in entries]


def _first_state(instance: Model) -> Mapping[str, Any]:
    """The fields as the object was made: the present ones with every audited change undone."""
    state = {name: _stated(value) for name, value in stated_fields(instance).items()}
    changes = AuditEntry.objects.filter(
        object_type=instance._meta.model_name, object_id=str(instance.pk), before__isnull=False
    )
    for before in changes.order_by("-id").values_list("before", flat=True):
        state |= {name: value for name, value in (before or {}).items() if name in state}
    return state


def _stated(value: Any) -> Any:
    return [str(each) for each in value] if isinstance(value, list) else value


def _done(entry: AuditEntry, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Done:
    return Done(
        entry.at,
        entry.actor,
        entry.action,
        entry.reason,
        entry.request_id,
        [
            Difference(
                name.removesuffix("_id").replace("_", " "),
                None if before is None else _text(before.get(name)),
                _text(value),
            )
            for name, value in after.items()
            if before is not None or value not in (None, "", {}, [])
        ],
    )


def _text(value: Any) -> str:
    if value is None or value in ("", {}, []):
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(_text(each) for each in value)
    text = str(value)
    if _DURATION.fullmatch(text):
        return duration_text(text)
    if _INSTANT.fullmatch(text):
        return instant_text(datetime.fromisoformat(text), precision="second")
    return decimal_text(Decimal(text)) if _DECIMAL.fullmatch(text) else text
