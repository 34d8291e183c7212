"""The audit, one row for each change, written in its transaction.

Services record changes. Interfaces name the actor (`acting_as`) for the time of a request or command. A
bulk change is one row that states how many objects it made and which.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from structlog.contextvars import bound_contextvars, get_contextvars

from allocator_service.core.copying import copy_rows
from allocator_service.core.models import AuditEntry
from allocator_service.core.outbox import request_id

# These change with every change, or never.
_BOOKKEEPING = {"id", "version", "created_at", "generation"}
UNKNOWN_ACTOR = "the service itself"


@dataclass(frozen=True)
class Change:
    """A change of an object, with `before` and `extra` as `audit_record` takes them."""

    instance: models.Model
    before: Mapping[str, Any] | None
    extra: Mapping[str, Any]


@contextmanager
def acting_as(actor: str, *, reason: str = "") -> Iterator[None]:
    """Set the actor of the changes in the block, and their reason."""
    with bound_contextvars(actor=actor, reason=reason):
        yield


def stated_fields(instance: models.Model) -> dict[str, Any]:
    """Return the fields of an object that the audit states, without bytes and bookkeeping."""
    return {
        # The key of a related object, which need not be read for it.
        field.attname: getattr(instance, field.attname)
        for field in instance._meta.concrete_fields
        if field.name not in _BOOKKEEPING and not isinstance(field, models.BinaryField)
    }


def audit_record(
    *,
    action: str,
    instance: models.Model,
    now: datetime,
    before: Mapping[str, Any] | None = None,
    pool: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Store that `action` was done to `instance`, which is as it is now.

    `before` is what `stated_fields` returned before the change, None for an object that has just been
    made. Only fields that differ are stored. `extra` is stored as well, for changes of many objects.
    """
    change = Change(instance, before, extra or {})
    _entry_of(action, change, now, pool).save(force_insert=True)


def audit_record_all(
    *, action: str, changes: Iterable[Change], now: datetime, pool: str | None = None
) -> None:
    """Store that `action` was done to each of many objects, as `audit_record` does for one."""
    _copy(_entry_of(action, change, now, pool) for change in changes)


def audit_record_made(*, action: str, instances: Iterable[models.Model], now: datetime) -> None:
    """Store that each of many objects was made by `action`."""
    _copy(
        _entry(action, instance, now, None, stated_fields(instance), None) for instance in instances
    )


def _copy(entries: Iterable[AuditEntry]) -> None:
    """Store many entries by one COPY."""
    copy_rows(
        AuditEntry,
        ["id", "at", "actor", "reason", "action", "object_type", "object_id", "object_name",
         "pool", "before", "after", "request_id"],
        (
            (each.pk, each.at, each.actor, each.reason, each.action, each.object_type, each.object_id,
             each.object_name, each.pool, _json(each.before), _json(each.after), each.request_id)
            # All before the COPY: names of objects may have to be read, and it holds the connection.
            for each in list(entries)
        ),
    )  # fmt: skip


def _json(stated: Mapping[str, Any] | None) -> str | None:
    return None if stated is None else json.dumps(stated, cls=DjangoJSONEncoder)


def _entry_of(action: str, change: Change, now: datetime, pool: str | None) -> AuditEntry:
    before, after = change.before, {**stated_fields(change.instance), **change.extra}
    if before is not None:
        changed = [key for key in after if before.get(key) != after[key]]
        after = {key: after[key] for key in changed}
        before = {key: before.get(key) for key in changed}
    return _entry(action, change.instance, now, before, after, pool)


def _entry(
    action: str,
    instance: models.Model,
    now: datetime,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    pool: str | None,
) -> AuditEntry:
    context = get_contextvars()
    return AuditEntry(
        at=now,
        actor=context.get("actor", UNKNOWN_ACTOR),
        reason=context.get("reason", ""),
        action=action,
        object_type=str(instance._meta.model_name),
        object_id=str(instance.pk),
        # The name at the time of the change: an object can be renamed.
        object_name=str(instance)[:300],
        pool=pool,
        before=before,
        after=after,
        request_id=request_id(),
    )
