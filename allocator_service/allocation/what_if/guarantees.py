"""Guarantees that a pool's servers cannot meet, computed before the next decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allocator_service.allocation.guarantee_texts import unmet_sentence
from allocator_service.allocation.runs.snapshots import locked_pool_state, pool_state
from allocator_service.allocation.what_if.evaluations import (
    answer_document,
    refuse_many,
    refuse_oversized,
)
from allocator_service.core.errors import DomainError, TooLarge, Unavailable
from allocator_service.core.quantities import Resource
from allocator_service.pools.limits import has_guarantees, has_own_servers
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import members_of, resources_of
from allocator_service.workloads.models import WorkloadState

# A request that sets a guarantee waits for its warnings at most this long.
SECONDS = 5.0


@dataclass(frozen=True)
class GuaranteeCheck:
    """Unmet guarantees with a sentence for each, or why they were not computed."""

    unmet: Sequence[tuple[Mapping[str, Any], str]] = ()
    unknown: str = ""


def guarantees_check(pool: Pool, *, now: datetime) -> GuaranteeCheck:
    """Compute which guarantees the pool's present servers and demands cannot meet.

    The problem is that of the next decision. It is not computed for more than an evaluation takes, or
    for longer than a request may wait.
    """
    # The request may have changed the setting on another object of the pool.
    pool.refresh_from_db(fields=["own_servers"])
    if not (pool.own_servers or has_own_servers(pool) or has_guarantees(pool, now=now)):
        return GuaranteeCheck()
    try:
        # Counted before the pool is read, which takes long for a large one.
        refuse_many("tenants", members_of(pool=pool).count())
        refuse_many("workloads", pool.workloads.filter(state=WorkloadState.ACTIVE).count())
        document = pool_state(pool.pk, now=now).document
        refuse_oversized(document)
        answer = answer_document(document, SECONDS)
    except DomainError as error:
        return GuaranteeCheck(
            unknown=f"Whether all guarantees can be met was not computed ({error.code}). The next"
            " decision reports it in its summary, `guarantees_unmet`."
        )
    return GuaranteeCheck(unmet_in(answer, resources_of(pool)))


def guarantees_size_refusal(pool: Pool, at: datetime) -> str:
    """State why the locked pool cannot be decided at an instant for the size of a guarantee.

    The text is empty if it can, or if a request cannot wait for the answer. Raises `Unavailable` if all
    places for evaluations are taken.
    """
    try:
        answer_document(locked_pool_state(pool, now=at).document, SECONDS)
    except TooLarge as error:
        return error.detail
    except Unavailable as error:
        if error.code == "evaluation.timeout":
            return ""
        raise
    except DomainError:
        return ""
    return ""


def unmet_in(
    answer: Mapping[str, Any], resources: Sequence[Resource]
) -> list[tuple[Mapping[str, Any], str]]:
    """Return the guarantees that the document of an answer does not meet, with a sentence for each."""
    unmet = answer["summary"].get("guarantees_unmet", ())
    return [(each, unmet_sentence(each, resources)) for each in unmet]
