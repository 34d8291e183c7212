"""From the reservations that Slurm has and those that are decided to what has to change: pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from allocator_agent.changes import ADD, CHANGE, REMOVE, ObjectChange, Value
from allocator_agent.model import Job
from allocator_agent.slurm.reading import Reservation, utc_text


@dataclass(frozen=True)
class ReservationChange:
    """A reservation to make (`before` is None), to change, or to delete (`after` is None)."""

    name: str
    before: Reservation | None
    after: Reservation | None

    def shown(self) -> ObjectChange:
        """Return the change as a plan shows it."""
        before, after = (_texts(each) for each in (self.before, self.after))
        values = [
            Value(name, before.get(name, ""), after.get(name, ""))
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        ]
        sign = ADD if self.before is None else REMOVE if self.after is None else CHANGE
        return ObjectChange(sign, f"reservation {self.name}", tuple(values))


def _texts(reservation: Reservation | None) -> dict[str, str]:
    """Return the fields of a reservation that the agent sets."""
    if reservation is None:
        return {}
    return {
        "account": reservation.account,
        "cores": str(reservation.cores),
        "partition": reservation.partition,
        "start": utc_text(reservation.start),
        "end": utc_text(reservation.end),
    }


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
