"""Fields of workloads whose tasks have several pieces."""

from allocator_service.core.labels import LABEL_LENGTH
from allocator_service.workloads.gangs import MAX_KINDS, MAX_PIECES, pieces_from
from api.contract import documents


class PieceDocument(documents.Document):
    count = documents.IntegerField(
        minimum=1,
        maximum=MAX_PIECES,
        writable={"default": 1, "description": "Number of pieces of this kind in a task."},
    )
    demand = documents.NamedQuantitiesField(writable=True, description="Demand of one piece.")


def pieces_field() -> documents.StoredListField:
    """Return the field of the pieces of one task."""
    return documents.StoredListField(
        PieceDocument,
        pieces_from,
        max_items=MAX_KINDS,
        code="workload.pieces",
        allow_null=True,
        description="Kinds of pieces of one task, which run at once or not at all, each on one"
        " server. null: one piece of the demand.",
        writable={"required": False},
    )


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
