"""History of an object in the admin, from the audit, newest first."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.postgres.fields import ArrayField
from django.core.paginator import Page, Paginator
from django.db.models import DateTimeField, DecimalField, Field, Model, Q

from allocator_service.core.audit import stated_fields
from allocator_service.core.display import instant_text
from allocator_service.core.duration_fields import duration_text
from allocator_service.core.models import AuditEntry
from allocator_service.core.quantities import decimal_text

ENTRIES_A_PAGE = 50
_LONGEST_EXPONENT = 60
# Numbers of the terms of members and groups, which the audit states beside the fields of these.
_DECIMAL_TERMS = {"weight"}


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
        _done(entry, type(instance), None, _first_state(instance))
        # The entry of a bulk request counts its objects; of this one it shows what it was made as.
        if entry.object_type != kind and entry.at == made
        else _done(entry, _model_of(entry), entry.before, entry.after)
        for entry in page.object_list
    ]


def entries_done(entries: Iterable[AuditEntry]) -> list[Named]:
    """Return entries of the audit with the objects that they are about."""
    return [
        Named(entry.object_name, _done(entry, _model_of(entry), entry.before, entry.after))
        for entry in entries
    ]


def _first_state(instance: Model) -> Mapping[str, Any]:
    """The fields as the object was made: the present ones with every audited change undone."""
    state = stated_fields(instance)
    changes = AuditEntry.objects.filter(
        object_type=instance._meta.model_name, object_id=str(instance.pk), before__isnull=False
    )
    for before in changes.order_by("-id").values_list("before", flat=True):
        state |= {name: value for name, value in (before or {}).items() if name in state}
    return state


def _done(
    entry: AuditEntry,
    model: type[Model] | None,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
) -> Done:
    return Done(
        entry.at,
        entry.actor,
        entry.action,
        entry.reason,
        entry.request_id,
        [
            Difference(
                name.removesuffix("_id").replace("_", " "),
                None if before is None else _text(model, name, before.get(name)),
                _text(model, name, value),
            )
            for name, value in after.items()
            if before is not None or value not in (None, "", {}, [])
        ],
    )


def _model_of(entry: AuditEntry) -> type[Model] | None:
    """Return the model of an entry's object, None if there is no such model any more."""
    return _models().get(entry.object_type)


@cache
def _models() -> Mapping[str, type[Model]]:
    """Return the models by name, those of the service before those of Django."""
    models = sorted(
        apps.get_models(), key=lambda model: model.__module__.startswith("allocator_service")
    )
    return {str(model._meta.model_name): model for model in models}


def _text(model: type[Model] | None, name: str, value: Any) -> str:
    """Return a field's value for people, as written where its field has no other text."""
    written = _written(value)
    read = None if value in (None, "", []) else _reader(model, name)
    if read is None:
        return written
    try:
        return ", ".join(map(read, value)) if isinstance(value, list) else read(value)
    except (ValueError, ArithmeticError):
        return written


def _reader(model: type[Model] | None, name: str) -> Callable[[Any], str] | None:
    """Return what writes values of a field for people."""
    fields: dict[str, Field[Any, Any]] = (
        {} if model is None else {each.attname: each for each in model._meta.concrete_fields}
    )
    field = fields.get(name)
    if isinstance(field, ArrayField):
        field = field.base_field
    if isinstance(field, DecimalField) or (field is None and name in _DECIMAL_TERMS):
        return _decimal
    if isinstance(field, DateTimeField):
        return _instant
    registered = None if model is None else admin.site._registry.get(model)
    return _duration if field and name in getattr(registered, "durations", ()) else None


def _decimal(value: Any) -> str:
    number = Decimal(str(value))
    is_short = number.is_finite() and abs(number.adjusted()) <= _LONGEST_EXPONENT
    return decimal_text(number) if is_short else str(value)


def _instant(value: Any) -> str:
    """Return an instant with its fraction of a second. Raises `ValueError` for one without a zone."""
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    if at.tzinfo is None:
        raise ValueError("The instant has no time zone.")
    head, zone = instant_text(at, precision="second").rsplit(" ", 1)
    fraction = f".{at.microsecond:06}".rstrip("0").rstrip(".")
    return f"{head}{fraction} {zone}"


def _duration(value: Any) -> str:
    return duration_text(str(value))


def _written(value: Any) -> str:
    if value is None or value in ("", {}, []):
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_written(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_written, value))
    return str(value)
