"""Ways to change an answer, or the problem under it: functions of a ``Case`` and a random generator.

It gives the changed case, or None where there is nothing of the kind to change. Some changes are
harmless (prices in another unit say the same): whether one is false is for ``tests.references.truth``.
"""

from tests.forger.changes import (
    certificate,
    history,
    open_rounds,
    placements,
    problem,
    schedule,
    shares,
    stated,
    trees,
)
from tests.forger.changes.base import CHANGES, Case
from tests.forger.changes.documents import IN_DOCUMENTS

__all__ = [
    "CHANGES",
    "IN_DOCUMENTS",
    "Case",
    "certificate",
    "history",
    "open_rounds",
    "placements",
    "problem",
    "schedule",
    "shares",
    "stated",
    "trees",
]
