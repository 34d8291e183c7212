"""The fields of a problem: servers, tenants and their workloads as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from policies.arrays import BoolArray, FloatArray, IntArray

WeightsMode = Literal["explicit", "contribution"]
Selector = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Limit:
    """Ceiling on what everything below a node gets together, on the servers that match.

    Attributes
    ----------
    scope : {"group", "tenant", "workload"}
        Kind of the node.
    node : int
        Index of the group, tenant or workload.
    amount : (m,) float array
        Amount of each resource, in its own unit; inf for a resource without a limit.
    where : mapping
        Selector of servers; an empty selector matches every server.

    Examples
    --------
    At most 4 GPUs for all tenants of the group ``ml``:

    >>> import numpy as np
    >>> from policies import Limit, Problem, solve
    >>> problem = Problem.create(resources=["cpu", "gpu"], capacity=[[64, 8]], tenants=["A", "B"],
    ...     demand=[[4, 1], [8, 0]], groups=["ml"], tenant_group=[0, -1],
    ...     limits=[Limit("group", 0, np.array([np.inf, 4.0]))])
    >>> solve(problem, "drfh").tasks.round(6).tolist()
    [4.0, 6.0]
    """

    scope: Literal["group", "tenant", "workload"]
    node: int
    amount: FloatArray
    where: Selector = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProblemFields:
    """What an allocation problem is made of; rows and columns are checked by ``validation``.

    Attributes:
        resources: names of the ``m`` resources.
        units: (m) their units, for display.
        server_names: names of the ``k`` rows.
        capacity: (k, m) of *one* server of the row, in the resource's own unit.
        server_count: (k,) identical servers in the row, at least 1.
        server_labels: (k) labels that selectors match.
        contributed_by: (k,) tenant index, or -1 for the pool's own.
        contributed_only: (k,) the row counts as contributed but offers no capacity
            (a draining server).
        tenants: names of the ``t`` tenants.
        weight: (t,) explicit weight, or the factor on the contributed share; > 0.
        best_effort: (t,) served after everybody else is frozen.
        tenant_group: (t,) group that the tenant belongs to, or -1 for the pool itself.
        tenant_tier: (t,) order among siblings: a lower tier goes first.
        groups: names of the ``g`` groups.
        group_parent: (g,) group that the group belongs to, or -1 for the pool itself.
        group_weight: (g,) explicit weight, or the factor on what its tenants contributed; > 0.
        group_tier: (g,) order among siblings: a lower tier goes first.
        deficit: (t,) dominant share × periods that the tenant lacks after a period that was cut
            short; a surplus is below 0. Only ``tda`` takes other values than 0.
        weights_mode: how weights come about (see :attr:`effective_weight`).
        workload_tenant: (n,) index of the owner.
        workload_names: names of the ``n`` workloads, unique per tenant.
        demand: (n, m) of one task, same units as ``capacity``.
        tasks: (n,) tasks that can run at once, whole; ``inf`` is unbounded.
        priority: (n,) higher first, where several answers give the same shares.
        selectors: (n) allowed values per label; an empty selector allows every server.
        limits: amounts that nodes may not exceed.
    """

    resources: tuple[str, ...]
    units: tuple[str, ...]
    server_names: tuple[str, ...]
    capacity: FloatArray
    server_count: IntArray
    server_labels: tuple[Mapping[str, str], ...]
    contributed_by: IntArray
    contributed_only: BoolArray
    tenants: tuple[str, ...]
    weight: FloatArray
    best_effort: BoolArray
    tenant_group: IntArray
    tenant_tier: IntArray
    groups: tuple[str, ...]
    group_parent: IntArray
    group_weight: FloatArray
    group_tier: IntArray
    deficit: FloatArray
    weights_mode: WeightsMode
    workload_tenant: IntArray
    workload_names: tuple[str, ...]
    demand: FloatArray
    tasks: FloatArray
    priority: IntArray
    selectors: tuple[Selector, ...]
    limits: tuple[Limit, ...] = ()

    @property
    def n(self) -> int:
        """Number of workloads."""
        return len(self.workload_names)

    @property
    def k(self) -> int:
        """Number of server rows."""
        return len(self.server_names)

    @property
    def m(self) -> int:
        """Number of resources."""
        return len(self.resources)

    @property
    def t(self) -> int:
        """Number of tenants."""
        return len(self.tenants)
