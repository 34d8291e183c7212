"""Guarantees that a pool's servers cannot meet, computed before the next decision."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any

from allocator_service.allocation.guarantee_texts import unmet_sentence
from allocator_service.allocation.runs.snapshots import pool_state
from allocator_service.allocation.what_if.evaluations import (
    answer_document,
    refuse_many,
    refuse_oversized,
)
from allocator_service.core.display import instant_text
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource
from allocator_service.pools.limits import has_guarantees, has_own_servers
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import members_of, resources_of
from allocator_service.workloads.models import WorkloadState

# A request that sets a guarantee waits for its warnings at most this long.
SECONDS = 5.0
# The least time of one computation, for which the time of all may be exceeded.
SHORTEST = 0.5
# Later instants at which a change is computed, within the same time.
MOST_LATER = 3


@dataclass(frozen=True)
class GuaranteeCheck:
    """Unmet guarantees with a sentence for each, and why others were not computed."""

    unmet: Sequence[tuple[Mapping[str, Any], str]] = ()
    unknown: Sequence[str] = ()


def guarantees_check(
    pool: Pool, *, now: datetime, later: Iterable[datetime] = ()
) -> GuaranteeCheck:
    """Compute which guarantees the pool's present servers and demands cannot meet.

    The problem is that of the next decision, and that of the first instants in `later`, with the
    amounts in force then. None is computed for more than an evaluation takes, and all of them
    together not for longer than a request may wait.
    """
    # The request may have changed the setting on another object of the pool.
    pool.refresh_from_db(fields=["own_servers"])
    if not (pool.own_servers or has_own_servers(pool) or has_guarantees(pool, now=now)):
        return GuaranteeCheck()
    deadline, resources = monotonic() + SECONDS, resources_of(pool)
    instants = sorted({at for at in later if at > now})
    found: dict[str, tuple[Mapping[str, Any], str]] = {}
    unknown = []
    try:
        # Counted before the pool is read, which takes long for a large one.
        refuse_many("tenants", members_of(pool=pool).count())
        refuse_many("workloads", pool.workloads.filter(state=WorkloadState.ACTIVE).count())
    except DomainError as error:
        return GuaranteeCheck(unknown=[_unknown_text(error, None)])
    for at in (now, *instants[:MOST_LATER]):
        since = at if at > now else None
        try:
            document = pool_state(pool.pk, now=at).document
            refuse_oversized(document)
            answer = answer_document(document, max(deadline - monotonic(), SHORTEST))
        except DomainError as error:
            unknown.append(_unknown_text(error, since))
            continue
        for unmet, text in unmet_in(answer, resources):
            # One that is unmet now as well is stated once.
            key = json.dumps([unmet["node"], unmet.get("where"), unmet.get("amount")])
            found.setdefault(key, (unmet, text if since is None else _later_text(text, since)))
    unknown += [
        f"Whether all guarantees can be met from {instant_text(at)} on was not computed: a change is"
        f" computed at {MOST_LATER} later instants."
        for at in instants[MOST_LATER:]
    ]
    return GuaranteeCheck(list(found.values()), unknown)


def _later_text(text: str, since: datetime) -> str:
    return f"From {instant_text(since)} on, {text[0].lower()}{text[1:]}"


def _unknown_text(error: DomainError, since: datetime | None) -> str:
    when, decision = "", "The next decision"
    if since is not None:
        when, decision = f" from {instant_text(since)} on", "The decision of that instant"
    return (
        f"Whether all guarantees can be met{when} was not computed ({error.code}). {decision} reports it"
        " in its summary, `guarantees_unmet`."
    )


def unmet_in(
    answer: Mapping[str, Any], resources: Sequence[Resource]
) -> list[tuple[Mapping[str, Any], str]]:
    """Return the guarantees that the document of an answer does not meet, with a sentence for each."""
    unmet = answer["summary"].get("guarantees_unmet", ())
    return [(each, unmet_sentence(each, resources)) for each in unmet]
