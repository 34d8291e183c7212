"""Documents, and arrays, of declared fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self

from policies.errors import MAX_MISTAKES, UNKNOWN, Mistake
from policies.fields.kinds import Field, Schema, is_object
from policies.fields.mistakes import Mistakes, escaped, mistake
from policies.fields.sources import Getter, getter_of, lookup_of

_ABSENT: Any = object()


class Document:
    """A JSON object whose fields are the attributes of the class, after those of its base.

    An underscore at the end of a name is not part of it (``from_``). One declaration serves both
    directions: :meth:`read` takes a request apart, :meth:`write` makes an answer of an object, and
    :meth:`writable` derives the document of the request from that of the answer.
    """

    fields: ClassVar[dict[str, Field]] = {}
    _plan: ClassVar[Sequence[tuple[str, Field, Callable[[Any], Any], bool, bool]]] = ()
    _sources: ClassVar[Sequence[tuple[str, Field, Getter, Getter | None]]] = ()
    missing_code: ClassVar[str] = "field.required"
    # Names that other documents of the kind have: for each the code and the detail of its refusal.
    refused_names: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = {n.removesuffix("_"): f for n, f in vars(cls).items() if isinstance(f, Field)}
        cls.fields = {**cls.fields, **own}
        # What `read` asks for each field, looked up once and not for each of 10^5 documents.
        cls._plan = [
            (name, field, field.read, field.required, field.allow_null)
            for name, field in cls.fields.items()
        ]
        # Most fields are written as they are stored, which needs no call.
        cls._sources = [
            (
                name,
                field,
                getter_of(field.source or name),
                None if type(field).write is Field.write else field.write,
            )
            for name, field in cls.fields.items()
        ]

    @classmethod
    def with_fields(cls, **fields: Field) -> type[Document]:
        """Return the document with other fields in the place of some."""
        return type(cls.__name__, (cls,), fields)

    @classmethod
    def writable(
        cls, name: str, /, *, only: Sequence[str] | None = None, **others: Field
    ) -> type[Document]:
        """Return the document of a request.

        Args:
            name: its name in OpenAPI.
            only: the writable fields that it has, in its order; by default all of them.
            others: fields of the request alone, or in the place of some.
        """
        fields = {
            each: cls.fields[each].in_requests()
            for each in (cls.fields if only is None else only)
            if cls.fields[each].writable is not False
        }
        return type(name, (Document,), {**fields, **others})

    @classmethod
    def write(cls, found: Any, context: Any = None) -> dict[str, Any]:
        """Return the document of an object, by the sources of its fields.

        Args:
            found: the object.
            context: what else sources and fields need, such as the pool and the caller.
        """
        document: dict[str, Any] = {}
        for name, _, find, write in cls._sources:
            value = find(found, context)
            document[name] = value if write is None else write(value, context)
        return document

    @classmethod
    def row_writer(cls, context: Any = None) -> Callable[[Sequence[Any]], dict[str, Any]]:
        """Return the function that writes a row of a query for :meth:`lookups`."""
        document: dict[str, Any] = {}
        columns: list[tuple[str, Callable[[Any, Any], Any] | None]] = []
        for name, field, find, write in cls._sources:
            # What the context holds is the same in every row.
            if lookup_of(field.source or name) is None:
                document[name] = field.write(find(None, context), context)
            else:
                document[name] = None
                columns.append((name, write))

        def write_row(row: Sequence[Any]) -> dict[str, Any]:
            written = document.copy()
            for (name, write), value in zip(columns, row, strict=True):
                written[name] = value if write is None else write(value, context)
            return written

        return write_row

    @classmethod
    def exact(cls, found: Any, context: Any = None) -> dict[str, Any]:
        """Return the values that a change starts from, as :meth:`write` without rounding."""
        return {
            name: field.exact(find(found, context), context)
            for name, field, find, _ in cls._sources
        }

    @classmethod
    def lookups(cls) -> list[str]:
        """Return the columns that a query for :meth:`row_writer` selects."""
        found = (lookup_of(field.source or name) for name, field in cls.fields.items())
        return [lookup for lookup in found if lookup is not None]

    @classmethod
    def read(cls, document: Any, *, cells: bool = False) -> dict[str, Any]:
        """Return the value of every field, by name, in the order of their declaration.

        Args:
            document: a JSON value.
            cells: whether texts are those of a CSV's cells.

        Raises:
            Mistakes: everything that is wrong: names that are no field (``field.unknown``), fields
                that are missing, and what the fields themselves refuse.
        """
        if type(document) is not dict and not is_object(document):
            raise mistake("field.type", "Expected an object.")
        values: dict[str, Any] = {}
        found: list[Mistake] = []
        present, get = 0, document.get
        for name, field, read, required, allow_null in cls._plan:
            value = get(name, _ABSENT)
            if value is _ABSENT:
                if required:
                    code = field.missing_code or cls.missing_code
                    found.append(Mistake(f"/{name}", code, f'"{name}" is required.'))
                else:
                    values[name] = field.left_out()
                continue
            present += 1
            if value is None and allow_null:
                values[name] = None
                continue
            try:
                if cells and isinstance(value, str):
                    values[name] = field.read_text(value)
                else:
                    values[name] = read(value)
            except Mistakes as wrong:
                found += wrong.under(name)
        # Counting is enough to notice unknown names, which are looked up only then.
        if present != len(document):
            known = ", ".join(cls.fields) or "none"
            for name in document:
                if name not in cls.fields:
                    unknown = f'"{str(name)[:80]}" is not a field here; the fields are: {known}.'
                    code, detail = cls.refused_names.get(name, (UNKNOWN, unknown))
                    found.append(Mistake(f"/{escaped(name)}", code, detail))
        if found:
            raise Mistakes(found)
        return values

    @classmethod
    def read_columns(cls, documents: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the values of each field in many documents, by name.

        Raises Mistakes as :func:`read_items`.
        """
        present = set().union(*documents) if set(map(type, documents)) <= {dict} else {""}
        if present <= cls.fields.keys():
            with suppress(Mistakes):
                return {
                    name: _members(field, [document.get(name, _ABSENT) for document in documents])
                    if name in present
                    else _left_out(field, len(documents))
                    for name, field in cls.fields.items()
                }
        # One by one, which finds the documents that are wrong.
        rows = read_items(cls, documents)
        return {name: [row[name] for row in rows] for name in cls.fields}

    @classmethod
    def schema(cls) -> Schema:
        """Return the JSON Schema of the document."""
        schema: Schema = {
            "type": "object",
            "properties": {name: field.schema() for name, field in cls.fields.items()},
            "additionalProperties": False,
        }
        required = [name for name, field in cls.fields.items() if field.required]
        return schema | ({"required": required} if required else {})


def _members(field: Field, values: Sequence[Any]) -> list[Any]:
    """Return the values of a field in many documents, some of which may lack it.

    Raises Mistakes that do not name the document.
    """
    may_be_null, types = field.allow_null, set(map(type, values))
    if type(_ABSENT) not in types and not (may_be_null and type(None) in types):
        return field.read_column(values)
    given = [
        value for value in values if value is not _ABSENT and not (value is None and may_be_null)
    ]
    read = iter(field.read_column(given))
    left_out = iter(_left_out(field, sum(value is _ABSENT for value in values)))
    return [
        next(left_out)
        if value is _ABSENT
        else None
        if value is None and may_be_null
        else next(read)
        for value in values
    ]


def _left_out(field: Field, count: int) -> list[Any]:
    """Return the values of a field that is absent in some documents.

    Raises Mistakes that do not name the document.
    """
    if field.required and count:
        raise mistake(field.missing_code or Document.missing_code, "A field is missing.")
    if callable(field.default):
        return [field.left_out() for _ in range(count)]
    return [field.default] * count


class DocumentField(Field):
    """A document within a document."""

    def __init__(self, document: type[Document], **options: Any) -> None:
        super().__init__(**options)
        self.document = document
        self.read = document.read  # type: ignore[method-assign, assignment]  # one call less

    def in_requests(self) -> Field:
        field = super().in_requests()
        if isinstance(field, DocumentField):
            field.document = self.document.writable(self.document.__name__)
            field.read = field.document.read  # type: ignore[method-assign, assignment]
        return field

    def write(self, value: Any, context: Any) -> Any:
        # A document that is stored as such is passed on as it is.
        if value is None or is_object(value):
            return value
        return self.document.write(value, context)

    def exact(self, value: Any, context: Any) -> Any:
        if value is None or is_object(value):
            return value
        return self.document.exact(value, context)

    def describe(self) -> Schema:
        return self.document.schema()


class ListField(Field):
    """An array of values of one field or one document.

    Args:
        items: the kind.
        min_items, max_items: how many there may be.
        unique: such as ``tenant``, where no two items may have one name (``tenant.duplicate``): the
            item itself or its member ``name``.
    """

    type_name = "an array"

    def __init__(
        self,
        items: Field | type[Document],
        *,
        min_items: int = 1,
        max_items: int | None = None,
        unique: str = "",
        code: str = "field.count",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.items, self.unique, self.code = items, unique, code
        self.min_items, self.max_items = min_items, max_items

    def in_requests(self) -> Field:
        field = super().in_requests()
        if isinstance(self.items, type) and isinstance(field, ListField):
            field.items = self.items.writable(self.items.__name__)
        return field

    def write(self, value: Any, context: Any) -> Any:
        if value is None:
            return None
        if isinstance(self.items, Field):
            return [self.items.write(item, context) for item in value]
        # Items that are stored as documents are passed on as they are.
        return [item if is_object(item) else self.items.write(item, context) for item in value]

    def exact(self, value: Any, context: Any) -> Any:
        if value is None:
            return None
        if isinstance(self.items, Field):
            return [self.items.exact(item, context) for item in value]
        return [item if is_object(item) else self.items.exact(item, context) for item in value]

    def at_most(self, max_items: int) -> Self:
        """Return the same field for fewer items."""
        limited = copy(self)
        limited.max_items = max_items
        return limited

    def read(self, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise self.wrong_type()
        least, most = self.min_items, self.max_items
        if len(value) < least or (most is not None and len(value) > most):
            raise mistake(
                self.code,
                f"Expected at least {least} {'item' if least == 1 else 'items'}."
                if most is None
                else f"Expected {least} to {most} items.",
            )
        found: list[Mistake] = self._named_twice(value) if self.unique else []
        try:
            items = self._read_items(value)
        except Mistakes as wrong:
            found += wrong.found
        if found:
            raise Mistakes(found[:MAX_MISTAKES])
        return items

    def _read_items(self, items: Sequence[Any]) -> Any:
        return read_items(self.items, items)

    def _named_twice(self, items: Sequence[Any]) -> list[Mistake]:
        names = [item.get("name") if is_object(item) else item for item in items]
        texts = [name for name in names if isinstance(name, str)]
        if len(set(texts)) == len(texts):
            return []
        first: dict[str, int] = {}
        return [
            Mistake(
                f"/{index}",
                f"{self.unique}.duplicate",
                f'{self.unique} {first[name]} has the name "{name[:80]}" too; names are unique.',
            )
            for index, name in enumerate(names)
            if isinstance(name, str) and first.setdefault(name, index) != index
        ]

    def describe(self) -> Schema:
        schema: Schema = {"type": "array", "items": self.items.schema(), "minItems": self.min_items}
        return schema if self.max_items is None else schema | {"maxItems": self.max_items}


class ColumnsField(ListField):
    """An array of documents, read as one list for each of their fields."""

    items: type[Document]

    def left_out(self) -> Any:
        default = super().left_out()
        return None if default is None else self._read_items(default)

    def _read_items(self, items: Sequence[Any]) -> Any:
        return self.items.read_columns(items)


def read_items(
    kind: Field | type[Document], items: Sequence[Any], *, cells: bool = False
) -> list[Any]:
    """Read every item of an array, up to 20 mistakes. Raises Mistakes."""
    read_one: Any = kind.read
    if cells:
        read_one = partial(read_one, cells=True)
    read, found = [], []
    for index, item in enumerate(items):
        try:
            read.append(read_one(item))
        except Mistakes as wrong:
            found += wrong.under(index)
            if len(found) >= MAX_MISTAKES:
                break
    if found:
        raise Mistakes(found)
    return read
