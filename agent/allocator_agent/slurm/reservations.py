"""Pure plans of reservations, from those that Slurm has and those that are decided."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from allocator_agent.changes import ADD, CHANGE, REMOVE, ObjectChange, Value
from allocator_agent.configuration import place_text
from allocator_agent.model import Job, Node
from allocator_agent.slurm.reading import (
    Partition,
    Reservation,
    label_text,
    partition_of_all,
    utc_text,
)
from allocator_agent.slurm.tres import units_of

# Label of servers that a reservation of others holds, whole or in part.
RESERVED = "reservation"


@dataclass(frozen=True)
class ReservationChange:
    """A reservation to make (`before` is None), to change, or to delete (`after` is None).

    `jobs` have to leave it before, running ones included, which go on.
    """

    name: str
    before: Reservation | None
    after: Reservation | None
    jobs: tuple[str, ...] = ()

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
        "account": place_text(reservation.account),
        "cores": str(reservation.cores),
        "partition": reservation.partition,
        "start": utc_text(reservation.start),
        "end": utc_text(reservation.end),
    }


@dataclass(frozen=True)
class SlotPlan:
    """Changes of reservations, deletions first, and every slot under the name that Slurm has for it."""

    changes: list[ReservationChange]
    slots: list[Reservation]


def in_partitions(
    required: Sequence[Reservation],
    present: Sequence[Reservation],
    jobs: Sequence[Job],
    partitions: Mapping[str, Partition],
    prefix: str,
    *,
    now: int,
    threads: Mapping[str, int] | None = None,
) -> list[Reservation]:
    """Return slots in the partitions where the jobs of their accounts wait or run.

    The cores of `required` are CPUs, those of the others cores, each of which is the CPUs that `threads`
    states for a node. What is left of a core is reserved, too, because Slurm gives jobs whole cores.

    A slot of a class may be in any partition that has nodes of this class alone, a slot of the whole
    pool in any. Where jobs are in several partitions, they divide its cores.
    """
    per_core = _threads_of(partitions, threads or {})
    own = [
        replace(item, cores=item.cores * per_core.get(item.partition, 1))
        for item in present
        if _is_own(item, prefix)
    ]
    anywhere = partition_of_all(partitions)
    found = []
    for item in required:
        names = {
            name
            for name, partition in partitions.items()
            if item.partition in ("", name) or partition.classes == (item.partition,)
        }
        waiting = [
            (name, _whole(cpus, per_core.get(name, 1)))
            for name, cpus in _cpus_of(item.account, jobs)
            if name in names
        ]
        most = max((per_core.get(name, 1) for name in names), default=1)
        cpus = _whole(item.cores, most)
        parts = {item.partition or anywhere: cpus}
        if waiting:
            there = {
                other.partition: other.cores
                for other in own
                if other.account == item.account
                and other.partition in names
                and (
                    _is_in_force(other, now)
                    if _is_in_force(item, now)
                    else (other.start, other.end) == (item.start, item.end)
                )
            }
            room = {name: partition.cpus for name, partition in partitions.items()}
            parts = _divided(cpus, waiting, there, room)
        for name, count in parts.items():
            cores = -(-count // per_core.get(name, 1))
            digest = sha256(f"{item.name}/{name}".encode()).hexdigest()[:12]
            part = prefix + digest if len(parts) > 1 else item.name
            found.append(replace(item, name=part, partition=name, cores=cores))
    return found


def _threads_of(partitions: Mapping[str, Partition], threads: Mapping[str, int]) -> dict[str, int]:
    """Return the CPUs of a core by partition, the fewest of its nodes.

    The empty name stands for all nodes.
    """
    found = {
        name: min((threads.get(node, 1) for node in each.nodes), default=1)
        for name, each in partitions.items()
    }
    return {**found, "": min(found.values(), default=1)}


def _whole(cpus: int, per_core: int) -> int:
    """Return the CPUs of the cores that have so many."""
    return -(-cpus // per_core) * per_core


def _cpus_of(account: str, jobs: Sequence[Job]) -> list[tuple[str, int]]:
    """Return the first partition and the CPUs of each job of an account, running ones first."""
    mine = sorted((job for job in jobs if job.account == account), key=lambda job: not job.running)
    return [(job.partition.partition(",")[0], units_of(job.total, "cpu")) for job in mine]


def _divided(
    cores: int,
    waiting: Sequence[tuple[str, int]],
    present: Mapping[str, int],
    room: Mapping[str, int],
) -> dict[str, int]:
    """Divide cores among partitions, job by job, and the rest among the partitions of these jobs.

    The present division stays unless cores would be idle in one partition that jobs need in another:
    Slurm changes the cores of no reservation, so every other division costs new ones.
    """
    needs: dict[str, int] = {}
    for name, cpus in waiting:
        needs[name] = needs.get(name, 0) + cpus
    whole = min(cores, sum(room[name] for name in needs))
    if sum(present.values()) == whole:
        idle = any(count > needs.get(name, 0) for name, count in present.items())
        if not idle or all(present.get(name, 0) >= count for name, count in needs.items()):
            return dict(present)
    parts = dict.fromkeys(needs, 0)
    left = cores
    for name, cpus in waiting:
        if cpus <= min(left, room[name] - parts[name]):
            parts[name] += cpus
            left -= cpus
    for name in sorted(needs, key=lambda name: parts[name] - needs[name]):
        more = min(left, room[name] - parts[name])
        parts[name] += more
        left -= more
    return {name: count for name, count in parts.items() if count}


def plan_reservations(
    required: Sequence[Reservation],
    present: Sequence[Reservation],
    prefix: str,
    *,
    now: int,
    reserved: Mapping[str, Sequence[str]],
    running: Set[str],
) -> SlotPlan:
    """Plan as few changes of reservations as Slurm allows.

    A reservation of the same account, partition and cores serves a slot under any name, once its times
    are those of the slot. Slurm changes no cores, so that other ones are a new reservation. `reserved`
    has the jobs that name each reservation.
    """
    left = [item for item in present if _is_own(item, prefix) and item.end > now]
    asked = [item for item in required if item.end > now]
    slots = [item for item in asked if item in left]
    left = [item for item in left if item not in slots]
    names = {item.name for item in asked}
    updates: list[ReservationChange] = []
    made: list[ReservationChange] = []
    for item in sorted(asked, key=lambda item: (item.start, item.name)):
        if item in slots:
            continue
        alike = [
            other
            for other in left
            if (other.account, other.partition, other.cores)
            == (item.account, item.partition, item.cores)
            and _is_in_force(other, now) == _is_in_force(item, now)
            # A slot that Slurm makes anew needs its name.
            and (other.name == item.name or other.name not in names)
        ]
        kept = min(alike, key=lambda other: (other.start, other.name), default=None)
        if kept is None:
            # Slurm makes none that began more than ten minutes ago.
            new = replace(item, start=max(item.start, now))
            made.append(ReservationChange(item.name, None, new))
            slots.append(new)
            continue
        left.remove(kept)
        # Slurm moves the start of no reservation that has begun.
        start = kept.start if _is_in_force(kept, now) else item.start
        after = replace(kept, start=start, end=item.end)
        slots.append(after)
        if after != kept:
            # Slurm kills the jobs of a reservation when it ends.
            leaving = [job for job in reserved.get(kept.name, ()) if job in running]
            jobs = tuple(leaving if after.end < kept.end else ())
            updates.append(ReservationChange(kept.name, kept, after, jobs))
    # A timetable that has not begun yet replaces no slot of the one before.
    has_begun = not asked or any(_is_in_force(item, now) for item in asked)
    deleted = [
        ReservationChange(item.name, item, None, tuple(reserved.get(item.name, ())))
        for item in left
        if has_begun or not _is_in_force(item, now)
    ]
    return SlotPlan(deleted + updates + made, slots)


def plan_moves(
    slots: Sequence[Reservation],
    jobs: Sequence[Job],
    partitions: Mapping[str, Partition],
    prefix: str,
    *,
    now: int,
) -> list[tuple[str, list[str]]]:
    """Return waiting jobs to put into the reservation that their account has now or next, by its name.

    Jobs that name a reservation of the site stay there.
    """
    moves: dict[str, list[str]] = {}
    for job in jobs:
        if job.running or (job.reservation and not job.reservation.startswith(prefix)):
            continue
        fitting = [
            item
            for item in slots
            if item.account == job.account and item.end > now and _fits(job, item, partitions)
        ]
        following = min(fitting, key=lambda item: (item.start, item.name), default=None)
        if following is not None and job.reservation != following.name:
            moves.setdefault(following.name, []).append(job.id)
    return sorted(moves.items())


def _fits(job: Job, slot: Reservation, partitions: Mapping[str, Partition]) -> bool:
    """Return true if a job may run on every node that Slurm can choose for a slot."""
    names = job.partition.split(",")
    there = partitions.get(slot.partition)
    if not slot.partition or slot.partition in names or there is None:
        return not slot.partition or slot.partition in names
    return any(there.nodes <= partitions[name].nodes for name in names if name in partitions)


def _is_own(item: Reservation, prefix: str) -> bool:
    """Return true for a slot of this pool, not of one whose slug begins alike."""
    return re.fullmatch(re.escape(prefix) + "[0-9a-f]{12}", item.name) is not None


def _is_in_force(item: Reservation, now: int) -> bool:
    return item.start <= now < item.end


def _cores_on(node: str, item: Reservation, most: int) -> int:
    """Return the cores of a reservation on one of its nodes, all where Slurm prints none."""
    return item.cores_of.get(node, item.cores if len(item.nodes) == 1 else most)


def without_reserved(
    nodes: Sequence[Node],
    present: Sequence[Reservation],
    threads: Mapping[str, int],
    own: tuple[str, ...],
) -> list[Node]:
    """Return nodes without the capacity that reservations of others hold now.

    `own` begins the names of reservations that serve the decision. A node that is reserved as a whole
    takes no jobs of the decision. Slurm reserves no memory or GPUs with single cores.
    """
    others = [item for item in present if item.is_active and not item.name.startswith(own)]
    found = []
    for node in nodes:
        here = [item for item in others if node.name in item.nodes]
        if not here:
            found.append(node)
            continue
        cpus = int(node.capacity["cpu"])
        per_core = threads.get(node.name, 1)
        # Reservations may overlap: the sum is the most that they hold.
        held = sum(_cores_on(node.name, item, cpus) * per_core for item in here)
        labels = {**node.labels, RESERVED: label_text(min(item.name for item in here))}
        if held < cpus:
            found.append(
                replace(
                    node,
                    capacity={**node.capacity, "cpu": node.capacity["cpu"] - held},
                    labels=labels,
                )
            )
        else:
            found.append(replace(node, labels=labels, draining=True))
    return found


def reservation_of(item: Mapping[str, Any], account: str) -> Reservation:
    """Return the reservation of a slot of a rendering, for an account."""
    start, end = (
        int(datetime.fromisoformat(item[name].replace("Z", "+00:00")).timestamp())
        for name in ("start", "end")
    )
    return Reservation(item["name"], start, end, account, item["partition"] or "", item["cores"])


def is_in_foreign_reservation(job: Job) -> bool:
    """Return true for a job in a reservation of the site, whose cores are not in the decision."""
    return bool(job.reservation) and not job.reservation.startswith("allocator-")
