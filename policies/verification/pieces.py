"""Pieces of tasks as the verifier reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Pieces:
    """Kinds of pieces, one of each workload in order and then the second ones of gangs.

    Attributes:
        owner: (q,) whose they are; count: (q,) how many one task has; demand: (q, m) of one.
        several: kinds of the workloads with a gang, as it lists them.
        values: (k,) number of each row's value of a label that keeps pieces together, by label; -1 for
            rows without the label.
    """

    owner: IntArray
    count: IntArray
    demand: FloatArray
    several: dict[int, list[int]]
    values: dict[str, IntArray]

    @classmethod
    def stated(cls, problem: Problem) -> Pieces:
        """Return the pieces of a problem's tasks."""
        every = np.arange(problem.n)
        if not problem.gangs:
            return cls(every, np.ones(problem.n, dtype=np.int64), problem.demand, {}, {})
        owner, count, demand = every.tolist(), [1] * problem.n, list(problem.demand)
        several: dict[int, list[int]] = {}
        for j in sorted(problem.gangs):
            counts, rows = problem.gangs[j].count.tolist(), problem.gangs[j].demand
            count[j], demand[j], several[j] = counts[0], rows[0], [j]
            for more, row in zip(counts[1:], rows[1:], strict=True):
                several[j].append(len(owner))
                owner.append(j)
                count.append(more)
                demand.append(row)
        return cls(np.array(owner), np.array(count), np.array(demand), several, _values(problem))

    def of(self, workload: int) -> list[int]:
        """Return the kinds of a workload."""
        return self.several.get(workload, [workload])


def _values(problem: Problem) -> dict[str, IntArray]:
    """Return the number (k,) of each row's value of a label that keeps pieces together, by label.

    A value is of one cluster, which the label `cluster` names.
    """
    none = np.full(problem.k, -1, dtype=np.int64)
    values = {gang.together: none for gang in problem.gangs.values() if gang.together}
    numbers: dict[str, dict[tuple[str, str], int]] = {}
    for row, labels in enumerate(problem.server_labels):
        for label in values.keys() & labels.keys():
            if values[label] is none:
                values[label], numbers[label] = none.copy(), {}
            number = numbers[label]
            value = (labels.get("cluster", ""), labels[label])
            values[label][row] = number.setdefault(value, len(number))
    return values
