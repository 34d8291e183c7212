"""Fields of workloads whose tasks have several pieces."""

from typing import Any

from allocator_service.core.errors import Unreadable
from allocator_service.core.labels import LABEL_LENGTH
from allocator_service.core.quantities import json_number
from allocator_service.workloads.gangs import MAX_KINDS, MAX_PIECES, pieces_from
from api.contract import documents
from api.contract.parsers import json_document
from policies.fields import mistake


class PieceDemandField(documents.PoolQuantitiesField):
    """Demand of one piece, by resource."""

    def write(self, value: Any, context: Any) -> dict[str, Any]:
        return {name: json_number(amount) for name, amount in value.items()}

    def exact(self, value: Any, context: Any) -> dict[str, Any]:
        return dict(value)


class PieceDocument(documents.Document):
    count = documents.IntegerField(
        minimum=1,
        maximum=MAX_PIECES,
        writable={"default": 1, "description": "Number of pieces of this kind in a task."},
    )
    demand = PieceDemandField(writable=True, description="Demand of one piece.")


class PiecesField(documents.ListField):
    """Stored pieces of a workload's tasks, as a list of documents."""

    def __init__(self) -> None:
        super().__init__(
            PieceDocument,
            max_items=MAX_KINDS,
            code="workload.pieces",
            allow_null=True,
            description="Kinds of pieces of one task, which run at once or not at all, each on one"
            " server. null: one piece of the demand.",
            writable={"required": False},
        )

    def write(self, value: Any, context: Any) -> list[dict[str, Any]] | None:
        return [PieceDocument.write(each, context) for each in pieces_from(value)] or None

    def exact(self, value: Any, context: Any) -> list[dict[str, Any]] | None:
        return [PieceDocument.exact(each, context) for each in pieces_from(value)] or None

    def read_text(self, text: str) -> Any:
        try:
            return self.read(json_document(text.encode()))
        except Unreadable as error:
            raise mistake(error.code, error.detail) from error


def per_server_field() -> documents.IntegerField:
    """Return the field of the most pieces on one server."""
    return documents.IntegerField(
        minimum=1,
        maximum=MAX_PIECES,
        allow_null=True,
        writable={
            "required": False,
            "description": "Most pieces of one task on one server; null is any number.",
        },
    )


def together_field() -> documents.TextField:
    """Return the field of the label that keeps pieces together."""
    return documents.TextField(
        max_length=LABEL_LENGTH,
        blank=True,
        writable={
            "default": "",
            "description": "Label of servers. All pieces of a task run on servers with the same value"
            " of it. Empty is any servers.",
        },
    )


def at_least_field() -> documents.IntegerField:
    """Return the field of the tasks that start at once."""
    return documents.IntegerField(
        minimum=1,
        maximum=MAX_PIECES,
        writable={
            "default": 1,
            "description": "Number of tasks that start at once, if none runs.",
        },
    )
