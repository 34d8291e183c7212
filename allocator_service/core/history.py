"""History of an object in the admin, from the audit, newest first."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.paginator import Page, Paginator
from django.db.models import DateTimeField, DecimalField, Field, ForeignKey, Model, Q

from allocator_service.core.audit import stated_fields
from allocator_service.core.display import instant_text
from allocator_service.core.duration_fields import duration_text
from allocator_service.core.former_keys import FormerKeys, former_keys
from allocator_service.core.models import AuditEntry
from allocator_service.core.quantities import decimal_text

ENTRIES_A_PAGE = 50
_LONGEST_EXPONENT = 60
# Numbers of the terms of members and groups, which the audit states beside the fields of these.
_DECIMAL_TERMS = {"weight"}
# Fields by which the entry of a bulk request states the first and the last of its objects.
_ENDS = {"first", "last"}
# Names of objects by their model and the text of their key.
Names = Mapping[tuple[type[Model], str], str]


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
    """An entry of the audit, with the differences since."""

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


@dataclass(frozen=True)
class _Change:
    """An entry of the audit with the model and the states of the object that it is shown for."""

    entry: AuditEntry
    model: type[Model] | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any]


def history_page(instance: Model, number: str) -> tuple["Page[AuditEntry]", list[Done]]:
    """Return a page of the object's changes, including the bulk request that made it, if any."""
    kind, made = str(instance._meta.model_name), getattr(instance, "created_at", None)
    pool: Any = instance if kind == "pool" else getattr(instance, "pool", None)
    # Audit rows and events name their pool by its slug.
    slug = pool if isinstance(pool, str | None) else pool.slug
    formers = former_keys([] if slug is None else [slug])
    mine = shown = formers.entries(kind, instance.pk, slug)
    of_pool = isinstance(pool, Model) and pool is not instance
    if of_pool and made is not None:
        bulk = Q(action__startswith=f"{kind}.", at=made)
        shown = mine | formers.entries("pool", pool.pk, slug) & bulk
    entries = AuditEntry.objects.filter(shown).order_by("-id")
    page = Paginator(entries, ENTRIES_A_PAGE).get_page(number)
    changes = [
        # The entry of a bulk request counts its objects; of this one it shows what it was made as.
        _Change(entry, type(instance), None, _first_state(instance, mine))
        if entry.object_type != kind and entry.at == made
        else _Change(entry, _model_of(entry), entry.before, entry.after)
        for entry in page.object_list
    ]
    return page, _all_done(changes, formers, [instance, pool] if of_pool else [instance])


def entries_done(entries: Iterable[AuditEntry]) -> list[Named]:
    """Return entries of the audit with the objects that they are about."""
    entries = list(entries)
    changes = [_Change(entry, _model_of(entry), entry.before, entry.after) for entry in entries]
    done = _all_done(changes, former_keys({each.pool for each in entries if each.pool is not None}))
    return [Named(entry.object_name, each) for entry, each in zip(entries, done, strict=True)]


def _first_state(instance: Model, mine: Q) -> Mapping[str, Any]:
    """Return the fields as the object was made, with every audited change (`mine`) undone."""
    state = stated_fields(instance)
    changes = AuditEntry.objects.filter(mine, before__isnull=False)
    # From the newest to the oldest change, so that each field's oldest value remains.
    for before in changes.order_by("-id").values_list("before", flat=True):
        state |= {name: value for name, value in (before or {}).items() if name in state}
    return state


def _all_done(
    changes: Sequence[_Change], formers: FormerKeys, known: Iterable[Model] = ()
) -> list[Done]:
    changes = _with_present_keys(changes, formers)
    names = _names(changes, known)
    return [_done(change, names) for change in changes]


def _with_present_keys(changes: Sequence[_Change], formers: FormerKeys) -> Sequence[_Change]:
    """Return changes of imported pools with the keys that the objects they refer to have here."""
    if not formers:
        return changes
    return [
        replace(
            each,
            before=None
            if each.before is None
            else formers.states(each.entry, each.model, each.before),
            after=formers.states(each.entry, each.model, each.after),
        )
        for each in changes
    ]


def _done(change: _Change, names: Names) -> Done:
    entry, model, before = change.entry, change.model, change.before
    return Done(
        entry.at,
        entry.actor,
        entry.action,
        entry.reason,
        entry.request_id,
        [
            Difference(
                name.removesuffix("_id").replace("_", " "),
                None if before is None else _text(model, name, before.get(name), names),
                _text(model, name, value, names),
            )
            for name, value in change.after.items()
            # Fields that a new object has left empty are not listed.
            if before is not None or value not in (None, "", {}, [])
        ],
    )


def _names(changes: Iterable[_Change], known: Iterable[Model]) -> Names:
    """Return the names of the objects whose keys the changes state, by one query for each model.

    `known` are objects that need none.
    """
    names = {(type(each), str(each.pk)): str(each) for each in known}
    keys: dict[type[Model], set[Any]] = {}
    for change in changes:
        for state in (change.before or {}, change.after):
            for name, value in state.items():
                target = _target(change.model, name)
                if target is None or value is None or (target, str(value)) in names:
                    continue
                keys.setdefault(target, set()).add(value)
    for target, values in keys.items():
        names |= {(target, str(key)): str(found) for key, found in _found(target, values).items()}
    return names


def _found(target: type[Model], values: Collection[Any]) -> Mapping[Any, Model]:
    read = []
    for value in values:
        try:
            read.append(target._meta.pk.to_python(value))
        except ValidationError:  # not a key of this model, and shown as it is stored
            continue
    # The name of an object can contain that of another, such as a group's parent.
    return target._default_manager.select_related().in_bulk(read)


def _target(model: type[Model] | None, name: str) -> type[Model] | None:
    """Return the model whose keys a field has."""
    if model is None:
        return None
    field = _fields(model).get(name)
    if isinstance(field, ForeignKey):
        related = field.related_model
        return related if isinstance(related, type) else None
    found: Mapping[str, type[Model]] = getattr(_registered(model), "keys_of", {})
    return found.get(name) if field is not None else None


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


def _text(model: type[Model] | None, name: str, value: Any, names: Names) -> str:
    """Return a field's value for people, as it is stored if its field has no other text."""
    target = _target(model, name)
    if target is not None and (target, str(value)) in names:
        return names[target, str(value)]
    written = _end_name(value) if name in _ENDS else _written(value)
    read = None if value in (None, "", [], {}) else _reader(model, name)
    if read is None:
        return written
    try:
        return ", ".join(map(read, value)) if isinstance(value, list) else read(value)
    except (ValueError, ArithmeticError, LookupError):  # of an earlier release
        return written


def _end_name(value: Any) -> str:
    """Return the name of the first or the last object of a bulk request."""
    is_end = isinstance(value, dict) and value.keys() == {"id", "name"}
    return _written(value["name"] if is_end else value)


def _fields(model: type[Model]) -> Mapping[str, "Field[Any, Any]"]:
    return {each.attname: each for each in model._meta.concrete_fields}


def _registered(model: type[Model] | None) -> Any:
    """Return the admin of a model, None if it has none."""
    return None if model is None else admin.site._registry.get(model)


def _reader(model: type[Model] | None, name: str) -> Callable[[Any], str] | None:
    """Return the function that writes values of a field for people, if there is one."""
    field = None if model is None else _fields(model).get(name)
    if isinstance(field, ArrayField):
        field = field.base_field
    if isinstance(field, DecimalField) or (field is None and name in _DECIMAL_TERMS):
        return _decimal
    if isinstance(field, DateTimeField):
        return _instant
    if field is None:
        return None
    registered = _registered(model)
    if name in getattr(registered, "durations", ()):
        return _duration
    texts: Mapping[str, Callable[[Any], str]] = getattr(registered, "texts_of", {})
    return texts.get(name)


def _decimal(value: Any) -> str:
    number = Decimal(str(value))
    is_short = number.is_finite() and abs(number.adjusted()) <= _LONGEST_EXPONENT
    return decimal_text(number) if is_short else str(value)


def _instant(value: Any) -> str:
    """Return an instant with its fraction of a second. Raises `ValueError` for one without a zone."""
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    if at.tzinfo is None:
        raise ValueError("The instant has no time zone.")
    head, zone = instant_text(at.astimezone(UTC), precision="second").rsplit(" ", 1)
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
