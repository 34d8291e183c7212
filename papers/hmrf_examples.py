"""Small examples of H-MRF, step by step (Table 1 and Figs 3 to 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from papers.arrays import FloatArray
from papers.finding import Finding, Row
from papers.words import numbers, word_for_word
from policies import Allocation, History, Problem, policy_named, solve

Vectors = Sequence[tuple[float, ...]]
CAPACITY = (100.0, 100.0)

# Example 3: demands of A and B, new tasks of both at each time; then Table 1 as printed: tasks waiting
# and tasks running at each time without memory (a) and with it (b).
EXAMPLE_3_DEMAND = ((1.0, 4.0), (4.0, 1.0))
EXAMPLE_3_NEW = ((30, 4), (20, 24), (27, 8), (10, 30))
TABLE_1A = ((30, 4), (26, 24), (33, 12), (21, 30)), ((24, 4), (20, 20), (22, 12), (20, 20))
TABLE_1B = ((30, 4), (26, 24), (49, 8), (36, 30)), ((24, 4), (4, 24), (23, 8), (8, 23))
TABLE_1 = {"drf": TABLE_1A, "asset": TABLE_1A, "h-mrf": TABLE_1B}

EXAMPLE_4_DEMAND = ((1.0, 2.0), (1.0, 1.0))
EXAMPLE_4_NEW = ((15, 80), (60, 40))


@dataclass(frozen=True, eq=False)
class Step:
    """One time of an example.

    Attributes:
        pending: (t,) tasks that each user wants to run; answer: what it was given.
    """

    pending: FloatArray
    answer: Allocation

    @property
    def history(self) -> History:
        """Of a long-term policy, after this step."""
        if self.answer.history is None:
            raise ValueError(f"{self.answer.policy.name} has no history")
        return self.answer.history


def steps_of(
    policy: str,
    demand: Vectors,
    new: Vectors,
    *,
    capacity: tuple[float, float] = CAPACITY,
    unserved_wait: bool,
) -> list[Step]:
    """Hand out whole tasks of one pool at each time, for a step of length 1.

    Args:
        policy: its name.
        demand: (t, 2) of one task of each user; new: (s, t) tasks that arrive at each time.
        unserved_wait: do tasks that were not served wait for the next time, or are they dropped?
    """
    long_term = policy_named(policy).long_term
    history: History | None = None
    waiting = np.zeros(len(demand))
    found = []
    for arrived in new:
        pending = waiting + np.array(arrived, dtype=np.float64)
        problem = Problem.create(
            resources=("cpu", "memory"),
            capacity=[capacity],
            # Letters, as the paper names its users.
            tenants=[chr(ord("A") + i) for i in range(len(demand))],
            demand=demand,
            tasks=pending,
        )
        answer = solve(
            problem,
            policy,
            mode="indivisible",
            # The examples have one pool, and the default of long-term policies places on servers.
            options={"placement": "pool"} if long_term else {},
            history=history,
        )
        history = answer.history
        waiting = pending - answer.tasks if unserved_wait else np.zeros(len(demand))
        found.append(Step(pending, answer))
    return found


def reproduce_table_1() -> Finding:
    """Example 3 without memory and with it."""
    rows = []
    for policy, (waiting, running) in TABLE_1.items():
        steps = steps_of(policy, EXAMPLE_3_DEMAND, EXAMPLE_3_NEW, unserved_wait=True)
        for time, (step, wait, run) in enumerate(zip(steps, waiting, running, strict=True), 1):
            rows.append(Row(f"{policy}, t{time}: total tasks of A and B", numbers(wait),
                            numbers(step.pending)))  # fmt: skip
            rows.append(Row(f"{policy}, t{time}: running tasks of A and B", numbers(run),
                            numbers(step.answer.tasks)))  # fmt: skip
        given = np.sum([step.answer.tasks for step in steps], axis=0)
        rows.append(Row(f"{policy}: tasks of A and B in all", numbers(np.sum(running, axis=0)),
                        numbers(given)))  # fmt: skip
    verdict, differences = word_for_word(rows)
    return Finding(
        name="h-mrf-table1",
        title="Fairness without memory and in the long term",
        source="Tang et al., TPDS 2018, Table 1",
        setting="One pool of 100 CPUs and 100 GB; tasks of A need 1 CPU and 4 GB, of B 4 CPUs and 1 GB; "
        "unserved tasks wait. Part (a) by `drf` and `asset`, part (b) by `h-mrf`, with whole tasks.",
        rows=tuple(rows),
        differences=differences,
        verdict=verdict,
    )


def reproduce_example_4() -> Finding:
    """Return the finding of Figs 3 to 5, Example 4 under LT-DRF, LT-AF and H-MRF."""
    rows = []
    printed = {
        "lt-drf": ("15, 70", "35, 30"),
        "lt-af": ("15, 70", "42, 16"),
        "h-mrf": ("15, 70", "40, 20"),
    }
    for policy, tasks in printed.items():
        first, second = steps_of(policy, EXAMPLE_4_DEMAND, EXAMPLE_4_NEW, unserved_wait=False)
        for time, (step, number) in enumerate(zip((first, second), tasks, strict=True), 1):
            rows.append(Row(f"{policy}, t{time}: tasks of A and B", number,
                            numbers(step.answer.tasks)))  # fmt: skip
        # The paper prints for each policy the measure by which it orders users.
        if policy == "lt-drf":
            for time, step, number in ((1, first, "30, 70"), (2, second, "100, 100")):
                rows.append(Row(f"lt-drf, t{time}: accumulated dominant shares, per cent", number,
                                numbers(step.history.used.max(axis=1))))  # fmt: skip
            continue
        sums = {"lt-af": ("45, 140", "171, 172"), "h-mrf": ("45, 140", "165, 180")}[policy]
        for time, (step, number) in enumerate(zip((first, second), sums, strict=True), 1):
            rows.append(Row(f"{policy}, t{time}: aggregates", number,
                            numbers(step.history.used.sum(axis=1))))  # fmt: skip
        if policy == "h-mrf":
            for time, step, number in ((1, first, "1, 1.4"), (2, second, "1.375, 1")):
                rows.append(Row(f"h-mrf, t{time}: sharing degrees", number,
                                numbers(step.history.sharing_degree)))  # fmt: skip
    verdict, differences = word_for_word(rows)
    return Finding(
        name="h-mrf-fig3",
        title="Example 4 under LT-DRF, LT-AF and H-MRF",
        source="Tang et al., TPDS 2018, Figs 3 to 5",
        setting="One pool of 100 CPUs and 100 GB; tasks of A need 1 CPU and 2 GB, of B 1 CPU and 1 GB; "
        "15 and 80 tasks at t1, 60 and 40 at t2; unserved tasks are dropped.",
        rows=tuple(rows),
        differences=differences,
        verdict=verdict,
    )
