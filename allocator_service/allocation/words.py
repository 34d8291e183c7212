"""Sentences for people about budgets, causes of changes and sharing degrees."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from allocator_service.allocation.history import Cause
from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import server_selectors
from allocator_service.core.display import instant_text, number_text
from allocator_service.pools.budgets import opening_of
from allocator_service.pools.clusters import clusters_away
from allocator_service.workloads.reason_texts import Reader, away_text

# A sharing degree this near to 1 is neither a benefit nor a loss.
_AS_ALONE = 0.005
_DONE: Mapping[str, str] = {"submit": "submitted", "withdraw": "withdrew"}
_DATED: Mapping[str, str] = {"begin": "began", "end": "ended"}
_BUDGET: Mapping[str, str] = {"exhaust": "was exhausted", "open": "opened again"}
_CLUSTER: Mapping[str, str] = {"leave": "left", "return": "returned"}
_CHANGED: Mapping[str, str] = {
    "workload": "another member changed its workloads",
    "server": "servers changed",
    "member": "members or their weights changed",
    "group": "groups changed",
    "pool": "the pool's settings changed",
    "limit": "a limit of another member or group began or ended",
    "budget": "a budget of another member or group was exhausted or opened again",
}
PAUSED = "It is paused, and gets nothing until you activate it."
NOT_DECIDED = "It came after the decision in force; the next decision includes it."


def spent_text(stored: Mapping[str, Any], timezone: str, reader: Reader) -> str:
    """Return why a workload did not get more that an exhausted budget of a run stops."""
    until = instant_text(opening_of(stored), timezone)
    of_group = stored["scope"] == "group"
    whose = f"The budget of the group {stored['node']}" if of_group else "The budget of the member"
    if reader.is_tenant and not of_group:
        whose = "Your budget"
    return f"{whose}, {stored['resource']} hours, is spent until {until}."


def away_texts(run: Run, tenant: str, reasons: Mapping[str, str]) -> dict[str, str]:
    """Return why workloads of clusters that had left before the run could not run, by name.

    A workload with another reason has an empty text or none.
    """
    # By generation: a run that was requested in time may read the pool long after its request.
    away = clusters_away(run.pool, generation=run.generation)
    if not away:
        return {}
    selectors = server_selectors(run=run, tenant=tenant)
    return {
        name: away_text(reason, selectors.get(name, {}), away, run.pool.timezone)
        for name, reason in reasons.items()
    }


SPENT_HELPS = "The next period; or a larger budget, by who manages it."


def cause_text(cause: Cause) -> str:
    """Return the changes before a step of a tenant's allocation."""
    if cause.kind == "limit" and cause.action:
        return f"{_limit_of(cause)} {_DATED[cause.action]}"
    if cause.kind == "budget" and cause.action:
        whose = f"the budget of the group {cause.group}" if cause.group else "your budget"
        return f"{whose} ({cause.resource} hours) {_BUDGET[cause.action]}"
    if cause.workload:
        named = f"{cause.workload} and {cause.more:,} more" if cause.more else cause.workload
        return f"you {_DONE.get(cause.action, 'changed')} {named}"
    if cause.cluster:
        return f"the cluster {cause.cluster} {_CLUSTER[cause.action]}"
    return _CHANGED[cause.kind]


def _limit_of(cause: Cause) -> str:
    if cause.group:
        return f"a limit of the group {cause.group}"
    return f"a limit of {cause.workload}" if cause.workload else "a limit of yours"


def sharing_text(least: float | None, resource: str | None) -> str:
    """Return a sentence about a sharing degree."""
    if least is None or resource is None:
        return ""
    if least == 0:
        return (
            f"No use of {resource} was recorded, although you would have used some in your own part of"
            " the pool."
        )
    times = f"{number_text(Decimal(str(least)))} times what you would have used alone"
    if abs(least - 1) < _AS_ALONE:
        return (
            f"Of {resource} you used as much as you would have used in your own part of the pool."
        )
    if least > 1:
        return (
            f"Of every resource you used at least {times} in your own part of the pool ({resource} is"
            " the least). Sharing paid off."
        )
    return (
        f"Of {resource} you used {times} in your own part of the pool. Sharing cost you something."
    )
