"""Sentences for people about the reasons of a decision and what helps."""

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from allocator_service.allocation.history import Cause
from allocator_service.core.display import instant_text, number_text
from allocator_service.pools.budgets import opening_of

_RESOURCE, _LIMIT = "resource:", "limit:"
# A sharing degree this near to 1 is neither a benefit nor a loss.
_AS_ALONE = 0.005
# As docs/guides/errors.md lists them, which a test compares.
_REASONS: Mapping[str, tuple[str, str]] = {
    "task_limit": (
        "It runs all the tasks it asked for.",
        "Ask for more tasks.",
    ),
    "no_eligible_server": (
        "No active server has the labels it selects together with the resources it needs.",
        "Widen its server selector; contribute such a server.",
    ),
    "resource_absent": (
        "It needs a resource that the pool does not have.",
        "Contribute some; take it out of the demand.",
    ),
    "no_server_large_enough": (
        "One task is larger than every server it may run on, even an empty one.",
        "Contribute a larger server; a smaller demand per task.",
    ),
    "gang": (
        "No task has room for all its pieces at once.",
        "Wait until servers are released; fewer or smaller pieces; contribute a server.",
    ),
    "out_of_range": (
        "Its demand is too small or too large, compared with the pool, to compute with.",
        "Choose other units, or a demand nearer to the servers' size.",
    ),
    "level": (
        "You have the level of all waiting tenants: more for it means less for one that has less.",
        "More contribution or weight; or wait for others.",
    ),
}
_DONE: Mapping[str, str] = {"submit": "submitted", "withdraw": "withdrew"}
_DATED: Mapping[str, str] = {"begin": "began", "end": "ended"}
_CHANGED: Mapping[str, str] = {
    "workload": "another member changed its workloads",
    "server": "servers changed",
    "member": "members or their weights changed",
    "group": "groups changed",
    "pool": "the pool's settings changed",
    "cluster": "a cluster left or returned",
    "limit": "a limit of another member or group began or ended",
}
PAUSED = "It is paused, and gets nothing until you activate it."
NOT_DECIDED = "It came after the decision in force; the next decision includes it."


def _whose(limited_by: str, known: Collection[str] | None) -> str:
    """The owner of the limit that a reason names."""
    _, scope, *name = limited_by.split(":", 2)
    if scope == "group":
        named = known is None or name[0] in known
        return f"of the group {name[0]}" if named else "of a group above yours"
    if scope == "workload":
        return "of this workload"
    return "that was set for you" if known is None else "of the member"


def reason_text(limited_by: str, known: Collection[str] | None = None) -> str:
    """Return why a workload did not get more.

    `known` are the groups that a visitor of a group may know, None for the tenant itself.
    """
    if limited_by == f"{_LIMIT}lend":
        return "What contributors lend of their servers is in use."
    if limited_by.startswith(_LIMIT):
        return f"The limit {_whose(limited_by, known)} is reached."
    if limited_by.startswith(_RESOURCE):
        name = limited_by.removeprefix(_RESOURCE)
        return f"All of {name} is used up on the servers it may run on."
    return _REASONS[limited_by][0]


def helps(limited_by: str, known: Collection[str] | None = None) -> str:
    """Return what gives a workload with this reason more, without any computation."""
    if limited_by == f"{_LIMIT}workload":
        return "Raise the limit of the workload."
    if limited_by == f"{_LIMIT}lend":
        return "Servers of others, or contributors that lend more."
    if limited_by.startswith(_LIMIT):
        return f"A higher limit: ask who manages the one {_whose(limited_by, known)}."
    if limited_by.startswith(_RESOURCE):
        return f"More {limited_by.removeprefix(_RESOURCE)} in the pool."
    return _REASONS[limited_by][1]


def spent_text(stored: Mapping[str, Any], timezone: str, known: Collection[str] | None) -> str:
    """Return why a workload did not get more that an exhausted budget of a run stops.

    `known` are the groups that a visitor of a group may know, None for the tenant itself.
    """
    until = instant_text(opening_of(stored), timezone)
    of_group = stored["scope"] == "group"
    whose = f"The budget of the group {stored['node']}" if of_group else "The budget of the member"
    if known is None and not of_group:
        whose = "Your budget"
    return f"{whose}, {stored['resource']} hours, is spent until {until}."


SPENT_HELPS = "The next period; or a larger budget, by who manages it."


def cause_text(cause: Cause) -> str:
    """Return what was changed before a step of a tenant's allocation."""
    if cause.kind == "limit" and cause.action:
        return f"{_limit_of(cause)} {_DATED[cause.action]}"
    if cause.workload:
        named = f"{cause.workload} and {cause.more:,} more" if cause.more else cause.workload
        return f"you {_DONE.get(cause.action, 'changed')} {named}"
    return _CHANGED[cause.kind]


def _limit_of(cause: Cause) -> str:
    if cause.group:
        return f"a limit of the group {cause.group}"
    return f"a limit of {cause.workload}" if cause.workload else "a limit of yours"


def sharing_text(least: float | None, resource: str | None) -> str:
    """Return a sentence about a sharing degree."""
    if least is None or resource is None:
        return ""
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
