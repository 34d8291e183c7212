"""Check of the order of slots, with the fewest tasks started and stopped over the cyclic period.

Held and Karp's dynamic programme over sets of slots gives the fewest. It is exact and limited to 12
slots. Beyond, and where a solver had no time, a schedule states that its order is not proven.

Source: Held, Karp, "A dynamic programming approach to sequencing problems", 1962.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.model.schedule import Schedule
from policies.model.tolerance import AGREEMENT
from policies.verification.checks import Check

MOST_PROVEN = 12


def check_order(
    schedule: Schedule, on_server: Sequence[IntArray], repays: FloatArray | None
) -> Iterator[Check]:
    """Check that no other order moves fewer tasks, and that the first slot repays most.

    Args:
        on_server: (s) tasks of each slot on each server.
        repays: (s,) what each slot gives to tenants with deficits; None without any.
    """
    detail = "no other order of the slots starts and stops fewer tasks over the period"
    size, excess = len(on_server), 0.0
    if not schedule.order_proven:
        detail = "the order of the slots is stated to be open"
    elif size > MOST_PROVEN:
        excess, detail = np.inf, f"the order of more than {MOST_PROVEN} slots cannot be proven"
    elif size > 3:  # all orders of fewer slots have the same neighbours
        moved = _moved(on_server)
        stated = float(moved[np.arange(size), np.roll(np.arange(size), -1)].sum())
        excess = stated - _fewest(moved)
    yield Check("slots_in_order", excess <= 0, detail, excess)
    if repays is not None:
        short = float(repays.max() - repays[0])
        holds = short <= AGREEMENT * float(np.abs(repays).max())
        detail = "the period begins with the slot that gives most to the largest deficits"
        yield Check("first_slot", holds, detail, short)


def _moved(on_server: Sequence[IntArray]) -> FloatArray:
    """Return the tasks (s, s) that start or stop between two slots."""
    size = len(on_server)
    moved = np.zeros((size, size))
    for a in range(size):
        for b in range(a):
            moved[a, b] = moved[b, a] = float(np.abs(on_server[a] - on_server[b]).sum())
    return moved


def _fewest(moved: FloatArray) -> float:
    """Return the least sum over cyclic orders of all slots."""
    others = len(moved) - 1
    between = moved[1:, 1:]
    # fewest[seen, last]: from slot 0 through the set ``seen`` of other slots, ``last`` the last of them.
    fewest = np.full((1 << others, others), np.inf)
    fewest[1 << np.arange(others), np.arange(others)] = moved[0, 1:]
    for seen in range(1, 1 << others):
        ahead = np.array([slot for slot in range(others) if not seen >> slot & 1], dtype=np.int64)
        if len(ahead):
            reached = (fewest[seen][:, None] + between[:, ahead]).min(axis=0)
            after = seen | 1 << ahead
            fewest[after, ahead] = np.minimum(fewest[after, ahead], reached)
    return float((fewest[-1] + moved[1:, 0]).min())
