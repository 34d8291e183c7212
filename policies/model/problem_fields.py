"""Fields of a problem, with servers, tenants and workloads as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.current_placements import CurrentPlacements
from policies.model.gangs import Gang

WeightsMode = Literal["explicit", "contribution"]
Selector = Mapping[str, tuple[str, ...]]


Floors = Literal["", "raised", "kept"]


@dataclass(frozen=True, eq=False)
class Limit:
    """Ceiling on what everything below a node gets together, on the servers that match.

    Attributes
    ----------
    scope : {"group", "tenant", "workload", "lend"}
        Kind of the node. ``lend`` limits what all tenants but one get together on the servers
        that the tenant contributed.
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

    scope: Literal["group", "tenant", "workload", "lend"]
    node: int
    amount: FloatArray
    where: Selector = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Guarantee:
    """Amount that everything below a node can always have, on the servers that match.

    Each workload below the node has a *floor*: what it gets by the same policy in a pool that is one
    server of this amount. Floors are handed out before everything else.

    Attributes
    ----------
    scope : {"group", "tenant"}
        Kind of the node.
    node : int
        Index of the group or tenant.
    amount : (m,) float array
        Amount of each resource, in its own unit; inf for a resource that is not named.
    where : mapping
        Selector of servers; an empty selector matches every server.

    Examples
    --------
    At least 40 of 100 GPUs for ``A``; ``B`` and ``C`` have equal shares of the others:

    >>> import numpy as np
    >>> from policies import Guarantee, Problem, solve
    >>> problem = Problem.create(resources=["gpu"], capacity=[[100]], tenants=["A", "B", "C"],
    ...     demand=[[1], [1], [1]], guarantees=[Guarantee("tenant", 0, np.array([40.0]))])
    >>> solve(problem, "drfh").tasks.round(6).tolist()
    [40.0, 30.0, 30.0]
    """

    scope: Literal["group", "tenant"]
    node: int
    amount: FloatArray
    where: Selector = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProblemFields:
    """Fields of an allocation problem, whose rows and columns ``validation`` checks.

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
        best_effort: (t,) served after all other tenants are frozen.
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
        demand: (n, m) of one task, same units as ``capacity``; of all its pieces together.
        tasks: (n,) tasks that can run at once, whole; ``inf`` is unbounded.
        priority: (n,) higher first, where several answers give the same shares.
        selectors: (n) allowed values per label; an empty selector allows every server.
        gangs: pieces of the tasks of some workloads, by index of the workload. Other tasks have one
            piece.
        limits: amounts that nodes may not exceed.
        guarantees: amounts that nodes can always have.
        own_servers: (t,) each workload can always have what it gets if its tenant runs alone on the
            servers that it contributed.
        count_guaranteed: whether levels count what is guaranteed.
        floors: ``raised`` and ``kept`` for the two problems that follow from one with guarantees
            (``policies.floors``). In the first, the shares of guaranteed parts of workloads rise; in
            the second, those of the rest.
        part_of: (n,) workload that each workload is the guaranteed part of, -1 for none.
        kept: (t,) tenants that stand for guaranteed parts, all of which run in any case.
        kept_placements: where tasks stay that must not be taken back yet. They run before any other
            task is handed out, and count towards shares.
        direction: (t, m) proportions in which tenants count in groups, for tenants whose demands do
            not determine them; nan for the others.
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
    gangs: Mapping[int, Gang] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    guarantees: tuple[Guarantee, ...] = ()
    own_servers: BoolArray
    count_guaranteed: bool = True
    floors: Floors = ""
    part_of: IntArray
    kept: BoolArray
    kept_placements: CurrentPlacements | None = None
    direction: FloatArray | None = None

    @property
    def n(self) -> int:
        """Number of workloads."""
        return len(self.workload_names)

    @property
    def owner(self) -> IntArray:
        """Tenant (n,) of each workload, and of the workload that a guaranteed part belongs to."""
        is_part = self.part_of >= 0
        if not is_part.any():
            return self.workload_tenant
        return np.where(is_part, self.workload_tenant[self.part_of], self.workload_tenant)

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
