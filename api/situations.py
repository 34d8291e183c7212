"""Situations and the policies that fit them, as the first page shows them.

The table of `docs/policies/choosing.md` is the source. An installed service has no docs, so the rows are
repeated here, and `tests/api/test_root.py` compares both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from allocator_service.allocation.policies import policy_documents


@dataclass(frozen=True)
class Situation:
    """A purpose of a pool, the names of the policies for it, and what to know about them."""

    purpose: str
    policies: Sequence[str]
    note: str
    option: str = ""


SITUATIONS = (
    Situation(
        "one fair answer for now, proven",
        ["drfh"],
        "it decides on the real servers, in whole tasks or exactly (mode)",
    ),
    Situation(
        "no tenant below its part of every server",
        ["drfh"],
        "a workload that selects servers may get less than its part",
        option="share: alone",
    ),
    Situation(
        "one fair answer for a pool as good as one big server",
        ["drf"],
        "it does not place tasks on servers",
    ),
    Situation("what was lent to come back", ["h-mrf"], "it decides at fixed intervals"),
    Situation(
        "few large tasks that cannot be cut, fair on average",
        ["tda"],
        "tenants take turns within a period",
    ),
    Situation(
        "every server's resources used in balance",
        ["mrfs"],
        "a tenant can have less than alone",
    ),
    Situation(
        "the largest product of shares", ["ceei"], "a tenant that misstates its demand can gain"
    ),
    Situation(
        "equal sums of the shares of all resources",
        ["asset"],
        "a tenant with few resources in demand can fall behind",
    ),
    Situation(
        "to show what sharing is worth",
        ["static", "slots", "single-resource"],
        "they are baselines to compare with, not to run",
    ),
)


def situation_rows() -> list[dict[str, Any]]:
    """Return the situations with the titles and names of their policies."""
    titles = {each["name"]: each["title"] for each in policy_documents()}
    return [
        {
            "purpose": each.purpose,
            "policies": [{"name": name, "title": titles[name]} for name in each.policies],
            "option": each.option,
            "note": each.note,
        }
        for each in SITUATIONS
    ]
