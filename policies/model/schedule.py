"""Schedules of whole tasks over the slots of a period.

Source: the TDA thesis (2015), §3.2: the period is divided into slots, and in every slot one
allocation of whole tasks is in force.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SlotPlacement:
    """Placements of the tasks of one slot.

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

    Attributes
    ----------
    fraction : (s,) float array
        Part of the period that each slot takes; they add up to 1.
    tasks : (s, n) int array
        Whole tasks of each workload.
    placements : tuple of SlotPlacement or None
        One per slot; None where the pool counts as one server.
    objective : float
        Least average weighted share of the tenants served first that want more; NaN without any.
    bound : float
        Level of the same pool with divisible tasks.
    lp_bound : float
        Proven upper bound on the objective of every schedule.
    gap : float
        ``(lp_bound - objective) / lp_bound``.
    order_proven : bool
        Whether no other order of the slots moves fewer tasks over the cyclic period. False where
        there was no time to find the best order, or there are too many slots to prove it.
    repaid : (t,) float array or None
        Part of each tenant's deficit that its average share repays, compared with the schedule
        without deficits. None without deficits, or where there was no time for the comparison. Not
        part of documents.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Schedule
    >>> schedule = Schedule(fraction=np.array([0.25, 0.75]), tasks=np.array([[3, 2], [2, 3]]),
    ...     placements=None, objective=0.6, bound=0.7, lp_bound=0.6, gap=0.0)
    >>> (schedule.fraction @ schedule.tasks).tolist()
    [2.25, 2.75]
    """

    fraction: FloatArray
    tasks: IntArray
    placements: tuple[SlotPlacement, ...] | None
    objective: float
    bound: float
    lp_bound: float
    gap: float
    order_proven: bool = True
    repaid: FloatArray | None = None
