"""Answers and bodies of operations, with the formats and parsers of their documents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from allocator_service.tenants.models import SLUG_PATTERN
from api.contract.parsers import CSVRowsParser, MergePatchParser, StrictJSONParser
from api.contract.renderers import (
    CSVRenderer,
    HTMLRenderer,
    NDJSONRenderer,
    OrjsonRenderer,
    ParquetRenderer,
    PDFRenderer,
    PlainTextRenderer,
    SVGRenderer,
    YAMLRenderer,
)
from policies.fields import ChoiceField, Document, DocumentField, MapField, QuantitiesField, Schema

Component = Callable[[str, Schema], Schema]


@dataclass(frozen=True)
class Formats:
    """Formats of an answer, the default first.

    `parameter` is the description of the query parameter `format`, empty if there is one format only.
    """

    renderers: tuple[type[BaseRenderer], ...]
    parameter: str = ""

    def parameter_field(self) -> ChoiceField | None:
        """Return the query parameter `format`, or None if there is one format only."""
        if not self.parameter:
            return None
        choices = [str(renderer.format) for renderer in self.renderers]
        return ChoiceField(choices=choices, required=False, description=self.parameter)

    def content(self, schema: Schema) -> dict[str, Schema]:
        """Return the content of an answer in OpenAPI. `schema` describes its JSON format."""
        return {
            str(renderer.media_type): {"schema": _schema(renderer, schema)}
            for renderer in self.renderers
        }


def _schema(renderer: type[BaseRenderer], schema: Schema) -> Schema:
    if renderer is OrjsonRenderer:
        return schema
    if renderer in (ParquetRenderer, PDFRenderer):
        return {"type": "string", "format": "binary"}
    return {"type": "string"}


_ROWS = (CSVRenderer, NDJSONRenderer)
_ACCEPT = "Instead of `Accept`"

JSON = Formats((OrjsonRenderer,))
TEXT = Formats((PlainTextRenderer,))
LIST = Formats((OrjsonRenderer, *_ROWS), f"{_ACCEPT}.")
REPORT = Formats((OrjsonRenderer, *_ROWS, SVGRenderer), f"{_ACCEPT}; svg is a picture.")
RESULTS = Formats(
    (OrjsonRenderer, *_ROWS, SVGRenderer, HTMLRenderer),
    f"{_ACCEPT}; svg is a picture, html a page to send on.",
)
STATEMENT = Formats(
    (OrjsonRenderer, *_ROWS, HTMLRenderer, ParquetRenderer, PDFRenderer),
    f"{_ACCEPT}; html is a page, pdf a file to send on.",
)
RENDERING = Formats(
    (OrjsonRenderer, PlainTextRenderer, YAMLRenderer),
    f"{_ACCEPT}: txt is a script, yaml a stream of manifests.",
)
EXPORT = Formats((*_ROWS, ParquetRenderer), f"{_ACCEPT}.")


@dataclass(frozen=True)
class Answer:
    """Answer with one document. Without a document it has no JSON format."""

    document: type[Document] | None = None
    formats: Formats = JSON

    def content(self, component: Component) -> dict[str, Schema]:
        """Return the content of the answer in OpenAPI.

        Args:
            component: registers a schema by its name, and returns a reference to it.
        """
        if self.document is not None:
            return self.formats.content(self.schema(component, self.document))
        # No body at all, such as 204, or files whose schema is a text.
        return {} if self.formats is JSON else self.formats.content({})

    def schema(self, component: Component, document: type[Document]) -> Schema:
        return component(document.__name__, document.schema())


NO_CONTENT = Answer()


@dataclass(frozen=True)
class PageAnswer(Answer):
    """A page of a list.

    `other_rows` is the document of the rows that a parameter of the list selects instead. A `feed` is a
    list that grows while clients read it: it has `next_cursor` on every page.
    """

    formats: Formats = LIST
    other_rows: type[Document] | None = None
    feed: bool = False

    def schema(self, component: Component, document: type[Document]) -> Schema:
        row = super().schema(component, document)
        if self.other_rows is not None:
            other = component(self.other_rows.__name__, self.other_rows.schema())
            row = {"anyOf": [row, other]}
        properties: Schema = {
            "results": {"type": "array", "items": row},
            "next": {"type": ["string", "null"], "format": "uri"},
        }
        if self.feed:
            properties["next_cursor"] = {"type": ["string", "null"]}
        return component(f"{document.__name__}Page", _object(properties))


@dataclass(frozen=True)
class CreatedAnswer(Answer):
    """The one object that was created, or the number of objects with the keys of the first and last.

    `named`: the keys are slugs instead of ids.
    """

    named: bool = False

    def schema(self, component: Component, document: type[Document]) -> Schema:
        one = super().schema(component, document)
        name, key = ("ManyNamed", _SLUG) if self.named else ("ManyCreated", _ID)
        properties = {"created": {"type": "integer", "minimum": 1}, "first": key, "last": key}
        return {"oneOf": [one, component(name, _object(properties))]}


_SLUG: Schema = {"type": "string", "pattern": SLUG_PATTERN}
_ID: Schema = {"type": "string", "format": "uuid"}


def _object(properties: Schema) -> Schema:
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


@dataclass(frozen=True)
class Body:
    """Body of a request with one document, which `parsers` read.

    `many`: the body can also be an array of documents.
    """

    document: type[Document]
    parsers: Sequence[type[BaseParser]] = (StrictJSONParser,)
    many: bool = False

    def schema(self, component: Component) -> Schema:
        schema = component(self.document.__name__, self.document.schema())
        if self.many:
            # An empty array would create nothing, and have no first and last key to answer with.
            return {"oneOf": [schema, {"type": "array", "items": schema, "minItems": 1}]}
        return schema

    @property
    def required(self) -> bool:
        return bool(self.document.schema().get("required"))

    def content(self, component: Component) -> dict[str, Any]:
        """Return the content of the body in OpenAPI."""
        schema = self.schema(component)
        return {
            str(parser.media_type): {
                "schema": {"type": "string"} if parser is CSVRowsParser else schema
            }
            for parser in self.parsers
        }


@dataclass(frozen=True)
class BulkBody(Body):
    """Body with one document, or with many as a JSON array or as rows of CSV."""

    parsers: Sequence[type[BaseParser]] = (StrictJSONParser, CSVRowsParser)
    many: bool = True


@dataclass(frozen=True)
class PatchBody(Body):
    """A JSON merge patch (RFC 7396) of a document."""

    parsers: Sequence[type[BaseParser]] = (StrictJSONParser, MergePatchParser)

    def schema(self, component: Component) -> Schema:
        return component(f"{self.document.__name__}Patch", patch_schema(self.document))

    @property
    def required(self) -> bool:
        return False


def patch_schema(document: type[Document]) -> Schema:
    """Return the JSON Schema of a merge patch, in which null removes a member."""
    properties: dict[str, Schema] = {}
    for name, field in document.fields.items():
        if isinstance(field, DocumentField):
            schema = patch_schema(field.document)
        else:
            schema = field.schema()
            # What a patch leaves out stays as it is: a default would state that it is reset.
            schema.pop("default", None)
            if isinstance(field, MapField | QuantitiesField):
                member = {"anyOf": [schema["additionalProperties"], {"type": "null"}]}
                schema = {"type": "object", "additionalProperties": member}
        properties[name] = {"anyOf": [schema, {"type": "null"}]}
    return {"type": "object", "properties": properties, "additionalProperties": False}
