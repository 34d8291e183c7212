"""Documents of the limits of groups, members and workloads."""

from collections.abc import Mapping, Sequence
from typing import Any

from allocator_service.core.errors import Unreadable
from allocator_service.core.quantities import Resource, json_number, vector_from
from allocator_service.pools.limits import MAX_LIMITS, Limit, limits_from
from api.contract import documents
from api.contract.parsers import json_document
from policies.fields import mistake


class AmountField(documents.PoolQuantitiesField):
    """Amounts of a limit, by resource."""

    def write(self, value: Any, context: Any) -> dict[str, Any]:
        return {name: json_number(amount) for name, amount in value.items()}

    def exact(self, value: Any, context: Any) -> dict[str, Any]:
        return dict(value)


class LimitDocument(documents.Document):
    where = documents.SelectorField(
        writable={"default": dict, "description": "Servers that it is for; {}: all servers."}
    )
    amount = AmountField(
        description="Greatest amount of each resource. Resources that are not named have no limit.",
        writable=True,
    )
    from_ = documents.TimestampField(
        source="start",
        allow_null=True,
        description="First instant of the limit; null: since it was set.",
        writable={"required": False},
    )
    to = documents.TimestampField(
        source="end",
        allow_null=True,
        description="End of the limit, exclusive; null: none.",
        writable={"required": False},
    )


class LimitsField(documents.ListField):
    """Stored limits of a node, as a list of documents."""

    def __init__(self) -> None:
        super().__init__(
            LimitDocument,
            min_items=0,
            max_items=MAX_LIMITS,
            code="limit.too_many",
            description="What everything below may demand at most, on which servers and when.",
            writable={"required": False},
        )

    def write(self, value: Any, context: Any) -> list[dict[str, Any]]:
        return [LimitDocument.write(limit, context) for limit in limits_from(value)]

    def exact(self, value: Any, context: Any) -> list[dict[str, Any]]:
        return [LimitDocument.exact(limit, context) for limit in limits_from(value)]

    def read_text(self, text: str) -> Any:
        try:
            return self.read(json_document(text.encode()))
        except Unreadable as error:
            raise mistake(error.code, error.detail) from error


def limits_read(
    rows: Sequence[Mapping[str, Any]] | None, resources: Sequence[Resource], *, pointer: str
) -> list[Limit] | None:
    """Return the limits in a request's field at `pointer`, or None if the request has no such field.

    Raises `Unacceptable` for unknown resources and invalid quantities.
    """
    if rows is None:
        return None
    limits = []
    for index, row in enumerate(rows):
        amount = vector_from(row["amount"], resources, pointer=f"{pointer}/{index}/amount")
        # The vector has 0 for resources that the entry does not name. These have no limit.
        named = {
            resource.name: quantity
            for resource, quantity in zip(resources, amount, strict=True)
            if resource.name in row["amount"]
        }
        limits.append(Limit(amount=named, where=row["where"], start=row["from"], end=row["to"]))
    return limits
