"""Documents whose fields are declared: unknown names are refused, every finding is named at once."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rest_framework import serializers
from rest_framework.fields import empty

from allocator_service.core.errors import DomainError, FieldError, Unacceptable, Unreadable
from allocator_service.core.quantities import pointer_token
from api.fields import Schema, StrictField

if TYPE_CHECKING:
    _Serializer = serializers.Serializer[Any]
else:
    _Serializer = serializers.Serializer

MAX_ERRORS = 20


class Findings:
    """Collects what is wrong with the parts of a document; unreadable ones are reported first."""

    def __init__(self) -> None:
        self._errors: dict[type[DomainError], list[FieldError]] = {Unreadable: [], Unacceptable: []}

    def absorb(self, error: Unreadable | Unacceptable) -> None:
        self._errors[type(error)].extend(error.errors)

    def add(self, kind: type[DomainError], error: FieldError) -> None:
        self._errors[kind].append(error)

    @property
    def full(self) -> bool:
        return sum(map(len, self._errors.values())) >= MAX_ERRORS

    def raise_if_any(self) -> None:
        for kind, errors in self._errors.items():
            if errors:
                first = errors[0]
                raise kind(first.detail, code=first.code, errors=errors[:MAX_ERRORS])


class StrictSerializer(_Serializer):
    """A document's fields, declared for OpenAPI as usual and read without DRF's conversions."""

    @classmethod
    def strict_fields(cls) -> dict[str, StrictField]:
        return cast("dict[str, StrictField]", cls._declared_fields)

    @classmethod
    def read_document(
        cls, document: Any, pointer: str = "", *, cells: bool = False
    ) -> dict[str, Any]:
        """The values of every field, defaults filled in. `cells`: the values are texts of a CSV.

        Raises `Unreadable` for a name that is no field, `Unacceptable` for values and for what is
        missing, each with all findings (at most 20).
        """
        if not isinstance(document, dict):
            raise Unacceptable("This is an object.", code="field.type", pointer=pointer)
        fields = cls.strict_fields()
        findings = Findings()
        for name in document.keys() - fields.keys():
            findings.add(Unreadable, _unknown(name, pointer, fields))
        values = {}
        for name, field in fields.items():
            if name not in document:
                if field.required:
                    detail = f'"{name}" is required.'
                    error = FieldError(f"{pointer}/{name}", "field.required", detail)
                    findings.add(Unacceptable, error)
                else:
                    values[name] = default_of(field)
                continue
            value = document[name]
            if value is None and field.allow_null:
                values[name] = None
                continue
            where = f"{pointer}/{name}"
            try:
                values[name] = (
                    field.read_text(value, where)
                    if cells and isinstance(value, str)
                    else field.read(value, where)
                )
            except (Unreadable, Unacceptable) as error:
                findings.absorb(error)
        findings.raise_if_any()
        return values


def _unknown(name: str, pointer: str, fields: Mapping[str, StrictField]) -> FieldError:
    return FieldError(
        f"{pointer}/{pointer_token(name)}",
        "field.unknown",
        f'"{name[:80]}" is no field here; there are: {", ".join(fields) or "none"}.',
    )


def default_of(field: StrictField) -> Any:
    """What a field that is left out stands for."""
    default = field.default
    if default is empty:
        return None
    return default() if callable(default) else default


class NoFields(StrictSerializer):
    """The body of an action: nothing, or `{}`."""


class DocumentField(StrictField):
    """A document within a document."""

    type_name = "an object"

    def __init__(self, document: type[StrictSerializer], **options: Any) -> None:
        super().__init__(**options)
        self.document = document

    def read(self, value: Any, pointer: str) -> dict[str, Any]:
        return self.document.read_document(value, pointer)

    def describe(self) -> Schema:
        return document_schema(self.document)


class ListField(StrictField):
    """An array of documents."""

    type_name = "an array"

    def __init__(
        self,
        document: type[StrictSerializer],
        *,
        max_items: int,
        min_items: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.document, self.min_items, self.max_items = document, min_items, max_items

    def read(self, value: Any, pointer: str) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            raise self.wrong_type(pointer)
        if not self.min_items <= len(value) <= self.max_items:
            raise Unacceptable(
                f"There are {self.min_items} to {self.max_items} items.",
                code="field.count",
                pointer=pointer,
            )
        return read_documents(self.document, value, pointer)

    def describe(self) -> Schema:
        return {
            "type": "array",
            "items": document_schema(self.document),
            "minItems": self.min_items,
            "maxItems": self.max_items,
        }


def read_documents(
    document: type[StrictSerializer],
    items: Sequence[Any],
    pointer: str = "",
    *,
    cells: bool = False,
) -> list[dict[str, Any]]:
    """Read every item of an array; stops after 20 findings."""
    findings = Findings()
    read = []
    for index, item in enumerate(items):
        try:
            read.append(document.read_document(item, f"{pointer}/{index}", cells=cells))
        except (Unreadable, Unacceptable) as error:
            findings.absorb(error)
            if findings.full:
                break
    findings.raise_if_any()
    return read


def document_schema(document: type[StrictSerializer]) -> Schema:
    """The JSON Schema of a document."""
    fields = document.strict_fields()
    schema: Schema = {
        "type": "object",
        "properties": {name: field_schema(field) for name, field in fields.items()},
        "additionalProperties": False,
    }
    required = [name for name, field in fields.items() if field.required]
    if required:
        schema["required"] = required
    return schema


def field_schema(field: StrictField) -> Schema:
    """The JSON Schema of a field, with null and its default where it has them."""
    schema = field.describe()
    if field.help_text:
        schema["description"] = str(field.help_text)
    if field.default is not empty and not callable(field.default):
        default = field.default
        schema["default"] = int(default) if not isinstance(default, str | bool | None) else default
    if not field.allow_null:
        return schema
    if "enum" in schema:
        return schema | {"type": ["string", "null"], "enum": [*schema["enum"], None]}
    if isinstance(schema.get("type"), str):
        return schema | {"type": [schema["type"], "null"]}
    return {"oneOf": [schema, {"type": "null"}]}


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: the target with the patch's members put in, and those that are null taken out."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
