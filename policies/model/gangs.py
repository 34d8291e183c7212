"""Tasks of several pieces, each of which runs on one server.

Source: docs/policies/gangs.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np

from policies.arrays import FloatArray, IntArray, read_only
from policies.errors import ProblemError

CLUSTER = "cluster"  # the label of servers that names their scheduler's cluster
MOST_KINDS = 2
# A task is placed in one step, between two looks at the clock.
MOST_PIECES = 10_000


@dataclass(frozen=True, eq=False)
class Gang:
    """Pieces of one task of a workload, which all run or none, and how its tasks start.

    Attributes
    ----------
    count : (c,) int array
        Number of pieces of each kind.
    demand : (c, m) float array
        Demand of one piece of each kind.
    per_server : int
        Most pieces of one task on one server; 0 for any number.
    together : str
        Label of servers. All pieces of a task run on servers with the same value of it, and of the
        label `cluster` if they have it; the empty string for any servers.
    at_least : int
        Number of tasks that start at once, if none runs. Later tasks start one by one.

    Examples
    --------
    Two jobs of 3 pieces with 8 GPUs each, beside single tasks, on 4 servers of 8 GPUs:

    >>> import numpy as np
    >>> from policies import Gang, Problem, solve
    >>> problem = Problem.create(resources=["gpu"], capacity=[[8]], server_count=[4],
    ...     tenants=["mpi", "solo"], demand=[[24], [1]], tasks=[2, 40],
    ...     gangs={0: Gang(np.array([3]), np.array([[8.0]]))})
    >>> solve(problem, "drfh", mode="indivisible").tasks.tolist()
    [1.0, 8.0]
    """

    count: IntArray
    demand: FloatArray
    per_server: int = 0
    together: str = ""
    at_least: int = 1

    def equals(self, other: Gang) -> bool:
        """Return whether the pieces of another gang and how its tasks start are equal."""
        return (
            (self.per_server, self.together, self.at_least)
            == (other.per_server, other.together, other.at_least)
            and np.array_equal(self.count, other.count)
            and np.array_equal(self.demand, other.demand)
        )

    @cached_property
    def total(self) -> FloatArray:
        """Demand (m,) of one task, the sum of the decimals that are written."""
        # Floats would add up to another number than the one that a document states as the demand.
        kinds = list(zip(self.count.tolist(), self.demand.tolist(), strict=True))
        sums = [
            sum((Decimal(repr(demand[r])) * count for count, demand in kinds), Decimal(0))
            for r in range(self.demand.shape[1])
        ]
        return np.array([float(each) for each in sums])


def gangs_equal(gangs: Mapping[int, Gang], others: Mapping[int, Gang]) -> bool:
    """Return whether two problems have equal gangs of the same workloads."""
    return gangs.keys() == others.keys() and all(
        gang.equals(others[j]) for j, gang in gangs.items()
    )


@dataclass(frozen=True, eq=False)
class Pieces:
    """Kinds of pieces of all workloads.

    The first kind of each workload has the index of the workload. Second kinds follow.

    Attributes:
        workload: (q,) whose piece it is; count: (q,) pieces of one task.
        demand: (q, m) of one piece.
        second: (n,) index of the second kind of each workload, -1 if it has one kind only.
    """

    workload: IntArray
    count: IntArray
    demand: FloatArray
    second: IntArray

    @classmethod
    def of(cls, demand: FloatArray, gangs: Mapping[int, Gang]) -> Pieces:
        """Return the kinds of workloads, of which those without a gang have tasks of one piece."""
        n = len(demand)
        count, rows = np.ones(n, dtype=np.int64), demand
        second = np.full(n, -1, dtype=np.int64)
        # Sorted, so that the order of the mapping does not number the pieces.
        both = [j for j, gang in sorted(gangs.items()) if len(gang.count) > 1]
        if gangs:
            rows = demand.copy()
            for j, gang in gangs.items():
                rows[j], count[j] = gang.demand[0], gang.count[0]
            more = [gangs[j] for j in both]
            rows = np.concatenate([rows, *(gang.demand[1:] for gang in more)])
            count = np.concatenate([count, *(gang.count[1:] for gang in more)])
            second[both] = np.arange(n, len(rows))
        workload = np.concatenate([np.arange(n), np.array(both, dtype=np.int64)])
        return cls(read_only(workload), read_only(count), read_only(rows), read_only(second))

    def kinds_of(self, workloads: IntArray) -> IntArray:
        """Return the first kinds of workloads in their order, then the second ones."""
        second = self.second[workloads]
        return np.concatenate([workloads, second[second >= 0]])

    def kinds(self, workload: int) -> tuple[int, ...]:
        """Return the kinds of a workload in the order of its gang."""
        second = int(self.second[workload])
        return (workload,) if second < 0 else (workload, second)


def zones_of(
    gangs: Mapping[int, Gang], server_labels: Sequence[Mapping[str, str]]
) -> dict[str, IntArray]:
    """Return the number (k,) of each row's value of a label that keeps pieces together, by label.

    Rows without the label have -1. The empty string stands for no label; every row has 0. Labels that
    no row has share one array, so that naming many of them costs nothing. One value in two clusters is
    two: no scheduler starts a gang in another one's cluster.
    """
    used = sorted({gang.together for gang in gangs.values()})
    zones = dict.fromkeys(used, read_only(np.full(len(server_labels), -1, dtype=np.int64)))
    rows: dict[str, list[int]] = {}
    for row, labels in enumerate(server_labels):
        for label in labels.keys() & zones.keys():
            rows.setdefault(label, []).append(row)
    for label, having in rows.items():
        values: dict[tuple[str | None, str], int] = {}
        zone = np.full(len(server_labels), -1, dtype=np.int64)
        zone[having] = [
            values.setdefault(
                (server_labels[row].get(CLUSTER), server_labels[row][label]), len(values)
            )
            for row in having
        ]
        zones[label] = read_only(zone)
    if "" in zones:
        zones[""] = read_only(np.zeros(len(server_labels), dtype=np.int64))
    return zones


def check_gangs(gangs: Mapping[int, Gang], workloads: int, resources: int) -> None:
    """Raise ProblemError for the first gang that cannot be accepted."""
    for j, gang in gangs.items():
        pointer = f"/workloads/{j}"
        if not 0 <= j < workloads:
            raise ProblemError(
                "workload.pieces",
                f"gang of workload {j}: there are {workloads} workloads",
                "/workloads",
            )
        kinds = len(gang.count)
        if not 1 <= kinds <= MOST_KINDS or gang.demand.shape != (kinds, resources):
            raise ProblemError(
                "workload.pieces",
                f"workload {j}: {kinds} kinds of pieces with demands of shape {gang.demand.shape}; "
                f"a task has 1 or {MOST_KINDS} kinds, each with {resources} demands",
                f"{pointer}/pieces",
            )
        if (gang.count < 1).any() or int(gang.count.sum()) * gang.at_least > MOST_PIECES:
            raise ProblemError(
                "workload.pieces",
                f"workload {j}: {gang.count.tolist()} pieces and at_least {gang.at_least}; each kind "
                f"must have at least 1 piece, and at most {MOST_PIECES:,} pieces start at once",
                f"{pointer}/pieces",
            )
        bad = ~((gang.demand >= 0) & np.isfinite(gang.demand))
        if bad.any() or (gang.demand.max(axis=1, initial=0.0) <= 0).any():
            raise ProblemError(
                "workload.pieces",
                f"workload {j}: pieces demand {gang.demand.tolist()}; each piece must demand at least "
                "one resource, and no demand is below 0",
                f"{pointer}/pieces",
            )
        if gang.per_server < 0:
            raise ProblemError(
                "workload.per_server",
                f"workload {j}: per_server is {gang.per_server}; it must be a whole number, 1 or more",
                f"{pointer}/per_server",
            )
        if gang.at_least < 1:
            raise ProblemError(
                "workload.at_least",
                f"workload {j}: at_least is {gang.at_least}; it must be a whole number, 1 or more",
                f"{pointer}/at_least",
            )
