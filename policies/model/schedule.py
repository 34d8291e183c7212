"""Schedules: which whole tasks run in which part of a period, and on the clock.

Source: the TDA thesis (2015), §3.2: the period is divided into slots, and in every slot one
allocation of whole tasks is in force.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SlotPlacement:
    """Where the tasks of one slot run.

    Attributes:
        workload: (p,) index of the workload; server: (p,) position among the servers that
            offer something, counted row by row; tasks: (p,) whole tasks there.
    """

    workload: IntArray
    server: IntArray
    tasks: IntArray


@dataclass(frozen=True, eq=False)
class Schedule:
    """Slots in the order in which they follow each other, cyclically.

    Attributes:
        fraction: (s,) of the period that each slot takes; they add up to 1.
        tasks: (s, n) whole tasks of each workload.
        placements: one per slot, or None where the pool counts as one server.
        objective: least average weighted share of tenants served first that want more; NaN
            where nobody does.
        bound: the level of the same pool with divisible tasks; lp_bound: proven upper bound
            on the objective of every schedule; gap: (lp_bound - objective) / lp_bound.
        repaid: (t,) what each tenant's average share has of what it is owed, between 0 and that:
            compared with the schedule that owes nobody anything. None where nothing is owed, or where
            there was no time for the comparison. Not part of documents.
    """

    fraction: FloatArray
    tasks: IntArray
    placements: tuple[SlotPlacement, ...] | None
    objective: float
    bound: float
    lp_bound: float
    gap: float
    repaid: FloatArray | None = None
