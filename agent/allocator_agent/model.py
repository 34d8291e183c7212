"""The state of a scheduler and the decision for it, in terms that fit every scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from allocator_agent.quantities import Amounts, added

TYPES = "gres."  # begins the labels of servers that name the types of a generic resource
SWITCH = "switch"  # the label of servers that names the switch which they are connected to
LICENCE_PREFIX = "license_"  # begins the names of a pool's resources that are licences
# Label value of the server of licences, for every label by which jobs select servers.
LICENCE_CLASS = "slurm-licenses"


@dataclass(frozen=True)
class Node:
    """A machine with the amounts that jobs may use.

    `draining` is true if it takes no new jobs.
    """

    name: str
    capacity: Amounts
    labels: dict[str, str]
    draining: bool
    owner: str = ""


@dataclass(frozen=True)
class Job:
    """A job that waits or runs.

    `demand` is that of each of its `tasks` (its nodes, its pods), which start together unless the job
    `splits`.
    """

    id: str
    account: str
    demand: Amounts
    running: bool
    tasks: int = 1
    user: str = ""
    partition: str = ""
    where: tuple[str, ...] = ()  # classes of servers it may run on; none: on any
    started: int = 0  # seconds since 1970, to find the youngest
    can_requeue: bool = True
    reservation: str = ""
    association: str = ""  # Slurm's id of the row of accounting whose limits hold for it
    reason: str = ""  # the scheduler's reason why it waits
    whole: str = ""  # what starts together, such as a workload of several pod sets
    splits: bool = False  # whether its tasks start one by one
    nodes: tuple[str, ...] = ()  # where it runs
    per_server: int = 0  # the most of its tasks on one node; 0: any number
    eligible: int = 0  # seconds since 1970 from which on it may start; 0: unknown
    selects: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a label of servers, and its values
    together: str = ""  # a label of servers, of which all of its nodes must have one value
    minimum_run: int | None = None  # seconds that it runs at least; None: as the terms state
    flavors: Mapping[str, str] = field(default_factory=dict)  # Kueue's of each resource it holds
    licences: Amounts = field(default_factory=dict)  # of the whole job, on no node

    @property
    def total(self) -> Amounts:
        return {
            **{name: amount * self.tasks for name, amount in self.demand.items()},
            **self.licences,
        }


def started_together(jobs: Iterable[Job]) -> list[list[Job]]:
    """Return jobs in lists that start together, the parts of one `whole` in one of them."""
    wholes: dict[str, list[Job]] = {}
    found: list[list[Job]] = []
    for job in jobs:
        parts = wholes.get(job.whole) if job.whole else None
        if parts is None:
            parts = []
            found.append(parts)
            if job.whole:
                wholes[job.whole] = parts
        parts.append(job)
    return found


def all_licences(parts: Iterable[Job]) -> Amounts:
    """Return the licences of jobs that start together."""
    found: Amounts = {}
    for job in parts:
        found = added(found, job.licences)
    return found


@dataclass(frozen=True)
class Usage:
    """A job that has ended, with the amounts that it held and its start and end."""

    id: str
    account: str
    amounts: Amounts
    start: str
    end: str


@dataclass(frozen=True)
class Observation:
    """State of a scheduler at one moment.

    `parents` are the accounts that have accounts below them. They are not in `accounts`: a limit on a
    parent holds for all of its children, so it can never be a tenant's own. `exempt` are accounts, and
    users of accounts, that the configuration names as not of the pool. `joining` become members in this
    round. `licences` are those that the cluster can give to jobs.
    """

    nodes: list[Node]
    jobs: list[Job]
    accounts: frozenset[str]
    problems: list[str] = field(default_factory=list)
    parents: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)  # facts for dry runs and the log, no problems
    exempt: frozenset[str] = frozenset()
    joining: frozenset[str] = frozenset()
    licences: Amounts = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """Jobs that start together and wait for servers that are held for them.

    `beside` are the accounts whose jobs still run there, with the number of their jobs.
    """

    jobs: tuple[str, ...]
    servers: tuple[str, ...]
    beside: dict[str, int]


@dataclass(frozen=True)
class Terms:
    """The terms of a pool under which running jobs above the decision end.

    No job ends before it has run for `minimum_run_seconds`, or that of its workload in `workloads`, by
    tenant and name, and none without `notice_seconds` of notice. At most `churn` tasks end in each
    interval; None is any number.
    """

    minimum_run_seconds: int = 0
    notice_seconds: int = 0
    churn: int | None = None
    interval_seconds: int = 60
    workloads: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Rendering:
    """A decision as the service renders it for one kind of scheduler."""

    run: str
    generation: int
    tenants: list[dict[str, Any]]
    objects: list[dict[str, Any]]
    terms: Terms = field(default_factory=Terms)
    reports_ends: bool = False  # whether the service takes reports of jobs that end
    next_boundary: datetime | None = None
