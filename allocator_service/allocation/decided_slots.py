"""Parts of a decision that divides time, over its slots."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from allocator_service.allocation.decided_parts import DecidedSlot, ServerClassName, Vector


def single_servers(name: str, count: int) -> list[str]:
    """Return the names that `policies` gives to the single servers of a row of a document."""
    if count == 1:
        return [name]
    width = max(4, len(str(count)))
    return [f"{name}-{number:0{width}d}" for number in range(1, count + 1)]


def tasks_by_class(
    row: Mapping[str, Any], names: Mapping[str, ServerClassName]
) -> Iterator[tuple[ServerClassName, float]]:
    """Yield the tasks of a slot's row by class, which is None in a pool treated as one server."""
    if "servers" not in row:
        yield None, row["tasks"]
        return
    for item in row["servers"]:
        if item["server"] in names:
            yield names[item["server"]], item["tasks"]


def most_of_slots(
    slots: Sequence[DecidedSlot],
) -> tuple[dict[str, Vector], dict[tuple[str, ServerClassName], Vector]]:
    """Return each tenant's maximum of each resource over the slots, in total and by class."""
    totals: dict[str, Vector] = {}
    by_class: dict[tuple[str, ServerClassName], Vector] = {}
    for slot in slots:
        of_slot: dict[str, Vector] = {}
        for (tenant, name), amounts in slot.amounts.items():
            raise_to(by_class, (tenant, name), amounts)
            held = of_slot.get(tenant, [Decimal(0)] * len(amounts))
            of_slot[tenant] = [a + b for a, b in zip(held, amounts, strict=True)]
        for tenant, amounts in of_slot.items():
            raise_to(totals, tenant, amounts)
    return totals, by_class


def raise_to(most: dict[Any, Vector], key: Any, amounts: Vector) -> None:
    """Raise the amounts of a key to these, resource by resource."""
    held = most.get(key)
    most[key] = amounts if held is None else [max(a, b) for a, b in zip(held, amounts, strict=True)]
