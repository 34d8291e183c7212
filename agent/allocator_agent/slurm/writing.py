"""Commands of Slurm that carry out a plan."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import groupby

from allocator_agent.changes import few
from allocator_agent.errors import SchedulerAway
from allocator_agent.reclaim import ReclaimPlan, Victim
from allocator_agent.slurm.closed import ROOT, JobsChange
from allocator_agent.slurm.commands import Commands
from allocator_agent.slurm.holds import Hold, HoldPlan
from allocator_agent.slurm.jobs import JOB_STATES
from allocator_agent.slurm.limit_changes import LimitChange, LimitRemoval, Limits, MinutesChange
from allocator_agent.slurm.people import Key, account_of, key_of
from allocator_agent.slurm.planning import SlurmPlan
from allocator_agent.slurm.reading import utc_text
from allocator_agent.slurm.reservations import ReservationChange

logger = logging.getLogger("allocator_agent")
Rows = Sequence[tuple[LimitChange, Limits]]
Words = tuple[str, ...]
_PER_COMMAND = 500  # names or job numbers, so that a command line stays short


class Writer:
    """Writer of the changes of one cluster of Slurm."""

    def __init__(self, commands: Commands, cluster: str, notice_signal: str) -> None:
        self._commands, self._cluster, self._notice_signal = commands, cluster, notice_signal

    def write(self, plan: SlurmPlan) -> list[str]:
        """Carry out a plan and return what Slurm refused. The rest is done all the same.

        Limits are written in two batches, all that fall before any that rises: at no moment do they sum
        to more than the larger of the present and the new ones. A batch that fails raises
        `SchedulerAway`.
        """
        problems: list[str] = []
        self._write_limits([(change, change.lowered) for change in plan.limits if change.lowers])
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
        self._write_limits([(change, change.after) for change in plan.limits if change.raises])
        self._write_closed(plan.closed)
        signal = self._notice_signal
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

    def _write_limits(self, rows: Rows) -> None:
        """Set the limits of associations, in any order. Raises `SchedulerAway` if any is refused."""
        where = f"cluster={self._cluster}"
        self._commands.run_all(
            ("sacctmgr", "--immediate", "modify", *whose, where, "set", *words)
            for whose, words in modifications(rows)
        )
        if added := [row for row in rows if row[0].new]:
            text = load_file(self._cluster, added)
            self._commands.run("sacctmgr", "--immediate", "load", "file=/dev/stdin", input=text)

    def _remove(self, removals: Sequence[LimitRemoval]) -> None:
        """Take limits off associations. Raises `SchedulerAway` if any is refused."""
        self._commands.run_all(
            (
                *("sacctmgr", "--immediate", "modify", "user" if user else "account", "where"),
                # Without a partition, Slurm would take all of the user's in the account.
                *([f"user={user}", f"partition={partition}"] if user else []),
                *(f"account={account}", f"cluster={self._cluster}"),
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
                f"cluster={self._cluster}",
                *("set", "GrpTRESMins=" + ",".join(f"{n}={m}" for n, m in change.after.items())),
            )
            for change in changes
        )

    def _write_closed(self, changes: Sequence[JobsChange]) -> None:
        """Set MaxJobs of associations, step by step. Raises `SchedulerAway` if any is refused."""
        where = f"cluster={self._cluster}"
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
        return self._update(jobs, "ReservationName=", states=JOB_STATES)

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


def _command(change: ReservationChange) -> list[str]:
    if change.after is None:
        return ["delete", f"ReservationName={change.name}"]
    after = change.after
    name = f"ReservationName={change.name}"
    start = f"StartTime={utc_text(after.start)}"
    end = f"EndTime={utc_text(after.end)}"
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


def _of_jobs(jobs: Sequence[str]) -> str:
    """Return the word by which scontrol finds jobs."""
    return f"JobId={','.join(jobs)}"


def _leaders(victims: Sequence[Victim]) -> list[str]:
    """Return the jobs to name, one for all parts of a heterogeneous job."""
    return [victim.key for victim in victims]


def _batches(items: Sequence[str]) -> list[list[str]]:
    return [list(items[at : at + _PER_COMMAND]) for at in range(0, len(items), _PER_COMMAND)]
