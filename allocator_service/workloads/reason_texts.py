"""Sentences for people about the reasons for which workloads get no more.

The API, pages, the admin, mail and command lines take them from here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allocator_service.core.display import instant_text
from allocator_service.pools.clusters import clusters_selected
from allocator_service.workloads.satisfiability import NO_ELIGIBLE_SERVER, RESOURCE_ABSENT

LIMIT = "limit:"
_RESOURCE = "resource:"
_LEND = f"{LIMIT}lend"
# Reasons of workloads whose clusters have no server at all.
_WITHOUT_SERVERS = (NO_ELIGIBLE_SERVER, RESOURCE_ABSENT)
_MOST_CLUSTERS = 3  # named in a sentence


@dataclass(frozen=True)
class Reader:
    """Person that reads a reason.

    `is_tenant` is True for the workload's own tenant. `groups` are the groups that the reader may
    know, None for all.
    """

    is_tenant: bool = False
    groups: Collection[str] | None = None


TENANT = Reader(is_tenant=True)
OPERATOR = Reader()


@dataclass(frozen=True)
class _Texts:
    """Texts of a reason, of which the clause is for guarantees."""

    sentence: str
    clause: str
    remedy: str


# docs/guides/errors.md lists the sentences and remedies, which a test compares.
_TEXTS: Mapping[str, _Texts] = {
    "task_limit": _Texts(
        "It runs all the tasks it asked for.",
        "no more is demanded",
        "Ask for more tasks.",
    ),
    "no_eligible_server": _Texts(
        "No active server has the labels it selects together with the resources it needs.",
        "no active server matches",
        "Widen its server selector; contribute such a server.",
    ),
    "resource_absent": _Texts(
        "It needs a resource that the pool does not have.",
        "the pool does not have the resource",
        "Contribute some; take it out of the demand.",
    ),
    "no_server_large_enough": _Texts(
        "One task is larger than every server it may run on, even an empty one.",
        "a task is larger than every server",
        "Contribute a larger server; a smaller demand per task.",
    ),
    "gang": _Texts(
        "No task has room for all its pieces at once.",
        "no task has room for all its pieces at once",
        "Fewer or smaller pieces; contribute a server; if all fit on empty servers, wait for them.",
    ),
    "out_of_range": _Texts(
        "Its demand is too small or too large, compared with the pool, to compute with.",
        "a demand is too small or too large to compute with",
        "Choose other units, or a demand nearer to the servers' size.",
    ),
    "level": _Texts(
        "Its tenant has the level of all waiting tenants: more for it would mean less for a tenant that"
        " has less.",
        "it shares the servers with other guarantees",
        "More contribution or weight; or wait for others.",
    ),
    _LEND: _Texts(
        "What contributors lend of their servers is in use.",
        "what contributors lend is in use",
        "Servers of others, or contributors that lend more.",
    ),
}
_OWN_LEVEL = (
    "You have the level of all waiting tenants: more for it means less for one that has less."
)


def reason_text(reason: str, reader: Reader) -> str:
    """Return why a workload gets no more."""
    if reason in _TEXTS:
        # The general sentence names "its tenant", who is the reader here.
        is_own_level = reason == "level" and reader.is_tenant
        return _OWN_LEVEL if is_own_level else _TEXTS[reason].sentence
    if reason.startswith(LIMIT):
        return f"The limit {_whose(reason, reader)} is reached."
    return f"All of {_resource(reason)} is used up on the servers it may run on."


def remedy_text(reason: str, reader: Reader) -> str:
    """Return what gives a workload with this reason more, without any computation."""
    if reason in _TEXTS:
        return _TEXTS[reason].remedy
    if reason == f"{LIMIT}workload":
        return "Raise the limit of the workload."
    if reason.startswith(LIMIT):
        return f"A higher limit: ask who manages the one {_whose(reason, reader)}."
    return f"More {_resource(reason)} in the pool."


def away_text(
    reason: str, selector: Mapping[str, Any], away: Mapping[str, datetime], zone: str = "UTC"
) -> str:
    """Return why a workload cannot run if all the clusters that it selects left, otherwise "".

    `away` has since when, by cluster.
    """
    return clusters_away_text(selector, away, zone) if reason in _WITHOUT_SERVERS else ""


def clusters_away_text(
    selector: Mapping[str, Any], away: Mapping[str, datetime], zone: str = "UTC"
) -> str:
    """Return that all the clusters that a workload selects left, otherwise ""."""
    named = clusters_selected(selector)
    if not named or not away.keys() >= set(named):
        return ""
    left = [f"{name} left at {instant_text(away[name], zone)}" for name in sorted(set(named))]
    of_one, more = len(left) == 1, len(left) - _MOST_CLUSTERS
    return (
        f"The cluster{'' if of_one else 's'} that it selects {'is' if of_one else 'are'} away because"
        f" {'its' if of_one else 'their'} agents are silent: {', '.join(left[:_MOST_CLUSTERS])}"
        f"{f' and {more} more' if more > 0 else ''}."
    )


AWAY_HELPS = "Wait until an agent of the cluster reports; select another cluster."


def stopped_text(reasons: Iterable[str], reader: Reader) -> str:
    """Return what keeps a guarantee from being met, by the reasons of its workloads."""
    # Workloads of a node often have one reason, which is stated once.
    return ", ".join(dict.fromkeys(_clause(reason, reader) for reason in reasons))


def _clause(reason: str, reader: Reader) -> str:
    if reason in _TEXTS:
        return _TEXTS[reason].clause
    if reason.startswith(LIMIT):
        scope, slug = _owner(reason)
        whose = f"a {'member' if scope == 'tenant' else scope}"
        if slug:
            whose = f"group {slug}" if _knows(reader, slug) else "another group"
        return f"the limit of {whose} is reached"
    return f"all {_resource(reason)} on its servers is in use"


def _whose(reason: str, reader: Reader) -> str:
    """Return the owner of the limit that a reason names."""
    scope, slug = _owner(reason)
    if scope == "group":
        return f"of the group {slug}" if _knows(reader, slug) else "of a group above yours"
    if scope == "workload":
        return "of this workload"
    return "that was set for you" if reader.is_tenant else "of the member"


def _owner(reason: str) -> tuple[str, str]:
    """Return the scope of a limit, and the slug of a group."""
    scope, _, slug = reason.removeprefix(LIMIT).partition(":")
    return scope, slug


def _knows(reader: Reader, group: str) -> bool:
    return reader.groups is None or group in reader.groups


def _resource(reason: str) -> str:
    return reason.removeprefix(_RESOURCE)
