"""Sentences about guarantees that a decision does not meet, for responses, the admin and pages."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from allocator_service.allocation.reasons import group_of_reason
from allocator_service.core.display import percent_text, resource_text
from allocator_service.core.quantities import Resource
from allocator_service.pools.budgets import node_text
from allocator_service.pools.limits import selector_text

_RESOURCE = "resource:"
_STOPPED: Mapping[str, str] = {
    "task_limit": "no more is demanded",
    "no_eligible_server": "no active server matches",
    "resource_absent": "the pool does not have the resource",
    "no_server_large_enough": "a task is larger than every server",
    "out_of_range": "a demand is too small or too large to compute with",
    "level": "it shares the servers with other guarantees",
    "limit:tenant": "the limit of a member is reached",
    "limit:workload": "the limit of a workload is reached",
    "limit:lend": "what contributors lend is in use",
}


def stopped_text(reasons: Iterable[str], *, known: Collection[str] | None = None) -> str:
    """Return what keeps a guarantee from being met, by the reasons of a decision.

    `known` are the groups that the reader may know, None for all.
    """
    return ", ".join(dict.fromkeys(_stopped(reason, known) for reason in reasons))


def _stopped(reason: str, known: Collection[str] | None) -> str:
    slug = group_of_reason(reason)
    if slug is not None:
        whose = f"group {slug}" if known is None or slug in known else "another group"
        return f"the limit of {whose} is reached"
    if reason.startswith(_RESOURCE):
        return f"all {reason.removeprefix(_RESOURCE)} on its servers is in use"
    return _STOPPED[reason]


def unmet_sentence(unmet: Mapping[str, Any], resources: Sequence[Resource]) -> str:
    """Return what a decision gives of a guarantee in `guarantees_unmet`, and what stopped the rest."""
    ((scope, slug),) = unmet["node"].items()
    whose = node_text(scope, slug)
    named = f"The guarantee of {whose}, what its workloads get alone on its own servers,"
    if "amount" in unmet:
        amounts = ", ".join(
            resource_text(Decimal(str(unmet["amount"][each.name])), each)
            for each in resources
            if each.name in unmet["amount"]
        )
        servers = selector_text(unmet.get("where", {}))
        named = f"The guarantee of {whose}, {amounts}{f' on {servers}' if servers else ''},"
    return f"{named} is met to {percent_text(unmet['met'])}: {stopped_text(unmet['limited_by'])}."
