"""Verdict of a check of a property."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """Result of a check of one property.

    Attributes:
        holds: None if that was not decided or does not apply, for the ``reason`` given.
        worst: where it fails worst: ``tenant``, mostly ``other``, or ``group``, and the ``size`` of
            the loss or gain in dominant share; None where it holds.
        reason: a sentence, or None.
    """

    holds: bool | None
    worst: Mapping[str, Any] | None = None
    reason: str | None = None

    def to_document(self) -> dict[str, Any]:
        """Return the verdict as a JSON object."""
        return {
            "holds": self.holds,
            "worst": None if self.worst is None else dict(self.worst),
            "reason": self.reason,
        }


def undecided(reason: str) -> Verdict:
    """Neither yes nor no."""
    return Verdict(None, None, reason)
