"""Slurm as the agent's scheduler, which it observes, plans and changes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from allocator_agent.configuration import Configuration
from allocator_agent.errors import SchedulerAway
from allocator_agent.model import Job, Observation, Rendering, Usage
from allocator_agent.quantities import Amounts
from allocator_agent.reclaim import Memory, ReclaimPlan
from allocator_agent.slurm import reading
from allocator_agent.slurm.closed import Tree, is_below, plan_closed
from allocator_agent.slurm.commands import Commands
from allocator_agent.slurm.holds import HeldCluster, plan_holds
from allocator_agent.slurm.jobs import (
    JOB_FORMAT,
    JOB_STATES,
    is_restricted,
    read_jobs,
    read_reserved,
    with_lost_tasks,
)
from allocator_agent.slurm.limit_changes import LimitRemoval
from allocator_agent.slurm.people import Key, account_of, is_writable, key_of, place_of
from allocator_agent.slurm.planning import (
    SlurmPlan,
    amounts_of,
    plan_ends,
    plan_limits,
    plan_minutes,
    plan_reassignments,
    plan_removals,
    plan_user_removals,
)
from allocator_agent.slurm.reading import Association, Partition, Reservation
from allocator_agent.slurm.reservations import (
    SlotPlan,
    in_partitions,
    is_in_foreign_reservation,
    plan_moves,
    plan_reservations,
    reservation_of,
    without_reserved,
)
from allocator_agent.slurm.trees import GroupPlan, plan_groups
from allocator_agent.slurm.writing import Writer

_ASSOCIATION = "account,user,partition,grptres,fairshare,id,grptresmins,maxjobs"
OVERLAP = "partitions overlap: limits of a partition hold for the jobs that were sent to it only"
_SHOW_LICENCES = ("scontrol", "--oneliner", "show", "licenses")


class Slurm:
    """A cluster of Slurm, by its commands."""

    target = "slurm"
    class_label = "partition"

    def __init__(self, configuration: Configuration, commands: Commands) -> None:
        self._options, self._commands = configuration.slurm, commands
        self._by_tenant = configuration.by_tenant
        self._reclaim = configuration.reclaim == "requeue"
        self.memory = Memory()
        # Slugs have no underscore: no other pool's names begin like those of holds.
        self._prefix = f"allocator-{configuration.pool}-"
        self._hold_prefix = f"allocator-{configuration.pool}_hold_"
        self._workload_prefix = f"{configuration.name}/"
        self._reserved: dict[str, list[str]] = {}  # the jobs that name each reservation
        self._threads: dict[str, int] = {}  # the CPUs of a core of each node
        self._allocated: dict[str, Amounts] = {}  # what jobs have of each node
        self._cluster = configuration.slurm.cluster
        self._associations: list[Association] = []
        self._unreadable = 0  # rows of accounting that were left out
        self._unreadable_jobs = 0  # of those that have ended
        self._tree: dict[str, str] = {}  # the parent of each account
        self._switches: dict[str, str] = {}  # the switch of each node
        self._partitions: dict[str, Partition] = {}

    @property
    def source(self) -> str:
        """The cluster's name, which job numbers belong to."""
        if not self._cluster:
            settings = reading.read_settings(self._commands.run("scontrol", "show", "config"))
            self._cluster = settings.get("ClusterName", "")
            if not self._cluster:
                raise SchedulerAway("scontrol show config names no cluster: set [slurm] cluster")
        return self._cluster

    def observe(self) -> Observation:
        """Return nodes, jobs and accounts. Raises `SchedulerAway`."""
        with _understood():
            return self._observed()

    def _observed(self) -> Observation:
        with ThreadPoolExecutor() as others:
            arrays = others.submit(self._arrays)
            queue, rows = others.submit(self._queue), others.submit(self._read_associations)
            tree = others.submit(self._read_tree)
            reservations = others.submit(self._reservations)
            topology = others.submit(self._read_switches)
            shown = others.submit(self._commands.run, *_SHOW_LICENCES)
            output = self._commands.run("scontrol", "--oneliner", "show", "node")
            queued = with_lost_tasks(queue.result(), arrays.result())
            self._associations = rows.result()
            self._tree = tree.result()
        problems = []
        switches = topology.result()
        if switches is None:
            # Without the last ones each server would lose its label for this round.
            switches = self._switches
            problems.append(
                "scontrol show topology fails: the switches of nodes are the last known"
            )
        self._switches = switches
        owner_feature = self._options.owner_feature
        nodes = list(reading.read_nodes(output, owner_feature=owner_feature, switches=switches))
        self._partitions = partitions = reading.read_partitions(output)
        self._threads, self._reserved = reading.read_threads(output), read_reserved(queued)
        self._allocated = reading.read_allocated(output)
        own = (self._prefix, self._hold_prefix)
        nodes = without_reserved(nodes, reservations.result(), self._threads, own)
        overlap = any(each.classes != (name,) for name, each in partitions.items())
        if self._options.classes and overlap:
            problems.append(OVERLAP)
        types = reading.read_types(output)
        jobs = list(
            read_jobs(
                queued,
                partitions=partitions,
                types=types,
                switches=switches,
                now=int(time.time()),
            )
        )
        licences = reading.read_licences(shown.result())
        if self._unreadable:
            problems.append(
                f'{self._unreadable} users or accounts have "|" in their names and are left out'
            )
        parents = frozenset(self._tree.values()) - {"root"}
        accounts = {item.account for item in self._associations if not item.user} - {"root"}
        if not self._options.users:
            members = frozenset(accounts - parents)
            exempt = self._exempt(accounts)
            return Observation(
                nodes, jobs, members, problems, parents, exempt=exempt, licences=licences
            )
        # Every account is above its users, so that none is a member itself.
        jobs = [replace(job, account=place_of(job.account, job.user)) for job in jobs]
        users = self._users()
        self._tree |= {place: account_of(place) for place in users}
        if inside := sorted(
            {
                f"{row.account}/{row.user}"
                for row in self._associations
                if row.user and place_of(row.account, row.user) not in users
            }
            - {"root/root"}
        ):
            problems.append(
                "users who are in partitions of an account only, and not in the account, have no limit:"
                f" {', '.join(inside)}; sacctmgr add user USER account=ACCOUNT"
            )
        exempt = self._exempt({*accounts, *users})
        return Observation(
            nodes, jobs, users, problems, frozenset(accounts), exempt=exempt, licences=licences
        )

    def _exempt(self, places: Iterable[str]) -> frozenset[str]:
        """Return the places in accounts that stay as they are, or below them."""
        if not self._options.closed:
            return frozenset()
        return frozenset(each for each in places if is_below(each, self._options.open, self._tree))

    def _users(self) -> frozenset[str]:
        """Return the places of the users of all accounts but root."""
        return frozenset(
            place_of(row.account, row.user)
            for row in self._associations
            if row.user and not row.partition and row.account != "root"
        )

    def _read_switches(self) -> dict[str, str] | None:
        """Return the switch of each node, None if Slurm does not print them."""
        try:
            return reading.read_switches(self._commands.run("scontrol", "show", "topology"))
        except SchedulerAway:
            return None

    def finished(self, hours: float, now: datetime) -> list[Usage]:
        """Return the jobs that ended within so many hours, each run of a requeued one for itself."""
        since = (now.astimezone(timezone.utc) - timedelta(hours=hours)).strftime(
            "%Y-%m-%dT%H:%M:%S"
        )
        users = self._options.users
        fields = [*reading.USAGE_FIELDS, *(["User"] if users else [])]
        output = self._commands.run(
            *("sacct", "--allusers", "--allocations", "--duplicates", "--parsable2", "--noheader"),
            *(f"--clusters={self.source}", f"--starttime={since}", "--endtime=now"),
            f"--format={','.join(fields)}",
        )
        self._unreadable_jobs = reading.unreadable_rows(output, len(fields) - 1)
        with _understood():
            return list(reading.read_usage(output, users=users))

    def _problems_of_usage(self) -> dict[str, list[str]]:
        if not self._unreadable_jobs:
            return {}
        names = 'names of their accounts or users have "|"'
        return {"": [f"{self._unreadable_jobs} jobs have ended whose usage is left out: {names}"]}

    def plan(self, rendering: Rendering, observed: Observation, now: datetime) -> SlurmPlan:
        """Plan the changes that make Slurm obey the decision."""
        accounts = self._by_tenant(observed.accounts)
        seconds = int(now.timestamp())
        classes = self._options.classes
        groups = {item["group"] for item in rendering.objects if item["kind"] == "group"}
        above = self._by_tenant(observed.parents)
        limits, problems = plan_limits(
            rendering.objects, self._associations, observed.jobs, accounts, classes=classes
        )
        parents = plan_groups(
            rendering.objects,
            self._associations,
            observed.jobs,
            accounts,
            {**accounts, **above},
            self._tree,
        )
        outside = {slug: account for slug, account in above.items() if slug not in groups}
        removals, found = self._plan_removals(rendering, accounts, outside, parents)
        problems = _joined(_joined(problems, found), parents.problems)
        reassigned: dict[str, list[str]] = {}
        if classes:
            reassigned, found = plan_reassignments(
                rendering.objects, self._associations, observed.jobs, accounts
            )
            problems = _joined(problems, found)
        present = self._reservations()
        # Without the others, which `plan_limits` reports.
        holders = {tenant: place for tenant, place in accounts.items() if is_writable(place)}
        slots = self._plan_slots(rendering, observed, present, holders, seconds)
        holds = plan_holds(
            rendering.objects if self._options.hold else [],
            observed.jobs,
            holders,
            self._held(observed, present, seconds),
        )
        problems = _joined(_joined(problems, holds.problems), self._problems_of_usage())
        made = [change.key for change in limits if change.new]
        closed, found_closed = plan_closed(
            rendering.objects,
            self.tree(observed, groups, made),
            closed=self._options.closed,
            opened=self._options.open,
        )
        problems = _joined(problems, {"": found_closed} if found_closed else {})
        return SlurmPlan(
            limits + parents.limits,
            slots.changes,
            plan_moves(slots.slots, observed.jobs, self._partitions, self._prefix, now=seconds),
            plan_ends(
                rendering,
                [job for job in observed.jobs if not is_in_foreign_reservation(job)],
                accounts,
                self.memory,
                classes=classes,
                now=seconds,
            )
            if self._reclaim
            else ReclaimPlan(),
            problems,
            removals,
            reassigned,
            plan_minutes(rendering.objects, self._associations, {**accounts, **above}),
            holds,
            closed,
        )

    def _plan_removals(
        self,
        rendering: Rendering,
        accounts: Mapping[str, str],
        outside: Mapping[str, str],
        parents: GroupPlan,
    ) -> tuple[list[LimitRemoval], dict[str, list[str]]]:
        """Plan to take off the limits that the agent no longer manages, each once.

        `outside` are the accounts with others below them that are no groups, by tenant.
        """
        removals, problems = plan_removals(
            *(rendering.objects, self._associations, accounts, outside),
            classes=self._options.classes,
        )
        if not self._options.users:
            removals += plan_user_removals(
                rendering.objects, self._associations, self._by_tenant(self._users())
            )
        known = {removal.key for removal in removals}
        removals += [removal for removal in parents.removals if removal.key not in known]
        return removals, problems

    def _plan_slots(
        self,
        rendering: Rendering,
        observed: Observation,
        present: Sequence[Reservation],
        holders: Mapping[str, str],
        now: int,
    ) -> SlotPlan:
        """Plan the reservations of the slots of accounts, in the partitions of their jobs."""
        required = in_partitions(
            [
                reservation_of(item, holders[item["tenant"]])
                for item in rendering.objects
                if item["kind"] == "reservation" and item["tenant"] in holders
            ],
            *(present, observed.jobs, self._partitions, self._prefix),
            now=now,
            threads=self._threads,
        )
        return plan_reservations(
            *(required, present, self._prefix),
            now=now,
            reserved=self._reserved,
            running={job.id for job in observed.jobs if job.running},
        )

    def tree(
        self, observed: Observation, groups: Collection[str], made: Iterable[Key] = ()
    ) -> Tree:
        """Return what was last observed, and what of it is of the pool with these groups."""
        above = self._by_tenant(observed.parents)
        return Tree(
            self._associations,
            self._tree,
            observed.accounts,
            self._by_tenant(observed.accounts),
            {above[slug] for slug in groups if slug in above},
            made,
            users=self._options.users,
            joining=observed.joining,
        )

    def _held(self, observed: Observation, present: Sequence[Reservation], now: int) -> HeldCluster:
        return HeldCluster(
            observed.nodes,
            present,
            self._reserved,
            self._threads,
            self._allocated,
            self._partitions,
            self._hold_prefix,
            self._workload_prefix,
            self._is_restricted,
            now,
        )

    def _is_restricted(self, job: Job) -> bool:
        """Ask Slurm for fields that squeue does not print. A missing job counts as restricted."""
        try:
            shown = self._commands.run("scontrol", "--oneliner", "show", "job", job.id)
        except SchedulerAway:
            return True
        return is_restricted(shown, together=job.together)

    def apply(self, plan: SlurmPlan) -> list[str]:
        """Carry out a plan and return what Slurm refused. Raises `SchedulerAway`."""
        return Writer(self._commands, self.source, self._options.notice_signal).write(plan)

    def applied(
        self,
        observed: Observation,
        *,
        fresh: bool,  # noqa: ARG002 - a round that wrote limits has observed once more
    ) -> dict[str, Amounts]:
        """Return the limits that were in force when this was last observed, by account."""
        rows = {(row.account, row.user, row.partition): row for row in self._associations}
        return {
            place: amounts_of(rows[key_of(place)].limits)
            for place in observed.accounts
            if key_of(place) in rows
        }

    def _queue(self) -> str:
        return self._commands.run(
            *("squeue", "--noheader", "--array", "--all", "--local", "--sort=-p,i"),
            *(f"--states={JOB_STATES}", f"--Format={JOB_FORMAT}"),
        )

    def _arrays(self) -> str:
        """Return the arrays of waiting jobs, each in one line."""
        return self._commands.run(
            *("squeue", "--noheader", "--all", "--local", "--states=PENDING", "--format=%i")
        )

    def _read_associations(self) -> list[Association]:
        """Read all rows without inherited limits, which slurmdbd looks up row by row."""
        output = self._commands.run(
            *("sacctmgr", "--noheader", "--parsable2", "show", "association", "WOPInfo"),
            *(f"cluster={self.source}", f"format={_ASSOCIATION}"),
        )
        self._unreadable = reading.unreadable_rows(output)
        found = list(reading.read_associations(output))
        # Every cluster has the root account. Without rows every member would seem to have left.
        if not any(row.account == "root" for row in found):
            raise ValueError(f"sacctmgr prints no root account: {output[:40]!r}")
        return found

    def _read_tree(self) -> dict[str, str]:
        """Return the parent of each account, without a look at users."""
        text = self._commands.run(
            *("sacctmgr", "--noheader", "--parsable2", "show", "association", "WOPLimits"),
            *(f"cluster={self.source}", "user=", "format=account,user,parentname"),
        )
        return reading.read_tree(text)

    def _reservations(self) -> list[Reservation]:
        output = self._commands.run("scontrol", "show", "reservation")
        return list(reading.read_reservations(output))


def _joined(
    problems: Mapping[str, list[str]], more: Mapping[str, list[str]]
) -> dict[str, list[str]]:
    return {
        name: [*problems.get(name, []), *more.get(name, [])]
        for name in problems.keys() | more.keys()
    }


@contextmanager
def _understood() -> Iterator[None]:
    """Raise `SchedulerAway` for output of Slurm that cannot be read."""
    try:
        yield
    except (KeyError, ValueError) as error:
        raise SchedulerAway(f"what Slurm prints cannot be read: {error!r}") from error
