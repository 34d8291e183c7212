"""Slurm as the agent's scheduler, which it observes, plans and changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import groupby
from typing import Any

from allocator_agent.configuration import Configuration
from allocator_agent.errors import SchedulerAway
from allocator_agent.model import Job, Observation, Rendering, Usage
from allocator_agent.quantities import Amounts
from allocator_agent.reclaim import Memory, ReclaimPlan, Victim
from allocator_agent.slurm import reading
from allocator_agent.slurm.closed import ROOT, JobsChange, Tree, few, is_below, plan_closed
from allocator_agent.slurm.commands import Commands
from allocator_agent.slurm.holds import HeldCluster, Hold, HoldPlan, plan_holds
from allocator_agent.slurm.people import Key, account_of, is_writable, key_of, place_of
from allocator_agent.slurm.planning import (
    LimitChange,
    LimitRemoval,
    Limits,
    MinutesChange,
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
    ReservationChange,
    in_partitions,
    plan_moves,
    plan_reservations,
    without_reserved,
)
from allocator_agent.slurm.trees import plan_groups

logger = logging.getLogger("allocator_agent")
_ASSOCIATION = "account,user,partition,grptres,fairshare,id,grptresmins,maxjobs"
OVERLAP = "partitions overlap: limits of a partition hold for the jobs that were sent to it only"
LICENCES = ("scontrol", "--oneliner", "show", "licenses")
_PER_COMMAND = 500  # names or job numbers, so that a command line stays short
Words = tuple[str, ...]
Rows = Sequence[tuple[LimitChange, Limits]]


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
            shown = others.submit(self._commands.run, *LICENCES)
            output = self._commands.run("scontrol", "--oneliner", "show", "node")
            queued = reading.with_lost_tasks(queue.result(), arrays.result())
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
        self._threads, self._reserved = reading.read_threads(output), reading.read_reserved(queued)
        own = (self._prefix, self._hold_prefix)
        nodes = without_reserved(nodes, reservations.result(), self._threads, own)
        overlap = any(each.classes != (name,) for name, each in partitions.items())
        if self._options.classes and overlap:
            problems.append(OVERLAP)
        types = reading.read_types(output)
        jobs = list(
            reading.read_jobs(
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
        limits, problems = plan_limits(
            rendering.objects, self._associations, observed.jobs, accounts, classes=classes
        )
        above = self._by_tenant(observed.parents)
        groups = {item["group"] for item in rendering.objects if item["kind"] == "group"}
        removals, found = plan_removals(
            rendering.objects,
            self._associations,
            accounts,
            {slug: account for slug, account in above.items() if slug not in groups},
            classes=classes,
        )
        problems = _joined(problems, found)
        if not self._options.users:
            removals += plan_user_removals(
                rendering.objects, self._associations, self._by_tenant(self._users())
            )
        parents = plan_groups(
            rendering.objects,
            self._associations,
            observed.jobs,
            accounts,
            {**accounts, **above},
            self._tree,
        )
        problems = _joined(problems, parents.problems)
        known = {removal.key for removal in removals}
        removals += [removal for removal in parents.removals if removal.key not in known]
        reassigned: dict[str, list[str]] = {}
        if classes:
            reassigned, found = plan_reassignments(
                rendering.objects, self._associations, observed.jobs, accounts
            )
            problems = _joined(problems, found)
        present = self._reservations()
        # Without the others, which `plan_limits` reports.
        holders = {tenant: place for tenant, place in accounts.items() if is_writable(place)}
        required = in_partitions(
            [
                _reservation(item, holders[item["tenant"]])
                for item in rendering.objects
                if item["kind"] == "reservation" and item["tenant"] in holders
            ],
            *(present, observed.jobs, self._partitions, self._prefix),
            now=seconds,
            threads=self._threads,
        )
        slots = plan_reservations(
            *(required, present, self._prefix),
            now=seconds,
            reserved=self._reserved,
            running={job.id for job in observed.jobs if job.running},
        )
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
                [job for job in observed.jobs if not _is_in_foreign_reservation(job)],
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
        return reading.is_restricted(shown, together=job.together)

    def apply(self, plan: SlurmPlan) -> list[str]:
        """Carry out a plan and return what Slurm refused. The rest is done all the same.

        Limits are written in two batches, all that fall before any that rises: at no moment do they sum
        to more than the larger of the present and the new ones. A batch that fails raises
        `SchedulerAway`.
        """
        problems: list[str] = []
        self._write([(change, change.lowered) for change in plan.limits if change.lowers])
        # The associations of partitions exist now, and no limit has risen yet.
        for account, waiting in plan.reassigned.items():
            problems += self._update(waiting, f"Account={account_of(account)}")
        self._remove(plan.removals)
        self._write_minutes(plan.minutes)
        for release in plan.holds.released:
            # Slurm deletes no reservation that a job names.
            problems += self._put_out(release.jobs)
            problems += self._tried("scontrol", "delete", f"ReservationName={release.name}")
        for change in plan.reservations:
            problems += self._put_out(change.jobs)
            problems += self._tried("scontrol", *_command(change))
        problems += self._make_holds(plan.holds)
        for name, waiting in plan.moves:  # before limits rise, or they would not wait for it
            problems += self._update(waiting, f"ReservationName={name}")
        self._write([(change, change.after) for change in plan.limits if change.raises])
        self._write_closed(plan.closed)
        signal = self._options.notice_signal
        for batch in _batches(_leaders(plan.reclaim.warned)) if signal else []:
            problems += self._tried("scancel", "--full", f"--signal={signal}", *batch)
        problems += self._requeue(plan.reclaim)
        return problems

    def _requeue(self, plan: ReclaimPlan) -> list[str]:
        """Requeue jobs and note those that Slurm refuses.

        A job that has ended since it was observed must not run again.
        """
        problems: list[str] = []
        for batch in _batches(_leaders(plan.ended)):
            if not self._tried("scontrol", "requeue", "Incomplete", ",".join(batch)):
                continue
            for job in batch:
                found = self._tried("scontrol", "requeue", "Incomplete", job)
                problems += found
                plan.refused.update([job] if found else [])
        return problems

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
            *(f"--states={reading.JOB_STATES}", f"--Format={reading.JOB_FORMAT}"),
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

    def _write(self, rows: Rows) -> None:
        """Set the limits of associations, in any order. Raises `SchedulerAway` if any is refused."""
        where = f"cluster={self.source}"
        self._commands.run_all(
            ("sacctmgr", "--immediate", "modify", *whose, where, "set", *words)
            for whose, words in modifications(rows)
        )
        if added := [row for row in rows if row[0].new]:
            text = load_file(self.source, added)
            self._commands.run("sacctmgr", "--immediate", "load", "file=/dev/stdin", input=text)

    def _remove(self, removals: Sequence[LimitRemoval]) -> None:
        """Take limits off associations. Raises `SchedulerAway` if any is refused."""
        self._commands.run_all(
            (
                *("sacctmgr", "--immediate", "modify", "user" if user else "account", "where"),
                # Without a partition, Slurm would take all of the user's in the account.
                *([f"user={user}", f"partition={partition}"] if user else []),
                *(f"account={account}", f"cluster={self.source}"),
                *("set", "GrpTRES=" + ",".join(f"{name}=-1" for name in removal.before)),
            )
            for removal in removals
            for account, user, partition in [removal.key]
        )

    def _write_minutes(self, changes: Sequence[MinutesChange]) -> None:
        """Set GrpTRESMins of accounts. Raises `SchedulerAway` if any is refused."""
        self._commands.run_all(
            (
                *("sacctmgr", "--immediate", "modify", *_where(change.place)),
                f"cluster={self.source}",
                *("set", "GrpTRESMins=" + ",".join(f"{n}={m}" for n, m in change.after.items())),
            )
            for change in changes
        )

    def _write_closed(self, changes: Sequence[JobsChange]) -> None:
        """Set MaxJobs of associations, step by step. Raises `SchedulerAway` if any is refused."""
        where = f"cluster={self.source}"
        for (after, _), step in groupby(changes, key=lambda each: (each.after, each.key == ROOT)):
            words = (f"MaxJobs={-1 if after is None else after}",)
            self._commands.run_all(
                ("sacctmgr", "--immediate", "modify", *whose, where, "set", *settings)
                for whose, settings in _set_together((change.key, words) for change in step)
            )

    def _make_holds(self, plan: HoldPlan) -> list[str]:
        """Make reservations and put jobs into them, except into those that Slurm refuses."""
        problems: list[str] = []
        refused = set()
        for hold in plan.made:
            if found := self._tried("scontrol", *_hold_command(hold)):
                problems += found
                refused.add(hold.name)
        for hold in plan.entered:
            if hold.name not in refused:
                problems += self._update(hold.jobs, f"ReservationName={hold.name}")
        return problems

    def _put_out(self, jobs: Sequence[str]) -> list[str]:
        """Take jobs that wait or run out of their reservation."""
        return self._update(jobs, "ReservationName=", states=reading.JOB_STATES)

    def _update(self, jobs: Sequence[str], setting: str, *, states: str = "PENDING") -> list[str]:
        """Change a setting of jobs in these states and return what Slurm refused.

        Slurm refuses jobs that have started or ended since they were observed. They are logged, and the
        next round plans for them as they are then.
        """
        problems: list[str] = []
        for batch in _batches(jobs):
            left = batch
            while left and (refused := self._tried("scontrol", "update", _of_jobs(left), setting)):
                present = self._in_states(states)
                others, left = left, [job for job in left if job in present]
                if left == others:
                    problems += refused
                    break
            if passed := [job for job in batch if job not in left]:
                logger.warning(
                    "jobs that started or ended during the round keep what they have: %s",
                    few(passed),
                )
        return problems

    def _in_states(self, states: str) -> set[str]:
        """Return the numbers of the jobs in these states. Raises `SchedulerAway`."""
        output = self._commands.run(
            *("squeue", "--noheader", "--array", "--all", "--local", f"--states={states}"),
            "--Format=jobarrayid:48",
        )
        return set(output.split())

    def _tried(self, program: str, *arguments: str) -> list[str]:
        try:
            self._commands.run(program, *arguments)
        except SchedulerAway as refusal:
            return [str(refusal)]
        return []


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


def _where(place: str) -> Words:
    """Return the words by which sacctmgr finds an account, or a user outside of partitions."""
    account, user, _ = key_of(place)
    whose = (f"user={user}", "partition=") if user else ()
    return "user" if user else "account", "where", *whose, f"account={account}"


def modifications(rows: Rows) -> list[tuple[Words, Words]]:
    """Return the associations that `sacctmgr modify` changes, each with its settings."""
    return _set_together(
        (change.key, _settings(change, limits))
        for change, limits in rows
        if not (change.new and change.key[1])
    )


def _set_together(rows: Iterable[tuple[Key, Words]]) -> list[tuple[Words, Words]]:
    """Return the associations with equal settings by the words that name them.

    Accounts that get the same are set together, and so are the users of one account.
    """
    alike: dict[Words, list[str]] = {}
    people: dict[tuple[str, Words], list[str]] = {}
    found: list[tuple[Words, Words]] = []
    for (account, user, partition), words in rows:
        if not user:
            alike.setdefault(words, []).append(account)
        elif not partition:
            people.setdefault((account, words), []).append(user)
        else:
            whose = (f"user={user}", f"account={account}", f"partition={partition}")
            found.append((("user", "where", *whose), words))
    return (
        [
            (("account", "where", f"account={','.join(names)}"), words)
            for words, accounts in alike.items()
            for names in _batches(accounts)
        ]
        + [
            (
                ("user", "where", f"user={','.join(names)}", f"account={account}", "partition="),
                words,
            )
            for (account, words), users in people.items()
            for names in _batches(users)
        ]
        + found
    )


def _settings(change: LimitChange, limits: Limits) -> Words:
    """Return GrpTRES as sacctmgr takes it, and the fair share where it changes."""
    tres = ",".join(f"{name}={most}" for name, most in limits.items())
    # Without limits only the fair share changes: an empty GrpTRES is refused.
    return (
        *([f"GrpTRES={tres}"] if tres else []),
        *([f"Fairshare={change.fairshare[1]}"] if change.shares else []),
    )


def load_file(cluster: str, rows: Rows) -> str:
    """Return the batch for `sacctmgr load`, with new associations of users below their accounts."""
    lines = [f"Cluster - '{cluster}'"]
    below = ""
    for change, limits in rows:
        account, user, partition = change.key
        if account != below:
            lines.append(f"Parent - '{account}'")
            below = account
        what = f"User - '{user}':Partition='{partition}'"
        lines.append(":".join([what, *_settings(change, limits)]))
    return "\n".join(lines) + "\n"


def _reservation(item: Mapping[str, Any], account: str) -> Reservation:
    start, end = (
        int(datetime.fromisoformat(item[name].replace("Z", "+00:00")).timestamp())
        for name in ("start", "end")
    )
    return Reservation(item["name"], start, end, account, item["partition"] or "", item["cores"])


def _command(change: ReservationChange) -> list[str]:
    if change.after is None:
        return ["delete", f"ReservationName={change.name}"]
    after = change.after
    name = f"ReservationName={change.name}"
    start = f"StartTime={reading.utc_text(after.start)}"
    end = f"EndTime={reading.utc_text(after.end)}"
    if change.before is not None:
        # Slurm refuses a start for a reservation that has begun, and cores for any.
        return ["update", name, *([start] if change.before.start != after.start else []), end]
    return [
        *("create", "reservation", name, start, end),
        *_for(after.account),
        f"CoreCnt={after.cores}",
        *([f"PartitionName={after.partition}"] if after.partition else []),
        "Flags=IGNORE_JOBS",
    ]


def _for(place: str) -> Words:
    """Return the words that give a reservation to an account, or to a user of it alone."""
    account, user, _ = key_of(place)
    return (f"Accounts={account}", *([f"Users={user}"] if user else []))


def _hold_command(hold: Hold) -> list[str]:
    """Return the command for a reservation without an end.

    Slurm itself deletes it once its job has ended.
    """
    return [
        *("create", "reservation", f"ReservationName={hold.name}"),
        *("StartTime=now", "Duration=UNLIMITED", *_for(hold.account)),
        *(f"PartitionName={hold.partition}", f"Nodes={','.join(hold.cores)}"),
        f"CoreCnt={','.join(map(str, hold.cores.values()))}",
        "Flags=IGNORE_JOBS,PURGE_COMP=00:05:00",
    ]


def _is_in_foreign_reservation(job: Job) -> bool:
    """Return true for a job in a reservation of the site, whose cores are not in the decision."""
    return bool(job.reservation) and not job.reservation.startswith("allocator-")


def _of_jobs(jobs: Sequence[str]) -> str:
    """Return the word by which scontrol finds jobs."""
    return f"JobId={','.join(jobs)}"


def _leaders(victims: Sequence[Victim]) -> list[str]:
    """Return the jobs to name, one for all parts of a heterogeneous job."""
    return [victim.key for victim in victims]


def _batches(items: Sequence[str]) -> list[list[str]]:
    return [list(items[at : at + _PER_COMMAND]) for at in range(0, len(items), _PER_COMMAND)]
