"""From what Slurm has and what is decided to what has to change in Slurm: pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from allocator_agent.model import Job
from allocator_agent.quantities import MEBIBYTE, Amounts
from allocator_agent.reclaim import to_stop
from allocator_agent.slurm.reading import Association, Reservation, resource_of

_WRITABLE = re.compile(r"[^\s'\",:]+")  # what sacctmgr can be told
Limits = dict[str, int]
Key = tuple[str, str, str]  # account, user, partition


@dataclass(frozen=True)
class LimitChange:
    """An association whose limits or fair share differ from what is decided; None is unlimited."""

    key: Key
    before: dict[str, int | None]
    after: Limits
    fairshare: tuple[str, str]  # before and after
    new: bool = False

    @property
    def lowered(self) -> Limits:
        """The limits between: nothing above what was, nothing above what will be."""
        return {name: _least(self.before[name], most) for name, most in self.after.items()}

    @property
    def lowers(self) -> bool:
        return any(self.before[name] != most for name, most in self.lowered.items())

    @property
    def raises(self) -> bool:
        """Whether anything is left to write once what falls is written."""
        return self.lowered != self.after or (self.shares and not self.lowers)

    @property
    def shares(self) -> bool:
        """Whether the fair share changes; that is no limit, so the first command takes it along."""
        return self.fairshare[0] != self.fairshare[1]

    def line(self) -> str:
        """The change as a person reads it."""
        account, user, partition = self.key
        who = f"account {account}"
        if user:
            who = f"user {user} of {account} in partition {partition}"
        parts = [
            f"{name} {_shown(self.before[name])} -> {_shown(most)}"
            for name, most in self.after.items()
            if self.before[name] != most
        ]
        if self.shares:
            parts.append(f"fairshare {self.fairshare[0]} -> {self.fairshare[1]}")
        return f"{'new ' if self.new else ''}{who}: {', '.join(parts)}"


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


@dataclass(frozen=True)
class SlurmPlan:
    """Everything that has to change, in the order in which it is done."""

    limits: list[LimitChange] = field(default_factory=list)
    reservations: list[ReservationChange] = field(default_factory=list)
    moves: list[tuple[str, list[str]]] = field(default_factory=list)  # reservation, its new jobs
    stops: list[Job] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)  # of an account, "": of all

    def __len__(self) -> int:
        return len(self.limits) + len(self.reservations) + len(self.moves) + len(self.stops)

    def lines(self) -> list[str]:
        """The plan as a person reads it."""
        lowered = [f"  - {change.line()}" for change in self.limits if change.lowers]
        raised = [f"  + {change.line()}" for change in self.limits if not change.lowers]
        lines = []
        if lowered:
            lines += ["lowered first:", *lowered]
        if raised:
            lines += ["then raised:" if lowered else "raised:", *raised]
        lines += [f"  {change.line()}" for change in self.reservations]
        lines += [
            f"  jobs {', '.join(jobs)}: wait for reservation {name}" for name, jobs in self.moves
        ]
        lines += [
            f"  requeue job {job.id} of {job.account}: it is the youngest above the decision"
            for job in self.stops
        ]
        return lines


def plan_limits(
    objects: Sequence[Mapping[str, Any]],
    associations: Iterable[Association],
    jobs: Sequence[Job],
    accounts: Mapping[str, str],
    *,
    classes: bool,
) -> tuple[list[LimitChange], dict[str, list[str]]]:
    """The associations that differ from what is decided, and what cannot be done, by account.

    `accounts` names the Slurm account of every tenant that has one. A class's limit is that of an
    account in a partition; Slurm limits users there, so it is handed out over the users.
    """
    present = {(item.account, item.user, item.partition): item for item in associations}
    users: dict[str, list[str]] = {}
    for row in present.values():
        if row.user and not row.partition and _WRITABLE.fullmatch(row.user):
            users.setdefault(row.account, []).append(row.user)
    changes: list[LimitChange] = []
    problems: dict[str, list[str]] = {}
    for item in objects:
        if item["kind"] not in ("account", "class"):
            continue
        account = accounts.get(item["tenant"])
        if account is None:
            if item["kind"] == "account" and any(item["limits"].values()):
                problems.setdefault(item["tenant"], []).append("Slurm has no account for it")
            continue
        if not _WRITABLE.fullmatch(account):
            problems.setdefault(item["tenant"], []).append(f"sacctmgr cannot be told {account!r}")
            continue
        if item["kind"] == "account":
            row = present[account, "", ""]
            changes.append(_change(row, item["limits"], str(item["fairshare"])))
        elif classes:
            partition = item["partition"]
            mine = [job for job in jobs if job.account == account and job.partition == partition]
            told = handed_out(item["limits"], mine, sorted(users.get(account, [])))
            for user, limits in told.items():
                row = present.get((account, user, partition)) or Association(
                    account, user, partition, {}, ""
                )
                new = (account, user, partition) not in present
                changes.append(_change(row, limits, row.fairshare, new=new))
    return [change for change in changes if change.lowers or change.raises], problems


def handed_out(limits: Limits, jobs: Sequence[Job], users: Sequence[str]) -> dict[str, Limits]:
    """A limit of an account, as limits of its users that sum to it.

    Job by job, running ones first, oldest first, each user gets what its job needs while that fits;
    what is left goes to the first that got something, or else to the first user.
    """
    told = {user: dict.fromkeys(limits, 0) for user in users}
    left = dict(limits)
    first = ""
    for job in sorted(jobs, key=lambda job: (not job.running, job.started, _number(job.id))):
        needs = {name: _of(job.total, name) for name in limits}
        if job.user not in told or any(needs[name] > left[name] for name in limits):
            continue
        first = first or job.user
        for name, amount in needs.items():
            told[job.user][name] += amount
            left[name] -= amount
    if told:
        for name, amount in left.items():
            told[first or next(iter(told))][name] += amount
    return told


def plan_stops(
    objects: Sequence[Mapping[str, Any]],
    jobs: Sequence[Job],
    accounts: Mapping[str, str],
    *,
    classes: bool,
) -> list[Job]:
    """The jobs to requeue so that no account runs more than is decided, in a class or in all."""
    stops: list[Job] = []
    for item in sorted(objects, key=lambda item: item["kind"] == "account"):  # classes first
        if item["kind"] == "account" or (classes and item["kind"] == "class"):
            partition = item.get("partition")
            mine = [
                job
                for job in jobs
                if job.account == accounts.get(item["tenant"])
                and (partition is None or job.partition == partition)
                and job not in stops
            ]
            stops += to_stop(mine, amounts_of(item["limits"]))
    return stops


def plan_reservations(
    wanted: Sequence[Reservation], present: Sequence[Reservation], prefix: str, *, now: int
) -> list[ReservationChange]:
    """Reservations to make, change or delete; those that have begun are left to their end."""
    there = {item.name: item for item in present}
    names = {item.name for item in wanted}
    changes = [
        ReservationChange(item.name, item, None)
        for item in present
        if item.name.startswith(prefix) and item.name not in names and item.start > now
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


def amounts_of(limits: Mapping[str, int]) -> Amounts:
    """Limits of Slurm in the base units of a pool's resources."""
    return {
        resource_of(name): Fraction(most * (MEBIBYTE if name == "mem" else 1))
        for name, most in limits.items()
    }


def _change(
    row: Association, limits: Mapping[str, int], fairshare: str, *, new: bool = False
) -> LimitChange:
    before = {name: row.limits.get(name) for name in limits}
    return LimitChange(
        (row.account, row.user, row.partition),
        before,
        {name: int(most) for name, most in limits.items()},
        (row.fairshare, fairshare),
        new,
    )


def _of(amounts: Amounts, tres: str) -> int:
    """An amount in whole units of a TRES, rounded up."""
    amount = amounts.get(resource_of(tres), Fraction(0)) / (MEBIBYTE if tres == "mem" else 1)
    return -(-amount.numerator // amount.denominator)


def _number(job: str) -> tuple[int, ...]:
    return tuple(int(part) for part in job.split("_") if part.isdigit())


def _least(before: int | None, after: int) -> int:
    return after if before is None else min(before, after)


def _shown(value: int | None) -> str:
    return "unlimited" if value is None else str(value)
