"""Kinds of fields that only the API has, such as slugs, ids, instants and quantities."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from allocator_service.core import labels
from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import Unacceptable, Unreadable
from allocator_service.core.quantities import json_number, vector_to_document
from allocator_service.tenants.models import SLUG_PATTERN
from api.contract.parsers import json_document
from policies import REASONS
from policies.fields import (
    Document,
    Field,
    Given,
    IntegerField,
    ListField,
    NumberField,
    ObjectField,
    PatternField,
    QuantitiesField,
    QuantityField,
    Schema,
    StringField,
    checked_quantity,
    mistake,
)

# The columns are integers of 4 and 8 bytes: a larger number would be an error of the database.
MAX_VERSION = 2**31 - 1
MAX_GENERATION = 2**63 - 1
_SLUG = re.compile(SLUG_PATTERN, re.ASCII)
# `UUID()` also reads braces, "urn:" and no hyphens, which would give one object several addresses.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
# Bounded: `Decimal` reads 1e999999 at once, and its digits fill the memory when it is written.
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,12})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


class SlugField(PatternField):
    def __init__(self, **options: Any) -> None:
        words = "1 to 63 lower-case letters, digits and hyphens, no hyphen at the ends"
        super().__init__(pattern=SLUG_PATTERN, code="slug.syntax", expected=words, **options)


def pool_field() -> SlugField:
    """Describe the pool of a resource, which the path of its routes names."""
    return SlugField(source=Given("pool.slug"))


class VersionField(IntegerField):
    """The version of an object, which is its entity tag."""

    def __init__(self, **options: Any) -> None:
        super().__init__(minimum=1, maximum=MAX_VERSION, **options)


class GenerationField(IntegerField):
    """A generation of a pool, the number of a change of it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(minimum=0, maximum=MAX_GENERATION, **options)


class TimestampField(StringField):
    """An instant in the notation of RFC 3339, with its offset."""

    type_name = "a timestamp such as 2026-01-05T00:00:00Z"

    def read(self, value: Any) -> Any:
        text = super().read(value)
        try:
            # Python also reads what RFC 3339 lacks, such as weeks and times without an offset.
            if _TIMESTAMP.fullmatch(text):
                # RFC 3339 permits a small z, which `fromisoformat` refuses.
                return datetime.fromisoformat(text.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # it has the form of a timestamp, and there is no such day or hour
        raise mistake(
            "timestamp.syntax",
            "Expected a timestamp as in RFC 3339, with its offset: 2026-01-05T00:00:00Z.",
        )

    def exact(self, value: Any, context: Any) -> str | None:
        return None if value is None else value.isoformat().replace("+00:00", "Z")

    def describe(self) -> Schema:
        return {"type": "string", "format": "date-time"}


class IdField(Field):
    type_name = "an id"

    def read(self, value: Any) -> UUID:
        found = uuid_or_none(value) if isinstance(value, str) else None
        if found is None:
            raise self.wrong_type()
        return found

    def describe(self) -> Schema:
        return {"type": "string", "format": "uuid"}


class DurationField(Field):
    """A duration in ISO 8601, of `most_days` at most."""

    type_name = "a duration such as P7D"

    def __init__(self, *, most_days: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._most_days = most_days

    def read(self, value: Any) -> str:
        try:
            parse_duration(value, pointer="", most_days=self._most_days)
        except Unacceptable as error:
            raise mistake(error.code, error.detail) from error
        return str(value)

    def describe(self) -> Schema:
        return {
            "type": "string",
            # The lookaheads refuse P and T with no number after them.
            "pattern": r"^P(?=.)(\d{1,4}Y)?(\d{1,5}M)?(\d{1,5}W)?(\d{1,6}D)?"
            r"(T(?=.)(\d{1,7}H)?(\d{1,9}M)?(\d{1,10}S)?)?$",
            "examples": ["P7D"],
        }


class SchemaField(Field):
    """A part of an answer, of which only the schema is declared."""

    def __init__(self, *, schema: Schema, **options: Any) -> None:
        super().__init__(**options)
        self.as_schema = schema

    def describe(self) -> Schema:
        return dict(self.as_schema)


class LimitedByField(SchemaField):
    """The reason that limits a workload, as docs/guides/errors.md lists it."""

    def __init__(self, **options: Any) -> None:
        reasons = {"type": "string", "enum": list(REASONS)}
        resource = {"type": "string", "pattern": "^resource:.+$"}
        limit = {"type": "string", "pattern": "^limit:(workload|tenant|lend|group:.+)$"}
        super().__init__(schema={"oneOf": [reasons, resource, limit]}, **options)


def _json_in_cell(text: str) -> Any:
    """Return the value that a cell of a CSV states as JSON."""
    try:
        return json_document(text.encode())
    except Unreadable as error:
        raise mistake(error.code, error.detail) from error


class JsonCells(ObjectField):
    """An object that may stand as JSON in one cell of a CSV, as lists of this service write it."""

    def read_text(self, text: str) -> Any:
        if not text.startswith("{"):
            raise self.wrong_type()
        return self.read(_json_in_cell(text))


class StoredListField(ListField):
    """A stored list of documents, also as JSON in one cell of a CSV."""

    def __init__(
        self, document: type[Document], stored: Callable[[Any], Iterable[Any]], **options: Any
    ) -> None:
        super().__init__(document, **options)
        self._document, self._stored = document, stored

    def read_text(self, text: str) -> Any:
        return self.read(_json_in_cell(text))

    def write(self, value: Any, context: Any) -> list[dict[str, Any]] | None:
        return [self._document.write(each, context) for each in self._stored(value)] or self._empty

    def exact(self, value: Any, context: Any) -> list[dict[str, Any]] | None:
        return [self._document.exact(each, context) for each in self._stored(value)] or self._empty

    @property
    def _empty(self) -> list[dict[str, Any]] | None:
        return None if self.allow_null else []


class PoolQuantitiesField(JsonCells, QuantitiesField):
    """Quantities keyed by the pool's resources, read once the pool is known."""


class NamedQuantitiesField(PoolQuantitiesField):
    """Quantities that are stored by the name of their resource."""

    def write(self, value: Any, context: Any) -> dict[str, Any]:
        return {name: json_number(amount) for name, amount in value.items()}

    def exact(self, value: Any, context: Any) -> dict[str, Any]:
        return dict(value)


class WeightField(NumberField):
    """A weight, also as text in a cell of a CSV."""

    def write(self, value: Any, context: Any) -> int | float:
        return json_number(value)

    def exact(self, value: Any, context: Any) -> Any:
        return value

    def read_text(self, text: str) -> Any:
        if not _NUMBER.fullmatch(text):
            raise self.wrong_type()
        return self.read(Decimal(text))


class VectorField(PoolQuantitiesField):
    """Quantities that are stored in the order of the pool's resources."""

    def write(self, value: Any, context: Any) -> dict[str, Any]:
        return vector_to_document(value, context.resources)

    def exact(self, value: Any, context: Any) -> dict[str, Any]:
        # A resource that the pool got later has no entry yet.
        pairs = zip(context.resources, value, strict=False)
        return {resource.name: quantity for resource, quantity in pairs}


class PoolQuantityField(QuantityField):
    """One quantity, read once its unit is known."""

    def read(self, value: Any) -> Any:
        return checked_quantity(value)


class LabelsField(JsonCells, labels.LabelsField):
    """Labels of a server, also as JSON in one cell."""


class SelectorField(JsonCells, labels.SelectorField):
    """A selector of servers, also as JSON in one cell."""


def texts_field(**options: Any) -> ListField:
    """An array of texts."""
    return ListField(StringField(), min_items=0, **options)


def ids_field(*, max_items: int, **options: Any) -> ListField:
    """An array of ids."""
    return ListField(IdField(), min_items=0, max_items=max_items, **options)


def is_slug(text: str) -> bool:
    """Return whether a text may be the slug of a pool or tenant."""
    return _SLUG.fullmatch(text) is not None


def slug_or_none(text: str) -> str | None:
    """Return a text if it may be a slug, otherwise None."""
    return text if is_slug(text) else None


def uuid_or_none(text: str) -> UUID | None:
    """Return the id of a text in its canonical spelling, otherwise None."""
    return UUID(text) if _UUID.fullmatch(text) else None
