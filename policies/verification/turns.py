"""The order of turns, by shares or by use over time.

Measures that differ by no more than the one stated tolerance are equal; the tie goes to the next
measure, and at last to the first tenant by position.

Sources: Ghodsi et al., NSDI 2011, Algorithm 1; Tang et al., TPDS 2018, §5 and Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.model.policy import HandOut
from policies.model.tolerance import DISCRETE_TOLERANCE


def first_of_least(values: FloatArray, ties: FloatArray | None = None) -> int:
    """Return the first position of the least value, of which ties go to the least of ``ties``."""
    some = np.flatnonzero(values <= values.min() * (1 + DISCRETE_TOLERANCE))
    if ties is None or len(some) == 1:
        return int(some[0])
    second = ties[some]
    # The tolerance of ties is the optimiser's: sums in another order differ in the last bits.
    return int(some[(second <= second.min() * (1 + DISCRETE_TOLERANCE)).argmax()])


def next_of(keys: FloatArray) -> int:
    """Return the position of the next tenant, by (3, c) sharing degrees, levels and tie-breakers."""
    degree, level, ties = keys
    if degree.min() < 1 - DISCRETE_TOLERANCE:
        return first_of_least(degree, level)
    return first_of_least(level, ties)


@dataclass(eq=False)
class ByShare:
    """The tenant with the least weighted share is next.

    Attributes:
        weight: (t,); each: (n,) what one task adds to its tenant's share.
        gain: (n, r) what groups are measured by: the share of each resource that one task uses, or
            what it adds to its tenant's share where these add up.
        level: (t,) weighted share of tenants whose turn may come; inf for the others.
    """

    weight: FloatArray
    each: FloatArray
    gain: FloatArray
    level: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.level = np.full(len(self.weight), np.inf)
        self._sum = np.zeros(len(self.weight))
        self.used = np.zeros((len(self.weight), self.gain.shape[1]))
        self.alone = np.zeros_like(self.used)

    def start(self, owner: IntArray, jobs: IntArray, counted: FloatArray) -> None:
        """Begin with tasks that run already.

        Args:
            owner: (n,) tenant of each workload; jobs: (L,) workload of each task.
            counted: (t,) share that counts for each tenant beside its own tasks.
        """
        np.add.at(self.used, owner[jobs], self.gain[jobs])
        np.add.at(self._sum, owner[jobs], self.each[jobs])
        self._sum += counted

    def enter(self, tenant: int) -> None:
        """Let a tenant take turns."""
        self.level[tenant] = self._sum[tenant] / self.weight[tenant]

    def leave(self, tenant: int) -> None:
        """Take out a tenant with nothing more to launch."""
        self.level[tenant] = np.inf

    def next(self) -> int:
        """Return the tenant that is next."""
        return first_of_least(self.level)

    def launched(self, tenant: int, job: int) -> None:
        """Count one more task of a workload."""
        self._sum[tenant] += self.each[job]
        self.level[tenant] = self._sum[tenant] / self.weight[tenant]

    def may_go_on(self, tenant: int) -> bool:
        """Return whether only missing room can stop the tenant."""
        return bool(self.level[tenant] < np.inf)

    def keys(self, tenant: int) -> tuple[float, float, float]:
        """Return the measures that order a tenant among its siblings."""
        return 1.0, float(self.level[tenant]), 0.0

    def measure(
        self,
        used: FloatArray,
        alone: FloatArray,  # noqa: ARG002 - as of ByHistory
        weight: float,
    ) -> tuple[float, float, float]:
        """Return the measures of a group.

        Its level is the largest share of any resource that its tenants use together, or the sum of
        their shares.
        """
        return 1.0, float(used.max(initial=0.0)) / weight, 0.0


@dataclass(eq=False)
class ByHistory:
    """Turns by past use.

    What is handed out counts at once.

    Attributes:
        hand_out: by accumulated dominant share, by the aggregate, or by the sharing degree first.
        weight: (t,); unit: (m,) one unit of a resource as a share of the pool.
        used, alone, borrow: (t, m) resource × time: used so far; alone, this step included; beyond
            which a tenant is handed nothing more. gain: (n, m) of one task.
        level: (t,) the measure that orders tenants whose turn may come; inf for the others.
    """

    hand_out: HandOut
    weight: FloatArray
    unit: FloatArray
    used: FloatArray
    alone: FloatArray
    borrow: FloatArray
    gain: FloatArray
    level: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        tenants = len(self.weight)
        self.level = np.full(tenants, np.inf)
        self._degree = np.full(tenants, np.inf)
        self._ties = np.zeros(tenants)
        self.used = self.used.copy()

    def start(self, owner: IntArray, jobs: IntArray) -> None:
        """Add tasks (L,) that run already to the shares.

        ``owner`` has the tenant of each workload.
        """
        np.add.at(self.used, owner[jobs], self.gain[jobs])

    def enter(self, tenant: int) -> None:
        """Let a tenant take turns."""
        self._degree[tenant], self.level[tenant], self._ties[tenant] = self.measure(
            self.used[tenant], self.alone[tenant], float(self.weight[tenant])
        )

    def leave(self, tenant: int) -> None:
        """Take out a tenant with nothing more to launch."""
        self.level[tenant] = self._degree[tenant] = np.inf

    def next(self) -> int:
        """Return the tenant that is next."""
        return next_of(np.stack([self._degree, self.level, self._ties]))

    def launched(self, tenant: int, job: int) -> None:
        """Count one more task of a workload."""
        self.used[tenant] += self.gain[job]
        self.enter(tenant)

    def may_go_on(self, tenant: int) -> bool:
        """Return whether only missing room can stop the tenant."""
        return bool((self.used[tenant] <= self.borrow[tenant]).all())

    def keys(self, tenant: int) -> tuple[float, float, float]:
        """Return the measures that order a tenant among its siblings."""
        return float(self._degree[tenant]), float(self.level[tenant]), float(self._ties[tenant])

    def measure(
        self, used: FloatArray, alone: FloatArray, weight: float
    ) -> tuple[float, float, float]:
        """Return sharing degree, measure and tie-breaker of a tenant or a group."""
        share = used * self.unit
        aggregate = float(share.sum()) / weight
        dominant = float(share.max(initial=0.0)) / weight
        by_degree = self.hand_out is HandOut.LEAST_SHARING_DEGREE
        by_dominant = self.hand_out is HandOut.LEAST_ACCUMULATED_DOMINANT
        degree, some = 1.0, alone > 0
        if by_degree and some.any():
            degree = min(1.0, float((used[some] / alone[some]).min()))
        return (
            degree,
            dominant if by_dominant else aggregate,
            dominant if by_degree else aggregate,
        )
