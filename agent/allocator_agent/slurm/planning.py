"""Pure plans of the changes in Slurm that a decision requires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from allocator_agent.changes import CHANGE, ObjectChange, Value
from allocator_agent.configuration import place_text
from allocator_agent.model import Job, Rendering, Waiting
from allocator_agent.quantities import MEBIBYTE, Amounts
from allocator_agent.reclaim import Jobs, Memory, ReclaimPlan, by_account, plan_reclaim, to_stop
from allocator_agent.slurm.closed import JobsChange
from allocator_agent.slurm.holds import HoldPlan
from allocator_agent.slurm.limit_changes import (
    LimitChange,
    LimitRemoval,
    Limits,
    MinutesChange,
    name_of,
)
from allocator_agent.slurm.people import (
    WRITABLE,
    Key,
    account_of,
    is_writable,
    key_of,
    place_of,
)
from allocator_agent.slurm.reading import Association
from allocator_agent.slurm.reservations import ReservationChange
from allocator_agent.slurm.tres import is_licence, resource_of, units_of

_END_MEMBERSHIP = "it is not limited; end its membership of the pool"
_REASSIGNED = "moved to the limits of its partition"


@dataclass(frozen=True)
class SlurmPlan:
    """The changes of Slurm, in the order in which they are made."""

    limits: list[LimitChange] = field(default_factory=list)
    reservations: list[ReservationChange] = field(default_factory=list)
    moves: list[tuple[str, list[str]]] = field(default_factory=list)  # reservation, its new jobs
    reclaim: ReclaimPlan = field(default_factory=ReclaimPlan)
    problems: dict[str, list[str]] = field(default_factory=dict)  # of an account, "": of all
    removals: list[LimitRemoval] = field(default_factory=list)
    # Account -> its waiting jobs that are to come under the limits of their partition.
    reassigned: dict[str, list[str]] = field(default_factory=dict)
    minutes: list[MinutesChange] = field(default_factory=list)
    holds: HoldPlan = field(default_factory=HoldPlan)
    closed: list[JobsChange] = field(default_factory=list)

    def __len__(self) -> int:
        changes = (
            *(self.limits, self.removals, self.reassigned, self.minutes, self.closed),
            *(self.reservations, self.moves, self.reclaim, self.holds.released, self.holds.entered),
        )
        return sum(len(each) for each in changes)

    @property
    def waiting(self) -> dict[str, list[Waiting]]:
        """The jobs that servers are held for, by tenant."""
        return {
            tenant: [Waiting(hold.jobs, tuple(hold.cores), hold.beside) for hold in holds]
            for tenant, holds in self.holds.waiting.items()
        }

    def shown(self) -> list[ObjectChange]:
        """Return what has to change, as plans show it."""
        made = {hold.name for hold in self.holds.made}
        return [
            *(change.shown() for change in self.limits),
            *(removal.shown() for removal in self.removals),
            *(change.shown() for change in self.minutes),
            *(change.shown(name_of(change.key)) for change in self.closed),
            *(change.shown() for change in self.reservations),
            *(release.shown() for release in self.holds.released),
            *(hold.shown(is_new=hold.name in made) for hold in self.holds.entered),
            *(
                ObjectChange(CHANGE, f"job {job} of {place_text(account)}", notes=(_REASSIGNED,))
                for account, jobs in self.reassigned.items()
                for job in jobs
            ),
            *(
                ObjectChange(CHANGE, f"job {job}", (Value("reservation", "", name),))
                for name, jobs in self.moves
                for job in jobs
            ),
            *self.reclaim.shown(),
        ]


def plan_limits(
    objects: Sequence[Mapping[str, Any]],
    associations: Iterable[Association],
    jobs: Sequence[Job],
    accounts: Mapping[str, str],
    *,
    classes: bool,
) -> tuple[list[LimitChange], dict[str, list[str]]]:
    """Return the associations that differ from the decision, and problems by account.

    `accounts` names the place of every tenant that has one. A class's limit is that of an account in a
    partition. Slurm limits users there, so it is divided among the users.
    """
    present = {(item.account, item.user, item.partition): item for item in associations}
    users: dict[str, list[str]] = {}
    for row in present.values():
        if row.user and not row.partition and WRITABLE.fullmatch(row.user):
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
        if not is_writable(account):
            text = place_text(account)
            problems.setdefault(item["tenant"], []).append(
                f"Slurm would take {text!r} for other names: no limit or reservation is written"
            )
            continue
        base, of_user, _ = key_of(account)
        if item["kind"] == "account":
            row = present[base, of_user, ""]
            changes.append(_change(row, item["limits"], str(item["fairshare"])))
        elif classes:
            partition = item["partition"]
            mine = [job for job in jobs if job.account == account and job.partition == partition]
            outside = [job for job in mine if job.running and _is_outside(job, present)]
            left = _without(item["limits"], outside)
            within = [job for job in mine if job not in outside]
            names = [of_user] if of_user else sorted(users.get(base, []))
            for user, limits in handed_out(left, within, names).items():
                row = present.get((base, user, partition)) or Association(
                    base, user, partition, {}, ""
                )
                new = (base, user, partition) not in present
                changes.append(_change(row, limits, row.fairshare, new=new))
    return [change for change in changes if change.lowers or change.raises], problems


def plan_minutes(
    objects: Sequence[Mapping[str, Any]],
    associations: Iterable[Association],
    accounts: Mapping[str, str],
) -> list[MinutesChange]:
    """Return the accounts whose GrpTRESMins differ from the rendering, which may have none.

    `accounts` names the place of every tenant and group that has one.
    """
    present = {(item.account, item.user, item.partition): item for item in associations}
    changes: dict[str, MinutesChange] = {}
    for item in objects:
        after = item.get("minutes")
        slug = item.get("tenant") if item["kind"] == "account" else item.get("group")
        place = accounts.get(slug or "", "")
        row = present.get(key_of(place))
        if row is None or not after or not is_writable(place):
            continue
        before = {name: row.minutes.get(name, -1) for name in after}
        # An account of a tenant precedes that of a former group of the same name.
        if before != after and (item["kind"] != "removed" or place not in changes):
            changes[place] = MinutesChange(place, before, dict(after))
    return list(changes.values())


def plan_removals(
    objects: Sequence[Mapping[str, Any]],
    associations: Iterable[Association],
    accounts: Mapping[str, str],
    parents: Mapping[str, str],
    *,
    classes: bool,
) -> tuple[list[LimitRemoval], dict[str, list[str]]]:
    """Return limits that the agent once wrote and no longer manages, and problems by tenant.

    `parents` names the account of every tenant whose account has accounts below it. Of users in
    partitions only limits of every resource of the pool are the agent's: it never writes fewer.
    """
    own = {item["tenant"]: set(item["limits"]) for item in objects if item["kind"] == "account"}
    of_account = {
        account: tenant
        for names in (parents, accounts)
        for tenant, account in names.items()
        if tenant in own
    }
    managed = {
        (accounts.get(item["tenant"]), item["partition"])
        for item in objects
        if item["kind"] == "class" and classes
    }
    removals: list[LimitRemoval] = []
    for row in associations:
        place = place_of(row.account, row.user) if row.user else row.account
        name = place if place in of_account else row.account
        tenant = of_account.get(name)
        if tenant is None or not is_writable(place):
            continue
        is_parent = parents.get(tenant) == name
        limits = {name: most for name, most in row.limits.items() if name in own[tenant]}
        below = f"it has {_below(name, accounts)} below it"
        reason = below if is_parent else "limits by partition are off"
        if not limits or (not row.partition and (row.user or not is_parent)):
            continue
        # Limits of partitions have no licences, which are on no node.
        of_nodes = {name for name in own[tenant] if not is_licence(name)}
        if row.partition and (limits.keys() != of_nodes or (name, row.partition) in managed):
            continue
        if row.partition and classes and not is_parent:
            reason = f"nothing is decided for {row.partition}"
        removals.append(LimitRemoval((row.account, row.user, row.partition), limits, reason))
    problems = {
        tenant: [f"account {account} has {_below(account, accounts)} below it: {_END_MEMBERSHIP}"]
        for tenant, account in parents.items()
        if tenant in own
    }
    return removals, problems


def _below(account: str, accounts: Mapping[str, str]) -> str:
    """Return the word for what is below an account that has no limit of its own."""
    of_users = {account_of(place) for place in accounts.values() if place != account_of(place)}
    return "users" if account in of_users else "accounts"


def plan_user_removals(
    objects: Sequence[Mapping[str, Any]],
    associations: Iterable[Association],
    places: Mapping[str, str],
) -> list[LimitRemoval]:
    """Return limits of users that the agent wrote while users were members.

    `places` names the user of every tenant that was one. Only limits of every resource of the pool are
    the agent's.
    """
    own = {item["tenant"]: set(item["limits"]) for item in objects if item["kind"] == "account"}
    tenants = {key_of(place): tenant for tenant, place in places.items() if tenant in own}
    removals = []
    for row in associations:
        key = (row.account, row.user, row.partition)
        if not row.user or key not in tenants or not is_writable(place_of(row.account, row.user)):
            continue
        limits = {name: most for name, most in row.limits.items() if name in own[tenants[key]]}
        if limits and limits.keys() == own[tenants[key]]:
            removals.append(LimitRemoval(key, limits, "limits of users are off"))
    return removals


def plan_reassignments(
    objects: Sequence[Mapping[str, Any]],
    associations: Iterable[Association],
    jobs: Sequence[Job],
    accounts: Mapping[str, str],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return waiting jobs to put under the limits of their partition, by account, and problems.

    A job keeps the association that it was submitted under, also when one for its partition is made
    later. A job that names several partitions can have none.
    """
    present = {(item.account, item.user, item.partition): item for item in associations}
    found: dict[str, list[str]] = {}
    problems: dict[str, list[str]] = {}
    classes = [item for item in objects if item["kind"] == "class" and item["tenant"] in accounts]
    partitions = {(accounts[item["tenant"]], item["partition"]) for item in classes}
    tenants = {accounts[item["tenant"]]: item["tenant"] for item in classes}
    for job in jobs:
        if job.running or job.account not in tenants or not _is_outside(job, present):
            continue
        if (job.account, job.partition) in partitions:
            found.setdefault(job.account, []).append(job.id)
        elif "," in job.partition:
            problems.setdefault(tenants[job.account], []).append(
                f"job {job.id} names several partitions ({job.partition}):"
                " no limit of a partition holds for it; submit it to one"
            )
    return found, problems


def handed_out(limits: Limits, jobs: Sequence[Job], users: Sequence[str]) -> dict[str, Limits]:
    """Return a limit of an account as limits of its users that sum to it.

    Job by job, running ones first, oldest first, each user gets what its job needs while that fits. The
    rest goes to the first that got something, or else to the first user.
    """
    user_limits = {user: dict.fromkeys(limits, 0) for user in users}
    left = dict(limits)
    first = ""
    for job in sorted(jobs, key=lambda job: (not job.running, job.started, _number(job.id))):
        needs = {name: units_of(job.total, name) for name in limits}
        if job.user not in user_limits or any(needs[name] > left[name] for name in limits):
            continue
        first = first or job.user
        for name, amount in needs.items():
            user_limits[job.user][name] += amount
            left[name] -= amount
    if user_limits:
        for name, amount in left.items():
            user_limits[first or next(iter(user_limits))][name] += amount
    return user_limits


def plan_ends(
    rendering: Rendering,
    jobs: Sequence[Job],
    accounts: Mapping[str, str],
    memory: Memory,
    *,
    classes: bool,
    now: int,
) -> ReclaimPlan:
    """Return the jobs that end, so that no account runs more than is decided, in a class or in all."""
    chosen: list[Jobs] = []
    gone: set[str] = set()
    jobs_of = by_account(jobs)
    limits: dict[str, Amounts] = {}
    ranks: dict[str, int] = {}
    rank_of = {row["tenant"]: row.get("reclaim_rank", 0) for row in rendering.tenants}
    for item in sorted(rendering.objects, key=lambda item: item["kind"] == "account"):
        if item["kind"] != "account" and not (classes and item["kind"] == "class"):
            continue  # classes come first
        account, partition = accounts.get(item["tenant"]), item.get("partition")
        if account is None:
            continue
        limit = amounts_of(item["limits"])
        if partition is None:
            limits[account], ranks[account] = limit, rank_of.get(item["tenant"], 0)
        chosen_here = to_stop(
            [job for job in jobs_of.get(account, ()) if job.id not in gone],
            limit,
            terms=rendering.terms,
            noticed=memory.notices,
            now=now,
            counted=_counts_in(partition),
        )
        gone.update(job.id for each in chosen_here for job in each)
        chosen += chosen_here
    return plan_reclaim(
        chosen,
        jobs=jobs,
        limits=limits,
        ranks=ranks,
        terms=rendering.terms,
        memory=memory,
        now=now,
    )


def _counts_in(partition: str | None) -> Callable[[Job], bool]:
    return lambda job: partition is None or job.partition == partition


def amounts_of(limits: Mapping[str, int]) -> Amounts:
    """Return limits of Slurm in the base units of a pool's resources."""
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


def _is_outside(job: Job, present: Mapping[Key, Association]) -> bool:
    """Return whether the limits of the job's user in its partition do not hold for it."""
    row = present.get((account_of(job.account), job.user, job.partition))
    return bool(job.association) and (row is None or row.id != job.association)


def _without(limits: Limits, jobs: Sequence[Job]) -> Limits:
    """Return limits less what jobs hold beside them, 0 at least."""
    return {
        name: max(0, most - sum(units_of(job.total, name) for job in jobs))
        for name, most in limits.items()
    }


def _number(job: str) -> tuple[int, ...]:
    return tuple(int(part) for part in job.split("_") if part.isdigit())
