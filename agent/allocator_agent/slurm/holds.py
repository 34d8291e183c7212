"""Reservations of cores for decided jobs of several nodes that wait.

A job that was decided but does not fit yet has a reservation of its own, on the nodes that the decision
names. What ends there is not handed out again. Once the job runs, the agent takes it out and deletes
the reservation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from allocator_agent.changes import ADD, CHANGE, REMOVE, ObjectChange, Value
from allocator_agent.configuration import place_text
from allocator_agent.model import LICENCE_CLASS, SWITCH, Job, Node, started_together
from allocator_agent.quantities import Amounts
from allocator_agent.slurm.pieces import (
    Kind,
    Pieces,
    decided_kinds,
    is_licences,
    kinds_of,
    zones_of,
)
from allocator_agent.slurm.reading import Partition, Reservation
from allocator_agent.slurm.tres import units_of

# Slurm's reasons of jobs that wait for nodes, not for a limit, a date or a person.
WAITS_FOR_NODES = ("Resources", "Priority", "ReqNodeNotAvail", "Nodes required for job")
_LACKS_LICENCES = ("Licenses", "AssocGrpLicense")
# A job that waits for so long without a reason is passed over, not new.
LOOKED_AT_SECONDS = 10
_FEWEST_NODES = 2  # Slurm finds a single node by itself


@dataclass(frozen=True)
class Hold:
    """A reservation for a job, or for all that start with it, with the cores of each node."""

    name: str
    account: str
    partition: str
    jobs: tuple[str, ...]
    cores: dict[str, int]
    beside: dict[str, int] = field(default_factory=dict)  # account -> its running jobs on the nodes

    def shown(self, *, is_new: bool) -> ObjectChange:
        """Return the reservation as a plan shows it."""
        where = ", ".join(
            f"{cores} of {node}" if cores else node for node, cores in self.cores.items()
        )
        values = (
            Value("account", "", place_text(self.account)),
            Value("cores", "", where),
            Value("held for", "", _named(self.jobs)),
        )
        name = f"reservation {self.name}"
        return ObjectChange(ADD if is_new else CHANGE, name, values, _beside(self.beside))


@dataclass(frozen=True)
class Release:
    """A reservation to delete, and the jobs that have to leave it before."""

    name: str
    jobs: tuple[str, ...]
    reason: str

    def shown(self) -> ObjectChange:
        """Return the deletion as a plan shows it."""
        return ObjectChange(REMOVE, f"reservation {self.name}", notes=(self.reason,))


@dataclass(frozen=True)
class HoldPlan:
    """Reservations to make and to delete, and those that jobs have to be put into.

    `waiting` are all jobs that are held for, by tenant.
    """

    made: list[Hold] = field(default_factory=list)
    entered: list[Hold] = field(default_factory=list)
    released: list[Release] = field(default_factory=list)
    waiting: dict[str, list[Hold]] = field(default_factory=dict)
    problems: dict[str, list[str]] = field(default_factory=dict)  # by tenant


def plan_holds(
    objects: Sequence[Mapping[str, Any]],
    jobs: Sequence[Job],
    accounts: Mapping[str, str],
    cluster: HeldCluster,
) -> HoldPlan:
    """Plan what is held for the gangs of a decision, and for no other.

    `accounts` names the account of every tenant that has one.
    """
    return _Planning(jobs, accounts, cluster).plan(objects)


@dataclass(frozen=True)
class HeldCluster:
    """A cluster with its reservations.

    `reserved` has the jobs that name each reservation. `prefix` begins the names of holds,
    `workload_prefix` those of this agent's workloads. `threads` is the number of CPUs of a core and
    `allocated` what jobs have, by node. `is_restricted` is true for a job that may run on some nodes of
    its partition only.
    """

    nodes: Sequence[Node]
    reservations: Sequence[Reservation]
    reserved: Mapping[str, Sequence[str]]
    threads: Mapping[str, int]
    allocated: Mapping[str, Amounts]
    partitions: Mapping[str, Partition]
    prefix: str
    workload_prefix: str
    is_restricted: Callable[[Job], bool]
    now: int


class _Planning:
    """One plan of holds."""

    def __init__(
        self, jobs: Sequence[Job], accounts: Mapping[str, str], cluster: HeldCluster
    ) -> None:
        self._jobs, self._accounts, self._cluster = jobs, accounts, cluster
        self._nodes = {node.name: node for node in cluster.nodes}
        self._present = {
            item.name: item for item in cluster.reservations if item.name.startswith(cluster.prefix)
        }
        self._of_account: dict[str, list[list[Job]]] = {}
        for parts in started_together(jobs):
            self._of_account.setdefault(parts[0].account, []).append(parts)
        self._kept: set[str] = set()
        self._reserved = {node for item in cluster.reservations for node in item.nodes}
        self._on_node: dict[str, list[Job]] = {}
        for job in jobs:
            for node in job.nodes:
                self._on_node.setdefault(node, []).append(job)

    def plan(self, objects: Sequence[Mapping[str, Any]]) -> HoldPlan:
        plan = HoldPlan()
        for item in objects:
            is_own = item["kind"] == "gang" and item["workload"].startswith(
                self._cluster.workload_prefix
            )
            if is_own and (account := self._accounts.get(item["tenant"])):
                self._hold(plan, item, account)
        running = {job.id for job in self._jobs if job.running}
        for name in sorted(self._present.keys() - self._kept):
            jobs = tuple(self._cluster.reserved.get(name, ()))
            reason = "no job names it"
            if jobs:
                started = running.issuperset(jobs)
                reason = f"{_named(jobs)} {'runs' if started else 'no longer needs it'}"
            plan.released.append(Release(name, jobs, reason))
        return plan

    def _hold(self, plan: HoldPlan, item: Mapping[str, Any], account: str) -> None:
        """Hold for as many of a workload's waiting jobs as are decided and do not run."""
        kinds = decided_kinds(item)
        if sum(count for count, limits in kinds if not is_licences(limits)) < _FEWEST_NODES:
            return
        classes = tuple(name for name in item["classes"] if name != LICENCE_CLASS)
        alike = [
            parts
            for parts in self._of_account.get(account, [])
            if classes == parts[0].where
            and (item["together"] == SWITCH) == _is_on_one_switch(parts)
            and _asks_for_types(parts[0], item)
            and sorted(kinds_of(parts, item)) == sorted(kinds)
        ]
        running = [parts for parts in alike if any(job.running for job in parts)]
        pending = [parts for parts in alike if not any(job.running for job in parts)]
        pending.sort(key=lambda parts: self._name(parts) not in self._present)
        left = Pieces(item, kinds)
        busy = [node for parts in running for job in parts for node in job.nodes]
        for node in busy:
            left.take(node)
        full = {node for node in busy if not left.has(node)}
        is_kept = any(self._name(parts) in self._present for parts in pending)
        room = self._room(item, kinds) if is_kept else {}
        for parts in pending[: max(0, item["tasks"] - len(running))]:
            hold = kept = self._kept_hold(parts, left, full)
            if kept is not None and (moved := self._moved(kept, parts, item, room)):
                jobs = tuple(self._cluster.reserved.get(kept.name, ()))
                reason = f"other nodes have room for {_named(kept.jobs)}"
                plan.released.append(Release(kept.name, jobs, reason))
                plan.made.append(moved)
                hold = moved
            if hold is None and self._may_be_held_for(parts):
                hold = self._new_hold(parts, left, item)
                if hold is None:
                    plan.problems.setdefault(item["tenant"], []).append(
                        f"no nodes are held for {_named([job.id for job in parts])}: the decision names"
                        " too few that are in service and not taken by its other jobs"
                    )
                    continue
                plan.made.append(hold)
            if hold is not None:
                plan.waiting.setdefault(item["tenant"], []).append(hold)
                # An agent that was killed may have made a reservation and put no job into it.
                if hold is not kept or any(job.reservation != hold.name for job in parts):
                    plan.entered.append(hold)

    def _may_be_held_for(self, parts: list[Job]) -> bool:
        """Return true if jobs wait for any nodes of their partition.

        A hold whose nodes are gone is deleted in this round, and made again in the next. A job that
        names another reservation waits there. One that names nodes or features might never start on
        those of the decision, which knows neither.
        """
        return (
            self._name(parts) not in self._present
            and all(job.reason.startswith(WAITS_FOR_NODES) or self._is_passed(job) for job in parts)
            and not any(job.reservation or self._cluster.is_restricted(job) for job in parts)
        )

    def _is_passed(self, job: Job) -> bool:
        """Return true if Slurm has not looked at a job long after it could have started it.

        A busy scheduler looks at jobs of low priority rarely, and at parts of a heterogeneous job
        only when it backfills.
        """
        return not job.reason and 0 < job.eligible <= self._cluster.now - LOOKED_AT_SECONDS

    def _kept_hold(self, parts: list[Job], left: Pieces, full: Set[str]) -> Hold | None:
        """Return the present hold of a job if its nodes can still run it.

        A job may start on nodes that are held for another job of its workload. Those are `full`, and the
        nodes that were decided for the first job are free.
        """
        name = self._name(parts)
        there = self._present.get(name)
        if there is None or any(job.reservation not in ("", name) for job in parts):
            return None
        # Jobs that wait for licences may wait for long, and others can use the nodes.
        if any(job.reason.startswith(_LACKS_LICENCES) for job in parts):
            return None
        if any(node not in self._nodes or self._nodes[node].draining for node in there.nodes):
            return None
        if not full.isdisjoint(there.nodes):
            return None
        self._kept.add(there.name)
        for node in there.nodes:
            left.take(node)
        return self._with_neighbours(parts, dict.fromkeys(there.nodes, 0), there.partition)

    def _moved(
        self, kept: Hold, parts: list[Job], item: Mapping[str, Any], room: Mapping[str, list[int]]
    ) -> Hold | None:
        """Return a hold on nodes with room for a job if those of the kept one have none.

        Jobs that run on the nodes of a hold may do so for days. If others that are as good become free
        meanwhile, the job would start there without its reservation.
        """
        # Nodes of several partitions have the label of the first one only.
        within = self._cluster.partitions.get(kept.partition)
        servers = [
            {"name": name, "pieces": pieces, "shared": True}
            for name, pieces in room.items()
            if name in kept.cores or name not in self._reserved
            if within is None or name in within.nodes
        ]
        free = Pieces({**item, "servers": servers}, decided_kinds(item))
        if free.choose(list(kept.cores), item["per_server"] or 0) is not None:
            return None  # Slurm is about to start it
        return self._new_hold(parts, free, item)

    def _room(self, item: Mapping[str, Any], kinds: Sequence[Kind]) -> dict[str, list[int]]:
        """Return the pieces for which nodes like those of the decision have room now.

        Of jobs with pieces of two kinds none have.
        """
        sizes = [dict(limits) for _, limits in kinds if not is_licences(limits)]
        if len(sizes) > 1:
            return {}
        likeness = {
            _likeness(self._nodes[each["name"]])
            for each in item["servers"]
            if each["name"] in self._nodes
        }
        room = {}
        for node in self._cluster.nodes:
            if _likeness(node) in likeness:
                count = self._fitting(node, sizes[0])
                room[node.name] = [0 if is_licences(limits) else count for _, limits in kinds]
        return room

    def _fitting(self, node: Node, size: Mapping[str, int]) -> int:
        """Return how many pieces fit beside the jobs of a node."""
        taken = self._cluster.allocated.get(node.name, {})
        return max(
            0,
            min(
                (units_of(node.capacity, name) - units_of(taken, name)) // most
                for name, most in size.items()
                if most
            ),
        )

    def _new_hold(self, parts: list[Job], left: Pieces, item: Mapping[str, Any]) -> Hold | None:
        up = [node for node in self._cluster.nodes if not node.draining]
        for names in zones_of(up, item["together"]):
            taken = left.choose(names, item["per_server"] or 0)
            if taken is not None:
                cores = {
                    node.name: self._cores(node, taken[node.name], left)
                    for node in up
                    if node.name in taken
                }
                self._reserved.update(cores)
                return self._with_neighbours(parts, cores, self._partition(parts[0], names[0]))
        return None

    def _partition(self, job: Job, node: str) -> str:
        """Return the partition of a job that a node has, its first one if none is known to have it."""
        partitions = job.partition.split(",")
        label = self._nodes[node].labels.get("partition", "")
        return label if label in partitions else partitions[0]

    def _cores(self, node: Node, pieces: Sequence[int], left: Pieces) -> int:
        """Return the cores of pieces, or all of a node that the decision gives to them alone.

        A reservation keeps cores alone: memory and GPUs are safe from others on such a node only.
        """
        threads = self._cluster.threads.get(node.name, 1)
        cpus = left.cpus(pieces)
        if left.has_alone(node.name, pieces):
            cpus = int(node.capacity.get("cpu", cpus))
        return -(-cpus // threads)

    def _with_neighbours(self, parts: list[Job], cores: dict[str, int], partition: str) -> Hold:
        found = {job.id: job.account for node in cores for job in self._on_node.get(node, ())}
        beside = Counter(found.values())
        jobs = tuple(job.id for job in parts)
        account = parts[0].account
        return Hold(
            self._name(parts), account, partition, jobs, cores, dict(sorted(beside.items()))
        )

    def _name(self, parts: list[Job]) -> str:
        return self._cluster.prefix + re.sub(r"[^0-9]+", "-", parts[0].whole or parts[0].id)


def _likeness(node: Node) -> tuple[Any, ...]:
    """Return what is equal for nodes that can replace each other, without their switches."""
    labels = {name: value for name, value in node.labels.items() if name != SWITCH}
    return node.owner, frozenset(node.capacity.items()), frozenset(labels.items())


def _is_on_one_switch(parts: Sequence[Job]) -> bool:
    """Return true if the decision keeps the nodes of jobs on one switch, where no licences are."""
    return parts[0].together == SWITCH and not any(job.licences for job in parts)


def _asks_for_types(job: Job, item: Mapping[str, Any]) -> bool:
    """Return true if a job asks for the types of generic resources in a workload's name.

    Where the pool counts types as resources, the kinds of pieces have them, and the name has none.
    """
    if any(":" in name for name in item["pieces"][0]["limits"]):
        return True
    stated: list[str] = item["workload"].split("/")[1].split(",")[1:]
    return stated == [f"{label}={'+'.join(values)}" for label, values in job.selects]


def _named(jobs: Sequence[str]) -> str:
    return f"job{'s' if len(jobs) > 1 else ''} {', '.join(jobs)}"


def _beside(accounts: Mapping[str, int]) -> tuple[str, ...]:
    counts = [f"{count} of {place_text(account)}" for account, count in accounts.items()]
    return (f"jobs that run there: {', '.join(counts)}",) if counts else ()
