"""Fields of workloads whose tasks have several pieces."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from allocator_service.core.errors import Unacceptable, Unreadable
from allocator_service.core.quantities import Resource, json_number, vector_from
from allocator_service.workloads.gangs import MAX_KINDS, MAX_PIECES, Gang, Piece, pieces_from
from api.contract import documents
from api.contract.parsers import json_document
from policies.fields import mistake

GANG = ("pieces", "per_server", "together", "at_least")


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
    """Stored pieces of a workload's tasks, as a list of documents; null for one piece."""

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


def gang_read(fields: Mapping[str, Any], resources: Sequence[Resource], pointer: str = "") -> Gang:
    """Return how tasks start, from a request's fields.

    Raises `Unacceptable` for unknown resources and invalid quantities.
    """
    pieces = []
    for index, row in enumerate(fields["pieces"] or ()):
        demand = vector_from(
            row["demand"], resources, pointer=f"{pointer}/pieces/{index}/demand"
        )
        named = {
            resource.name: amount
            for resource, amount in zip(resources, demand, strict=True)
            if amount
        }
        pieces.append(Piece(row["count"], named))
    return Gang(
        tuple(pieces), fields["per_server"], fields["together"] or "", fields["at_least"] or 1
    )


def demand_read(
    fields: Mapping[str, Any], gang: Gang, resources: Sequence[Resource], pointer: str
) -> list[Decimal]:
    """Return the demand of one task: that of the request, or the sum of the pieces.

    Raises `Unacceptable` if there is neither, or both and they differ.
    """
    if fields["demand"] is None and not gang.pieces:
        raise Unacceptable(
            "Expected a `demand`, or `pieces` with demands.",
            code="field.required",
            pointer=f"{pointer}/demand",
        )
    total: list[Decimal] = gang.demand(resources)
    if fields["demand"] is None:
        return total
    demand = vector_from(fields["demand"], resources, pointer=f"{pointer}/demand")
    if gang.pieces and demand != total:
        raise Unacceptable(
            "The demand differs from the sum of the pieces. Leave it out.",
            code="workload.pieces",
            pointer=f"{pointer}/demand",
        )
    return demand
