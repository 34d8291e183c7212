"""Query parameters, declared as fields of a document and read from text."""

import re
from typing import Any

from django.http import QueryDict

from allocator_service.core.errors import Unreadable
from policies.fields import Document, Field, IntegerField, Mistakes, Schema, TextField

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000

# `format` is content negotiation's, on every route; see api.contract.negotiation.
_EVERYWHERE = {"format"}
_LONE_SURROGATE_OR_NUL = re.compile(r"[\x00\ud800-\udfff]")


class Parameters(Document):
    """The query parameters of a route without any."""

    @classmethod
    def read_query(cls, query: QueryDict) -> dict[str, Any]:
        """Return the value of every parameter, with defaults.

        Raises `Unreadable` for a parameter that is unknown, given twice, missing or has a bad value.
        """
        fields = cls.fields
        for name, texts in query.lists():
            # A misspelt filter that is ignored would answer with everything.
            if name not in fields and name not in _EVERYWHERE:
                known = ", ".join([*fields, *sorted(_EVERYWHERE)])
                raise _refusal(
                    "unknown",
                    name,
                    f"is not a parameter here; the parameters are: {known}.",
                )
            # Django would take the last one, where a proxy or the caller may have meant the first.
            if len(texts) != 1:
                raise _refusal("twice", name, "is given more than once.")
        for name, field in fields.items():
            if field.required and name not in query:
                raise _refusal("required", name, "is required.")
        return {
            name: _read(field, name, str(query[name])) if name in query else field.left_out()
            for name, field in fields.items()
        }

    @classmethod
    def describe(cls) -> list[Schema]:
        """Return the parameters as OpenAPI parameter objects."""
        return [parameter_schema(name, field) for name, field in cls.fields.items()]


def parameter_schema(name: str, field: Field) -> Schema:
    """Return the OpenAPI parameter object of a query parameter."""
    schema = dict(field.schema())
    description = schema.pop("description", "")
    return {
        "name": name,
        "in": "query",
        "required": field.required,
        "description": description,
        "schema": schema,
    }


def _read(field: Field, name: str, text: str) -> Any:
    if _LONE_SURROGATE_OR_NUL.search(text):
        raise _refusal("value", name, "contains a character that is not allowed in text.")
    try:
        return field.read_text(text)
    except Mistakes as wrong:
        raise _refusal("value", name, f"has an invalid value. {wrong}") from None


def _refusal(kind: str, name: str, detail: str) -> Unreadable:
    shown = _LONE_SURROGATE_OR_NUL.sub("\N{REPLACEMENT CHARACTER}", name[:80])
    return Unreadable(f'"{shown}" {detail}', code=f"parameter.{kind}", extra={"parameter": shown})


class PageParameters(Parameters):
    """The parameters of a list, its page size and cursor."""

    limit = IntegerField(
        minimum=1, maximum=MAX_LIMIT, default=DEFAULT_LIMIT, description="Rows of a page."
    )
    cursor = TextField(
        max_length=500, required=False, description="Where to continue: from the previous page."
    )
