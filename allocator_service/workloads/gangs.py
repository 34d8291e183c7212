"""Settings of tasks of several pieces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from allocator_service.core.display import counted, exact_resource_text
from allocator_service.core.errors import FieldError, Unacceptable
from allocator_service.core.quantities import LIMIT, Resource, vector_from

if TYPE_CHECKING:
    from allocator_service.workloads.models import Workload

MAX_KINDS, MAX_PIECES = 2, 10_000
GANG = ("pieces", "per_server", "together", "at_least")


@dataclass(frozen=True)
class Piece:
    """One kind of pieces. `demand` is that of one piece, by name of the resource."""

    count: int
    demand: Mapping[str, Decimal]


@dataclass(frozen=True)
class Gang:
    """Pieces of the tasks of a workload, and the number of tasks that start at once.

    Without pieces a task is one piece of the workload's demand. `per_server` is None for any number of
    pieces of a task on one server, `together` is empty for servers with any labels.
    """

    pieces: Sequence[Piece] = field(default_factory=tuple)
    per_server: int | None = None
    together: str = ""
    at_least: int = 1

    @classmethod
    def of(cls, workload: "Workload") -> "Gang":
        """Return what a workload stores."""
        return cls(
            tuple(pieces_from(workload.pieces)),
            workload.per_server,
            workload.together,
            workload.at_least,
        )

    @property
    def is_plain(self) -> bool:
        """True if tasks start one by one, each as one piece."""
        return not self.pieces and self.at_least == 1

    def kinds(self, resources: Sequence[Resource]) -> list[list[Decimal]]:
        """Return the demand of one piece of each kind, in the order of resources."""
        return [
            [each.demand.get(resource.name, Decimal(0)) for resource in resources]
            for each in self.pieces
        ]

    def demand(self, resources: Sequence[Resource]) -> list[Decimal]:
        """Return the demand of one task, the sum of its pieces."""
        total = [Decimal(0)] * len(resources)
        for each, kind in zip(self.pieces, self.kinds(resources), strict=True):
            total = [a + each.count * b for a, b in zip(total, kind, strict=True)]
        return total

    def settings(self) -> dict[str, Any]:
        """Return the fields of a workload."""
        return {
            "pieces": pieces_stored(self.pieces),
            "per_server": self.per_server,
            "together": self.together,
            "at_least": self.at_least,
        }


def gang_text(gang: Gang, resources: Sequence[Resource]) -> str:
    """Return how tasks start, such as 3 pieces of 8 GPUs on servers with the same rack.

    The text is empty for tasks that start one by one, each as one piece.
    """
    kinds = [
        f"{counted(piece.count, 'piece')} of "
        + ", ".join(
            exact_resource_text(amount, resource)
            for resource, amount in zip(resources, demand, strict=True)
            if amount
        )
        for piece, demand in zip(gang.pieces, gang.kinds(resources), strict=True)
    ]
    parts = [" and ".join(kinds)] if kinds else []
    if gang.together:
        parts.append(f"on servers with the same {gang.together}")
    if gang.per_server is not None:
        parts.append(f"at most {counted(gang.per_server, 'piece')} on a server")
    if gang.at_least > 1:
        parts.append(f"at least {gang.at_least:,} tasks at once")
    return ", ".join(parts)


def pieces_stored(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Return the list that a workload stores."""
    return [
        {
            "count": each.count,
            # As text: JSON would make a double of it. Without zeros, so that equal pieces are equal.
            "demand": {name: str(amount) for name, amount in each.demand.items() if amount},
        }
        for each in pieces
    ]


def pieces_from(stored: Sequence[Mapping[str, Any]]) -> list[Piece]:
    """Return the pieces in the list that a workload stores."""
    return [
        Piece(each["count"], {name: Decimal(amount) for name, amount in each["demand"].items()})
        for each in stored
    ]


def gang_check(gang: Gang, pointer: str) -> None:
    """Raise `Unacceptable` for a gang that no pool can run."""
    pieces = sum(each.count for each in gang.pieces)
    if pieces * gang.at_least > MAX_PIECES:
        field = "pieces" if pieces > MAX_PIECES else "at_least"
        raise Unacceptable(
            f"At most {MAX_PIECES:,} pieces start at once, counted over all tasks that start together.",
            code="workload.pieces",
            pointer=f"{pointer}/{field}",
        )
    if gang.per_server is not None and not gang.pieces:
        raise Unacceptable(
            "`per_server` is for workloads with `pieces`.",
            code="workload.per_server",
            pointer=f"{pointer}/per_server",
        )
    if gang.together and not gang.pieces:
        raise Unacceptable(
            "`together` is for workloads with `pieces`.",
            code="workload.together",
            pointer=f"{pointer}/together",
        )
    for name in {name for each in gang.pieces for name in each.demand}:
        # Each piece may be in range, and their sum is stored as the demand.
        if sum(each.count * each.demand.get(name, 0) for each in gang.pieces) >= LIMIT:
            raise Unacceptable(
                f"All pieces of one task demand 10^12 or more of {name}: choose a larger unit.",
                code="quantity.too_large",
                pointer=f"{pointer}/pieces",
            )
    for index, each in enumerate(gang.pieces):
        if not any(each.demand.values()):
            raise Unacceptable(
                "A piece demands something: at least one resource above 0.",
                code="demand.zero",
                pointer=f"{pointer}/pieces/{index}/demand",
            )


def start_check(gang: Gang, tasks: int | None, pointer: str) -> None:
    """Raise `Unacceptable` for a new workload with too few tasks to start any."""
    if error := start_error(gang, tasks, pointer):
        raise Unacceptable(error.detail, code=error.code, pointer=error.pointer)


def start_error(gang: Gang, tasks: int | None, pointer: str) -> FieldError | None:
    """Return the error of a new workload with too few tasks to start any.

    Tasks of a running workload may become fewer than that, as `at_least` is for its start.
    """
    if tasks is None or not 0 < tasks < gang.at_least:
        return None
    detail = f"At least {gang.at_least:,} tasks start together. The workload has {tasks:,}."
    return FieldError(f"{pointer}/at_least", "workload.at_least", detail)


def gang_read(fields: Mapping[str, Any], resources: Sequence[Resource], pointer: str = "") -> Gang:
    """Return how tasks start, from a request's fields.

    Raises `Unacceptable` for unknown resources and invalid quantities.
    """
    pieces = []
    for index, row in enumerate(fields.get("pieces") or ()):
        demand = vector_from(row["demand"], resources, pointer=f"{pointer}/pieces/{index}/demand")
        named = {
            resource.name: amount
            for resource, amount in zip(resources, demand, strict=True)
            if amount
        }
        pieces.append(Piece(row.get("count", 1), named))
    return Gang(
        tuple(pieces),
        fields.get("per_server"),
        fields.get("together") or "",
        fields.get("at_least") or 1,
    )


def demand_read(
    fields: Mapping[str, Any], gang: Gang, resources: Sequence[Resource], pointer: str
) -> list[Decimal]:
    """Return the demand of one task, of the request or as the sum of the pieces.

    Raises `Unacceptable` if there is neither, or both and they differ.
    """
    if fields.get("demand") is None and not gang.pieces:
        raise Unacceptable(
            "Expected a `demand`, or `pieces` with demands.",
            code="field.required",
            pointer=f"{pointer}/demand",
        )
    total: list[Decimal] = gang.demand(resources)
    if fields.get("demand") is None:
        return total
    demand = vector_from(fields["demand"], resources, pointer=f"{pointer}/demand")
    if gang.pieces and demand != total:
        raise Unacceptable(
            "The demand differs from the sum of the pieces. Leave it out.",
            code="workload.pieces",
            pointer=f"{pointer}/demand",
        )
    return demand
