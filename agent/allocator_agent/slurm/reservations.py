"""From the reservations that Slurm has and those that are decided to what has to change: pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from allocator_agent.model import Job
from allocator_agent.slurm.reading import Reservation


@dataclass(frozen=True)
class ReservationChange:
    """A reservation to make (`before` is None), to change, or to delete (`after` is None)."""

    name: str
    before: Reservation | None
    after: Reservation | None

    def line(self) -> str:
        if self.after is None:
            return f"reservation {self.name}: delete"
        what = "make" if self.before is None else "change"
        where = f" in {self.after.partition}" if self.after.partition else ""
        return (
            f"reservation {self.name}: {what}, {self.after.cores} cores{where} for"
            f" {self.after.account}, {self.after.end - self.after.start} s from {self.after.start}"
        )


def plan_reservations(
    wanted: Sequence[Reservation], present: Sequence[Reservation], prefix: str, *, now: int
) -> list[ReservationChange]:
    """Reservations to make, change or delete; those that have begun are left to their end."""
    own = re.compile(re.escape(prefix) + "[0-9a-f]{12}")  # the slug of another pool may begin alike
    there = {item.name: item for item in present}
    names = {item.name for item in wanted}
    changes = [
        ReservationChange(item.name, item, None)
        for item in present
        if own.fullmatch(item.name) and item.name not in names and item.start > now
    ]
    for item in wanted:
        before = there.get(item.name)
        if item.end > now and before is None:
            changes.append(ReservationChange(item.name, None, item))
        elif before is not None and before != item and before.start > now:
            changes.append(ReservationChange(item.name, before, item))
    return changes


def plan_moves(
    wanted: Sequence[Reservation], jobs: Sequence[Job], *, now: int
) -> list[tuple[str, list[str]]]:
    """Waiting jobs that have to be told the reservation that their account has next."""
    moves: dict[str, list[str]] = {}
    for job in jobs:
        if job.running:
            continue
        fitting = [
            item
            for item in wanted
            if item.account == job.account
            and item.end > now
            and (not item.partition or item.partition in job.partition.split(","))
        ]
        following = min(fitting, key=lambda item: (item.start, item.name), default=None)
        if following is not None and job.reservation != following.name:
            moves.setdefault(following.name, []).append(job.id)
    return sorted(moves.items())
