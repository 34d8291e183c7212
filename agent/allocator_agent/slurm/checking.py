"""Checks of Slurm before the agent's first write."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

from allocator_agent.checking import compare_seconds
from allocator_agent.configuration import Configuration
from allocator_agent.findings import Section
from allocator_agent.licences import can_count_licences, licence_names, not_counted_problem
from allocator_agent.model import LICENCE_PREFIX, Observation
from allocator_agent.service import Known
from allocator_agent.slurm import closed, reading
from allocator_agent.slurm.commands import Commands
from allocator_agent.slurm.scheduler import OVERLAP, Slurm
from allocator_agent.slurm.tres import read_limits, tres_of

OLDEST = (21, 8)
_ENFORCED = ("associations", "limits")
# A round works without these, but not all that it writes holds.
_ADVISED = {
    "qos": "jobs may name any QOS, also one that their account does not have",
    "safe": "a job may start that exceeds the minutes of a budget before it ends",
}
_ENFORCE = "set AccountingStorageEnforce=limits,qos,safe in slurm.conf, and restart slurmctld"
# Associations of users in partitions are loaded from a file, which Slurm lets administrators do only.
_LEVELS = {False: ("Operator", "Administrator"), True: ("Administrator",)}


class SlurmCheck:
    """Checks of one cluster of Slurm."""

    title = "Slurm"

    def __init__(
        self,
        configuration: Configuration,
        commands: Commands,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._configuration, self._commands, self._clock = configuration, commands, clock
        self._slurm = Slurm(configuration, commands)

    def run(self, section: Section, known: Known | None) -> Observation | None:
        """Add findings about commands, settings, rights and nodes."""
        settings: Mapping[str, str] = {}
        resources = [item["name"] for item in known.pool["resources"]] if known else []
        with section.attempt("install Slurm's commands here, and start slurmctld"):
            before = self._clock()
            text = self._commands.run("scontrol", "show", "config")
            after = self._clock()
            settings = reading.read_settings(text)
            check_settings(section, settings, resources)
            if seconds := reading.read_time_of_settings(text):
                compare_seconds(section, "slurmctld", seconds, before, after)
            else:
                section.note("the clock of slurmctld is unknown, because it shows no time")
        if not settings:
            return None
        with section.attempt("start slurmdbd, and set AccountingStorageType to it"):
            self._check_rights(section, settings)
            self._check_qualities(section, resources)
        with section.attempt("see the logs of slurmctld and slurmdbd"):
            return self._observe(section, known)
        return None

    def _observe(self, section: Section, known: Known | None) -> Observation:
        """Read all that a round reads, jobs that ended included where they are usage."""
        # The commands of a round themselves, with all options that an older Slurm may lack.
        observed = self._slurm.observe()
        commands = ["scontrol", "squeue", "sacctmgr"]
        if known is not None and known.pool["metering"] == "reported":
            now = datetime.fromtimestamp(self._clock(), timezone.utc)
            self._slurm.finished(self._configuration.usage_hours, now)
            commands.append("sacct")
        section.ok(f"{', '.join(commands)} answer")
        drained = sum(node.draining for node in observed.nodes)
        section.require(
            observed.nodes,
            f"{len(observed.nodes)} nodes, {drained} of them out of service",
            "there is no node",
            "add nodes to slurm.conf",
        )
        if known is not None:
            self._check_licences(section, known, observed)
            self._check_closed(section, known, observed)
        for problem in observed.problems:
            if problem == OVERLAP:
                remedy = "give each node one partition, or set [slurm] classes = no"
                section.missing(problem, remedy)
            else:
                section.note(problem)
        return observed

    def _check_licences(self, section: Section, known: Known, observed: Observation) -> None:
        """Compare the licences of the cluster with those that are resources of the pool."""
        of_pool = {item["name"] for item in known.pool["resources"]}
        counted = sorted(name for name in of_pool if name.startswith(LICENCE_PREFIX))
        gangs = known.gangs and self._configuration.gangs
        if counted and not can_count_licences(places=known.places, gangs=gangs):
            section.missing(not_counted_problem(counted), "see Licences in the guide for Slurm")
        elif counted:
            lacking = [name for name in counted if name not in observed.licences]
            section.require(
                not lacking,
                f"the cluster has {licence_names(counted)} as licences",
                f"the cluster has no licence {licence_names(lacking)}",
                "add it to Licenses in slurm.conf, in any case of letters",
            )
        if others := sorted(observed.licences.keys() - of_pool):
            section.note(
                f"licences that are not resources of the pool: {licence_names(others)}; jobs that ask"
                " for them are counted without them"
            )

    def _check_closed(self, section: Section, known: Known, observed: Observation) -> None:
        """Check that new accounts can be closed, and state what a round changes for it."""
        options, registers = self._configuration.slurm, self._configuration.registers_tenants
        tree = self._slurm.tree(observed, known.groups)
        # As if each member, and each that becomes one, had a limit already.
        members = [
            tenant
            for tenant, place in tree.accounts.items()
            if tenant in known.members or (registers and place not in observed.exempt)
        ]
        objects = [{"kind": "account", "tenant": tenant} for tenant in members]
        changes, problems = closed.plan_closed(
            objects, tree, closed=options.closed, opened=options.open
        )
        count = f"a round sets MaxJobs of {len(changes)} accounts and users"
        if options.closed:
            problem = closed.problem_of_root(tree.associations)
            section.require(
                not problem,
                f"new accounts start no job before a round has limited them: {count}",
                problem,
                "sacctmgr modify account root set MaxJobs=-1, and set it on the accounts that need it",
            )
            for text in problems if not problem else ():
                section.note(text, "see [slurm] open")
        elif changes:
            section.ok(f"[slurm] closed is off: {count}, which the agent had closed")

    def _check_qualities(self, section: Section, resources: Sequence[str]) -> None:
        """Check that no QOS has limits that replace those of accounts."""
        shown = self._commands.run(
            *("sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=name,grptres")
        )
        counted = {tres_of(name) for name in resources}
        clear = True
        for line in shown.splitlines():
            name, _, limits = line.partition("|")
            # Slurm looks for each resource's limit in the QOS first, and at accounts without one only.
            own = [tres for tres in read_limits(limits) if tres in counted]
            if own:
                clear = False
                section.missing(
                    f"QOS {name} limits {', '.join(own)}, so its jobs ignore that limit of accounts",
                    "give the accounts of the pool QOS without such a limit, or set it by other means:"
                    " MaxTRESPerUser of the QOS replaces no limit of accounts",
                )
        if clear:
            section.ok("no QOS has limits that replace those of accounts")

    def _check_rights(self, section: Section, settings: Mapping[str, str]) -> None:
        """Check the right to change accounts, reservations and jobs of others."""
        name = _user_name()
        # Slurm itself asks neither of these for a level.
        if os.geteuid() == 0 or name == settings.get("SlurmUser", "").partition("(")[0]:
            section.ok(f"user {name} may change accounts, reservations and jobs")
            return
        shown = self._commands.run(
            *("sacctmgr", "--noheader", "--parsable2", "show", "user"),
            *(f"name={name}", "format=user,adminlevel"),
        )
        level = dict(line.split("|", 1) for line in shown.splitlines() if "|" in line).get(name)
        enough = _LEVELS[self._configuration.slurm.classes]
        section.require(
            level in enough,
            f"user {name} may change accounts, reservations and jobs, as {level}",
            f"user {name} may not change accounts, reservations and jobs:"
            f" its administrator level is {level or 'None'}",
            f"sacctmgr -i add user {name} account=root adminlevel={enough[0]}"
            if level is None
            else f"sacctmgr -i modify user {name} set adminlevel={enough[0]}",
        )


def _user_name() -> str:
    """Return the name of this process's user, its number if the machine knows no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def check_settings(section: Section, settings: Mapping[str, str], resources: Sequence[str]) -> None:
    """Check what `scontrol show config` prints."""
    version = settings.get("SLURM_VERSION", "")
    section.require(
        _is_recent(version),
        f"version {version}, cluster {settings.get('ClusterName', '')}",
        f"version {version or 'unknown'} is too old",
        f"upgrade Slurm to {OLDEST[0]}.{OLDEST[1]:02} or newer",
    )
    enforced = set(settings.get("AccountingStorageEnforce", "").lower().split(","))
    lacking = [word for word in _ENFORCED if word not in enforced]
    section.require(
        not lacking,
        f"AccountingStorageEnforce has {', '.join(_ENFORCED)}",
        f"AccountingStorageEnforce lacks {' and '.join(lacking)}: Slurm ignores limits of accounts",
        _ENFORCE,
    )
    for word, consequence in _ADVISED.items():
        if word not in enforced and not lacking:
            section.note(f"AccountingStorageEnforce lacks {word}: {consequence}", _ENFORCE)
    tracked = set(settings.get("AccountingStorageTRES", "").lower().split(","))
    absent = [name for name in resources if tres_of(name) not in tracked]
    section.require(
        not absent,
        f"accounting counts {', '.join(resources)}" if resources else "accounting counts resources",
        f"accounting does not count {', '.join(absent)}, so Slurm has no limit for it",
        f"add {','.join(map(tres_of, absent))} to AccountingStorageTRES in slurm.conf,"
        " and restart slurmctld",
    )


def _is_recent(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= OLDEST
