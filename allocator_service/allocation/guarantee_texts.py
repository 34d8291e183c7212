"""Sentences about guarantees that a decision does not meet, for responses, the admin and pages."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from allocator_service.core.display import exact_resource_text, percent_text
from allocator_service.core.quantities import Resource
from allocator_service.pools.budgets import node_text
from allocator_service.pools.limits import selector_text
from allocator_service.workloads.reason_texts import OPERATOR, stopped_text


def unmet_sentence(unmet: Mapping[str, Any], resources: Sequence[Resource]) -> str:
    """Return what a decision gives of a guarantee in `guarantees_unmet`, and what stopped the rest."""
    ((scope, slug),) = unmet["node"].items()
    whose = node_text(scope, slug)
    named = f"The guarantee of {whose}, what its workloads get alone on its own servers,"
    if "amount" in unmet:
        amounts = ", ".join(
            exact_resource_text(Decimal(str(unmet["amount"][each.name])), each)
            for each in resources
            if each.name in unmet["amount"]
        )
        servers = selector_text(unmet.get("where", {}))
        named = f"The guarantee of {whose}, {amounts}{f' on {servers}' if servers else ''},"
    if unmet["limited_by"] == ["out_of_range"]:
        return f"{named} leaves out a workload whose tasks are too small or too large beside it."
    stopped = stopped_text(unmet["limited_by"], OPERATOR)
    return f"{named} is met to {percent_text(unmet['met'])}: {stopped}."
