"""Guarantees that a pool's servers cannot meet, computed before the next decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allocator_service.allocation.guarantee_texts import unmet_sentence
from allocator_service.allocation.runs.snapshots import pool_state
from allocator_service.allocation.what_if.evaluations import answer_document, refuse_oversized
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of

# A request that sets a guarantee waits for its warnings at most this long.
SECONDS = 5.0


@dataclass(frozen=True)
class GuaranteeCheck:
    """The guarantees that cannot be met, with a sentence for each, or why they were not computed."""

    unmet: Sequence[tuple[Mapping[str, Any], str]] = ()
    unknown: str = ""


def guarantees_check(pool: Pool, *, now: datetime) -> GuaranteeCheck:
    """Compute which guarantees the pool's present servers and demands cannot meet.

    The problem is that of the next decision. It is not computed for more than an evaluation takes, or
    for longer than a request may wait.
    """
    document = pool_state(pool.pk, now=now).document
    if not _has_guarantees(document):
        return GuaranteeCheck()
    try:
        refuse_oversized(document)
        answer = answer_document(document, SECONDS)
    except DomainError as error:
        return GuaranteeCheck(
            unknown=f"Whether all guarantees can be met was not computed ({error.code}). The next"
            " decision reports it in its summary, `guarantees_unmet`."
        )
    return GuaranteeCheck(unmet_in(answer, resources_of(pool)))


def unmet_in(
    answer: Mapping[str, Any], resources: Sequence[Resource]
) -> list[tuple[Mapping[str, Any], str]]:
    """Return the guarantees that the document of an answer does not meet, with a sentence for each."""
    unmet = answer["summary"].get("guarantees_unmet", ())
    return [(each, unmet_sentence(each, resources)) for each in unmet]


def _has_guarantees(document: Mapping[str, Any]) -> bool:
    nodes = [*document.get("groups", ()), *document["tenants"]]
    return any(node.get("guarantee") or node.get("own_servers") for node in nodes)
