"""Guarantees that a pool's servers cannot meet, computed before the next decision."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any

from allocator_service.allocation.guarantee_texts import unmet_sentence
from allocator_service.allocation.runs.snapshots import locked_pool_state, pool_state
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
# Fractions that differ by less are equal but for rounding.
_SAME = 1e-9


@dataclass(frozen=True)
class UnmetGuarantee:
    """A row of `guarantees_unmet` with its sentence.

    `since` is the instant of a later decision, None for the next one.
    """

    row: Mapping[str, Any]
    text: str
    since: datetime | None = None


@dataclass(frozen=True)
class GuaranteeCheck:
    """Unmet guarantees, and why others were not computed."""

    unmet: Sequence[UnmetGuarantee] = ()
    unknown: Sequence[str] = ()


@dataclass(frozen=True)
class GuaranteeDocuments:
    """Documents of the next decision and of later instants, to compute which guarantees they meet.

    `unknown` states why documents are missing.
    """

    resources: Sequence[Resource] = ()
    documents: Sequence[tuple[datetime | None, Mapping[str, Any]]] = ()
    unknown: Sequence[str] = ()


def guarantees_check(
    pool: Pool, *, now: datetime, later: Iterable[datetime] = ()
) -> GuaranteeCheck:
    """Compute which guarantees the pool's present servers and demands cannot meet.

    The problem is that of the next decision, and that of the first instants in `later`, with the
    amounts in force then. None is computed for more than an evaluation takes, and all of them
    together not for longer than a request may wait.
    """
    return guarantees_computed(guarantees_read(pool, now=now, later=later))


def guarantees_read(
    pool: Pool,
    *,
    now: datetime,
    later: Iterable[datetime],
    is_locked: bool = False,
) -> GuaranteeDocuments:
    """Read the documents of a check.

    If the transaction has locked the pool, the documents have the changes that it made.
    """
    # The request may have changed the setting on another object of the pool.
    pool.refresh_from_db(fields=["own_servers"])
    if not (pool.own_servers or has_own_servers(pool) or has_guarantees(pool, now=now)):
        return GuaranteeDocuments()
    instants = sorted({at for at in later if at > now})
    try:
        # Counted before the pool is read, which takes long for a large one.
        refuse_many("tenants", members_of(pool=pool).count())
        refuse_many("workloads", pool.workloads.filter(state=WorkloadState.ACTIVE).count())
    except DomainError as error:
        return GuaranteeDocuments(unknown=[_unknown_text(error, None)])
    documents: list[tuple[datetime | None, Mapping[str, Any]]] = []
    unknown = []
    for at in (now, *instants[:MOST_LATER]):
        since = at if at > now else None
        try:
            state = locked_pool_state(pool, now=at) if is_locked else pool_state(pool.pk, now=at)
            documents.append((since, state.document))
        except DomainError as error:
            unknown.append(_unknown_text(error, since))
    unknown += [
        f"Whether all guarantees can be met from {instant_text(at)} on was not computed: a change is"
        f" computed at {MOST_LATER} later instants."
        for at in instants[MOST_LATER:]
    ]
    return GuaranteeDocuments(resources_of(pool), documents, unknown)


def guarantees_computed(given: GuaranteeDocuments) -> GuaranteeCheck:
    """Compute which guarantees the documents do not meet.

    Each guarantee is stated at the first instant at which it is unmet, and at each later one at which
    less of it is met than at all instants before.
    """
    deadline = monotonic() + SECONDS
    found: list[UnmetGuarantee] = []
    unknown = []
    least: dict[str, float] = {}
    for since, document in given.documents:
        try:
            refuse_oversized(document)
            answer = answer_document(document, max(deadline - monotonic(), SHORTEST))
        except DomainError as error:
            unknown.append(_unknown_text(error, since))
            continue
        met: dict[str, float] = {}
        for row, text in unmet_in(answer, given.resources):
            key = json.dumps([row["node"], row.get("where"), row.get("amount")])
            met[key] = min(row["met"], met.get(key, 1))
            if row["met"] < least.get(key, 1) - _SAME:
                text_then = text if since is None else _later_text(text, since)
                found.append(UnmetGuarantee(row, text_then, since))
        least |= {key: min(part, least.get(key, 1)) for key, part in met.items()}
    return GuaranteeCheck(found, [*unknown, *given.unknown])


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
