"""Documents of decisions.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict


class PolicyInfoDocument(TypedDict):
    name: str
    # Name of the policy for people.
    title: str
    description: str
    modes: list[str]
    # The JSON Schema of the policy's options.
    options: dict[str, Any]
    complexity: str
    source: str
    # It keeps a history, limited by the pool's window.
    long_term: bool
    # It places tasks on servers and honours selectors.
    places: bool
    # With whole tasks it places each of the `pieces` of a task on a server.
    gangs: bool


class AllocationWorkload(TypedDict):
    id: str | None
    name: str


class AllocationDocument(TypedDict):
    tenant: str
    workload: AllocationWorkload
    tasks: float
    resources: dict[str, float | str]
    dominant_resource: str
    # The workload's.
    dominant_share: float
    # The tenant's.
    weighted_share: float | None
    limited_by: (
        Literal[
            "task_limit",
            "no_eligible_server",
            "resource_absent",
            "no_server_large_enough",
            "out_of_range",
            "gang",
            "level",
        ]
        | str
    )
    # Guaranteed tasks; absent without a guarantee.
    floor: NotRequired[float]
    # Fraction of the guaranteed tasks that runs, from 0 to 1.
    floor_met: NotRequired[float]


class TenantAllocationDocument(TypedDict):
    tenant: str
    workloads: int
    tasks: float
    resources: dict[str, float | str]
    # The tenant's.
    dominant_share: float
    weighted_share: float | None
    # At which the tenant's share was frozen.
    level: float | None


class RunPolicy(TypedDict):
    name: str
    mode: str
    options: dict[str, Any]


class RunError(TypedDict):
    code: str
    detail: str


class RunSummaryGuaranteesUnmetNode(TypedDict):
    group: NotRequired[str]
    tenant: NotRequired[str]


class RunSummaryGuaranteesUnmet(TypedDict):
    node: RunSummaryGuaranteesUnmetNode
    where: NotRequired[dict[str, str | list[str]]]
    amount: NotRequired[dict[str, float | str]]
    # True for the guarantee of own servers, which has no `amount`.
    own_servers: NotRequired[bool]
    # Least fraction of a floor that runs, from 0 to 1.
    met: float
    # Reasons for which the rest does not run. Guarantees that collide have the same reasons.
    limited_by: list[
        Literal[
            "task_limit",
            "no_eligible_server",
            "resource_absent",
            "no_server_large_enough",
            "out_of_range",
            "gang",
            "level",
        ]
        | str
    ]


class RunSummary(TypedDict):
    tenants: int
    workloads: int
    servers: int
    server_classes: int
    min_weighted_share: float | None
    mean_weighted_share: float | None
    jain_index: float | None
    utilization: dict[str, float | str]
    objective: float | None
    bound: float | None
    gap: float | None
    # Whole tasks that run on another server than in the decision before; null where that is not
    # known.
    moved_tasks: NotRequired[int | None]
    # Limit at which the search for a better schedule ended; absent if it ended by itself. An
    # answer that the time limit ended depends on the machine's load.
    stopped: NotRequired[Literal["work", "time"]]
    # Guarantees that this decision does not meet in full. Causes are missing servers, other
    # guarantees or kept tasks. Absent if all are met.
    guarantees_unmet: NotRequired[list[RunSummaryGuaranteesUnmet]]


class RunDocument(TypedDict):
    id: str
    pool: str
    status: Literal["pending", "running", "succeeded", "failed", "cancelled"]
    reason: str | None
    policy: RunPolicy | None
    generation: int | None
    input_digest: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    effective_from: str | None
    effective_until: str | None
    solve_seconds: float | None
    error: RunError | None
    summary: RunSummary | None


class DecisionSlotAllocationServer(TypedDict):
    # Name of the server, a pseudonym for that of another tenant.
    server: str
    tasks: int


class DecisionSlotAllocation(TypedDict):
    tenant: str
    workload: str
    tasks: int
    # Of packed slots.
    servers: NotRequired[list[DecisionSlotAllocationServer]]


class DecisionSlot(TypedDict):
    # The slot in force, for time-sharing policies.
    start: str
    end: str
    # Of the period.
    fraction: float
    allocations: list[DecisionSlotAllocation]


class DecisionDocument(TypedDict):
    pool: str
    at: str
    generation: int
    run: RunDocument
    # The slot in force, for time-sharing policies.
    slot: DecisionSlot | None


class VerificationCheck(TypedDict):
    name: str
    holds: bool
    detail: str


class VerificationDocument(TypedDict):
    valid: bool
    checks: list[VerificationCheck]


class PlacementServers(TypedDict):
    # Servers of the same capacity and labels: `count`, in the order of the input.
    count: int
    capacity: dict[str, float | str]
    labels: dict[str, str]
    first: str
    last: str


class PlacementDocument(TypedDict):
    tenant: str
    workload: AllocationWorkload
    # On each of the servers, of a workload without pieces.
    tasks: NotRequired[float]
    # On each of the servers, of a workload with pieces in a decision with whole tasks.
    pieces: NotRequired[int]
    # Kind of these pieces, 0 for the first.
    kind: NotRequired[int]
    # On each of the servers.
    resources: dict[str, float | str]
    server: NotRequired[str]
    # Servers of the same capacity and labels: `count`, in the order of the input.
    servers: NotRequired[PlacementServers]


class RunRequest(TypedDict):
    reason: NotRequired[str]


class CertificateRound(TypedDict):
    stage: int
    level: float
    bound: float
    # Per server class, per resource: in shares of the pool. Of tda: per tenant.
    prices: list[list[float]] | list[float]
    # False where the round is left open: only its bound is proven.
    proven: NotRequired[bool]
    # Of ceei's second stage: rows of prices per resource that prove the first stage's mix of
    # workloads. Omitted where the rounds' prices prove it.
    mix_prices: NotRequired[list[list[float]]]


class CertificateDocument(TypedDict):
    rounds: list[CertificateRound]
    # Per tenant the round in which its share was frozen; -1: it has nothing to run.
    frozen_in: list[int]
    # Of tda: what proves the bound of divisible tasks, per server class, per resource.
    divisible_prices: NotRequired[list[list[float]]]


class ExplanationWorkload(TypedDict):
    workload: str
    limited_by: (
        Literal[
            "task_limit",
            "no_eligible_server",
            "resource_absent",
            "no_server_large_enough",
            "out_of_range",
            "gang",
            "level",
        ]
        | str
    )
    # Exhausted budget, of `budgets`, whose limit of 0 `limited_by` names. null: none.
    budget: str | None
    # Sentence for people of `limited_by` or of the budget.
    detail: str


class ExplanationBindingServers(TypedDict):
    # null: the pool as one server.
    count: int
    capacity: dict[str, float | str]
    labels: dict[str, str]


class ExplanationBinding(TypedDict):
    resource: str
    unit: str
    # What one more unit would add to the least weighted share.
    price: float
    # null: the pool as one server.
    servers: ExplanationBindingServers | None


class ExplanationNeighbours(TypedDict):
    # The next greater weighted share of a tenant.
    above: float | None
    # The next smaller one.
    below: float | None


class ExplanationCounterfactual(TypedDict):
    words: str
    # As a simulation takes them.
    changes: dict[str, Any]
    workload: str
    tasks_before: float
    tasks_after: float


class ExplanationBudget(TypedDict):
    budget: str
    tenant: str | None
    group: str | None
    resource: str
    # Hours of the period with what was carried over.
    amount: str
    then: Literal["last", "stop"]
    # End of the budget's period.
    opens_at: str


class ExplanationKept(TypedDict):
    workload: str
    tasks: int
    # Instant from which a decision may give the servers to others.
    until: str


class ExplanationBlocked(TypedDict):
    # Jobs that wait in the scheduler although more was decided than is used; null for a decision
    # that is not in force.
    since: str
    pending_tasks: int | None
    # The scheduler's own reason; may be empty.
    reason: str


class ExplanationEnding(TypedDict):
    agent: str
    name: str
    jobs: list[str]
    tasks: int
    # The earliest time of their end.
    ends_at: str
    # The tenant whose jobs wait for what they hold, by its pseudonym where the pool is not
    # transparent; null if no job does.
    heir: str | None
    # Ended in the agent's last round.
    ended: bool


class ExplanationHoldBeside(TypedDict):
    # The tenant of their account, also if the pool has no such member.
    tenant: str
    jobs: int


class ExplanationHold(TypedDict):
    jobs: list[str]
    # Number of the servers.
    count: int
    # Their names, for operators and in transparent pools.
    servers: list[str]
    # Jobs that still run there, by tenant; others have pseudonyms where the pool is not
    # transparent.
    beside: list[ExplanationHoldBeside]


class ExplanationDocument(TypedDict):
    tenant: str
    # The tenant's group in the decision, then the groups above it.
    groups: list[str]
    # The tenant's dominant share.
    share: float
    weight: float
    # The tenant's share, as the policy counts shares, over its weight; null for a tenant that is
    # served last.
    weighted_share: float | None
    # The weighted share at which it was frozen.
    level: float | None
    workloads: list[ExplanationWorkload]
    binding: list[ExplanationBinding]
    neighbours: ExplanationNeighbours
    counterfactuals: list[ExplanationCounterfactual]
    # Budgets of the tenant and of these groups that were exhausted in the decision.
    budgets: list[ExplanationBudget]
    # Its tasks that keep their servers because they were placed there less than their minimum
    # ago; none for a decision that is not in force.
    kept: list[ExplanationKept]
    sentence: str
    # Jobs that wait in the scheduler although more was decided than is used; null for a decision
    # that is not in force.
    blocked: ExplanationBlocked | None
    # Its jobs above the decision that have notice, or that have just ended; none for a decision
    # that is not in force.
    ending: list[ExplanationEnding]
    # Servers held for its jobs which start together, until all have room; none for a decision
    # that is not in force.
    holds: list[ExplanationHold]


class EvaluationRequestResource(TypedDict):
    name: str
    # Such as `core` or `GiB`.
    unit: NotRequired[str]


class EvaluationRequestServer(TypedDict):
    # By default `server-0001` and so on, by position.
    name: NotRequired[str]
    # Of each server.
    capacity: dict[str, float | str]
    # How many servers of this kind there are.
    count: NotRequired[int]
    labels: NotRequired[dict[str, str]]
    # The tenant; null: the pool's own.
    contributed_by: NotRequired[str | None]
    # Contributed, but no capacity.
    draining: NotRequired[bool]


class EvaluationRequestGroupGuarantee(TypedDict):
    # Labels of the servers on which the amount is guaranteed. An empty object is every server.
    where: NotRequired[dict[str, str | list[str]]]
    # Guaranteed amount of each resource. Resources that are not named are unlimited in the pool
    # of the guarantee.
    amount: dict[str, float | str]


class EvaluationRequestGroup(TypedDict):
    name: str
    # Name of the group that it belongs to; null: the pool itself.
    parent: NotRequired[str | None]
    weight: NotRequired[float | str]
    # Order among siblings: nothing rises while a sibling of a lower tier can.
    tier: NotRequired[int]
    # Amounts that the workloads below the node can always have.
    guarantee: NotRequired[list[EvaluationRequestGroupGuarantee]]
    # Greatest amounts that are allocated at or below the node.
    limit: NotRequired[list[EvaluationRequestGroupGuarantee]]


class EvaluationRequestTenant(TypedDict):
    name: str
    weight: NotRequired[float | str]
    # Name of the group that it belongs to; null: the pool itself.
    group: NotRequired[str | None]
    # Order among siblings: nothing rises while a sibling of a lower tier can.
    tier: NotRequired[int]
    # Served with what the other tenants leave.
    best_effort: NotRequired[bool]
    # Amounts that the workloads below the node can always have.
    guarantee: NotRequired[list[EvaluationRequestGroupGuarantee]]
    # Greatest amounts that are allocated at or below the node.
    limit: NotRequired[list[EvaluationRequestGroupGuarantee]]
    # Greatest amounts that others may have on the servers of the tenant.
    lend: NotRequired[list[EvaluationRequestGroupGuarantee]]
    # Guarantee to each workload of what it would get if the tenant ran alone on the servers that
    # it contributed. null: the setting of the problem.
    own_servers: NotRequired[bool | None]
    # tda: the deficit to repay, in dominant share × periods; below 0 is a surplus.
    owed: NotRequired[float | str]


class EvaluationRequestWorkloadPiece(TypedDict):
    # Number of pieces of this kind in a task.
    count: NotRequired[int]
    # Of each piece.
    demand: dict[str, float | str]


class EvaluationRequestWorkload(TypedDict):
    tenant: str
    name: str
    # Of each task. A workload has a demand or pieces.
    demand: NotRequired[dict[str, float | str]]
    # Kinds of pieces of one task, which run at once or not at all, each on one server. Null is
    # one piece of the demand.
    pieces: NotRequired[list[EvaluationRequestWorkloadPiece] | None]
    # Most pieces of one task on one server; null is any number.
    per_server: NotRequired[int | None]
    # Label of servers. All pieces of a task run on servers with the same value of it. Null is any
    # servers.
    together: NotRequired[str | None]
    # Number of tasks that start at once, if none runs.
    at_least: NotRequired[int]
    # How many can run at once; null is no limit.
    tasks: NotRequired[int | None]
    priority: NotRequired[int]
    # For each label the value, or the values, one of which a server must have. An empty object is
    # no constraint.
    server_selector: NotRequired[dict[str, str | list[str]]]
    # Greatest amounts that are allocated at or below the node.
    limit: NotRequired[list[EvaluationRequestGroupGuarantee]]


class EvaluationRequestPolicy(TypedDict):
    # One of those that `GET /policies/` lists.
    name: str
    # The policy's first mode by default.
    mode: NotRequired[Literal["divisible", "indivisible"] | None]
    # By the policy's own schema.
    options: NotRequired[dict[str, Any]]


class EvaluationRequestHistoryTenantLiteral(TypedDict):
    # `alone` by the paper's formula (2) read literally.
    alone: NotRequired[dict[str, float | str]]
    # Ignored.
    sharing_degree: NotRequired[Any]


class EvaluationRequestHistoryTenant(TypedDict):
    # Resource × time that was allocated.
    used: NotRequired[dict[str, float | str]]
    # Resource × time that it would have used in its own partition.
    alone: NotRequired[dict[str, float | str]]
    # For how long it has had pending tasks and received nothing.
    waiting: NotRequired[float | str]
    literal: NotRequired[EvaluationRequestHistoryTenantLiteral | None]
    # Ignored.
    sharing_degree: NotRequired[Any]


class EvaluationRequestHistory(TypedDict):
    # Of long-term policies: what an answer returned as `history`.
    # The length of the step that is decided.
    step: float | str
    # The length of the window so far.
    elapsed: NotRequired[float | str]
    # By name; a tenant that is missing starts from zeros.
    tenants: NotRequired[dict[str, EvaluationRequestHistoryTenant]]


class EvaluationRequestRunning(TypedDict):
    tenant: str
    workload: str
    # Of the pieces of a gang: 0 for the first kind, 1 for the second.
    kind: NotRequired[int]
    # Name of a server row; any other has left the pool.
    server: str
    # Position in the row of the first server.
    offset: NotRequired[int]
    servers: NotRequired[int]
    # Tasks, or pieces of a gang, on each of the servers.
    tasks: int


class EvaluationRequest(TypedDict):
    # What the pool counts: names, or names with units.
    resources: list[str | EvaluationRequestResource]
    # Without servers nothing runs: each workload has 0 tasks, and the reason.
    servers: NotRequired[list[EvaluationRequestServer]]
    # Groups of tenants and of other groups, at most 8 levels deep.
    groups: NotRequired[list[EvaluationRequestGroup]]
    tenants: NotRequired[list[EvaluationRequestTenant]]
    workloads: NotRequired[list[EvaluationRequestWorkload]]
    policy: EvaluationRequestPolicy
    # Whether `weight` is the weight itself or a factor on what was contributed.
    weights: NotRequired[Literal["explicit", "contribution"]]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. Settings of tenants override it.
    own_servers: NotRequired[bool]
    # Amount that levels count. `total`: everything that is allocated. `above`: only what is
    # allocated beyond guarantees.
    count: NotRequired[Literal["total", "above"]]
    # Of long-term policies: what an answer returned as `history`.
    history: NotRequired[EvaluationRequestHistory | None]
    # Where whole tasks run now: they stay there where that gives the same counts.
    running: NotRequired[list[EvaluationRequestRunning]]
    # Whole tasks that stay on their servers before any other task is handed out. They count
    # towards shares, and stay as far as their workload asks for them and they fit.
    kept: NotRequired[list[EvaluationRequestRunning]]
    # Optional parts to include in the answer.
    include: NotRequired[
        list[Literal["placements", "certificate", "properties", "schedule", "explanations"]]
    ]


class ProofDigests(TypedDict):
    input: str
    answer: str


class ProofDocument(TypedDict):
    run: str
    pool: str
    # As `GET /runs/{run}/input/`.
    input: dict[str, Any]
    # As an evaluation's answer, with the policy; `certificate.servers` names the servers of each
    # row of prices.
    answer: dict[str, Any]
    digests: ProofDigests


class ScheduleSlot(TypedDict):
    # Of the period.
    fraction: float
    allocations: list[DecisionSlotAllocation]


class ScheduleTimetable(TypedDict):
    # Seconds into the period.
    start: int
    end: int
    # Position in `slots`.
    slot: int


class ScheduleDocument(TypedDict):
    objective: float | None
    bound: float | None
    lp_bound: float | None
    gap: float | None
    # Whether no other order of the slots moves fewer tasks; up to 12 slots.
    order_proven: bool
    slots: list[ScheduleSlot]
    period_seconds: int
    timetable: list[ScheduleTimetable]
    # After rounding to whole seconds of the period.
    gap_on_the_clock: float | None


class TreeNodeLimitBudget(TypedDict):
    # Exhausted budget whose limit of 0 it is; null for a limit that is set, and for nodes beside
    # the path of a tenant.
    budget: str
    resource: str
    # Hours of the period with what was carried over.
    amount: str
    # Hours that were spent when the decision was computed; null for a group above a tenant, and
    # in decisions of earlier releases.
    spent: str | None
    # End of the budget's period.
    opens_at: str


class TreeNodeLimit(TypedDict):
    # Servers that it is for; {}: all servers.
    where: dict[str, str | list[str]]
    amount: dict[str, float | str]
    # Allocated below the node on these servers.
    has: dict[str, float | str] | None
    # Exhausted budget whose limit of 0 it is; null for a limit that is set, and for nodes beside
    # the path of a tenant.
    budget: TreeNodeLimitBudget | None


class TreeNodeGuarantee(TypedDict):
    # Servers that it is for; {}: all servers.
    where: dict[str, str | list[str]]
    amount: dict[str, float | str]
    # Allocated below the node on these servers.
    has: dict[str, float | str] | None
    # Least fraction of a floor that runs, from 0 to 1.
    met: float | None
    # What stopped the floors that are not met.
    limited_by: (
        list[
            Literal[
                "task_limit",
                "no_eligible_server",
                "resource_absent",
                "no_server_large_enough",
                "out_of_range",
                "gang",
                "level",
            ]
            | str
        ]
        | None
    )


class TreeNodeLend(TypedDict):
    # Servers that it is for; {}: all of the member's.
    where: dict[str, str | list[str]]
    amount: dict[str, float | str]
    # Allocated to all others on these servers.
    has: dict[str, float | str] | None


class TreeNodeOwnServers(TypedDict):
    # Fulfilment of the guarantee of own servers; null for groups, and for members without it.
    # Least fraction of a floor that runs, from 0 to 1.
    met: float | None
    # What stopped the floors that are not met.
    limited_by: (
        list[
            Literal[
                "task_limit",
                "no_eligible_server",
                "resource_absent",
                "no_server_large_enough",
                "out_of_range",
                "gang",
                "level",
            ]
            | str
        ]
        | None
    )


class TreeNodeDocument(TypedDict):
    kind: Literal["group", "member"]
    # Slug of the group, or of the member's tenant.
    name: str
    # Group directly above; null is the pool itself.
    parent: str | None
    # Number of groups above the node.
    depth: int
    weight: float
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: int
    best_effort: bool
    # Fraction of the pool by the weights from the pool to the node.
    part: float | None
    # Share divided by the weight, by which siblings are compared. Under long-term policies past
    # use counts.
    level: float | None
    # Members at or below the node.
    members: int | None
    has: dict[str, float | str] | None
    # Demand of all tasks of active workloads; null for an unlimited number of tasks.
    wants: dict[str, float | None] | None
    # Sum of the floors of the workloads at or below the node.
    guaranteed: dict[str, float | str] | None
    # Limits of the node that were in force.
    limit: list[TreeNodeLimit]
    # Guarantees of the node that were in force.
    guarantee: list[TreeNodeGuarantee]
    # Greatest amounts that all others may have on the servers of the member.
    lend: list[TreeNodeLend]
    # Fulfilment of the guarantee of own servers; null for groups, and for members without it.
    own_servers: TreeNodeOwnServers | None
