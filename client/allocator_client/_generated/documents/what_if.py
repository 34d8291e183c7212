"""Documents of what if.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict

from allocator_client._generated.documents.decisions import (
    AllocationDocument,
    CertificateDocument,
    PlacementDocument,
)
from allocator_client._generated.documents.servers_and_workloads import ServerRequest

BacktestHistory = TypedDict(
    "BacktestHistory",
    {
        # Inclusive.
        "from": str,
        # Exclusive.
        "to": str,
    },
)


class BacktestDocument(TypedDict):
    id: str
    name: str
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    # Per cent.
    progress: int
    pool: str | None
    history: BacktestHistory | None
    # Of the trace.
    format: str | None
    policies: list[dict[str, Any]]
    seeds: list[int]
    resample: bool
    # Policies times seeds.
    simulations: int
    price_plan: str | None
    # What was read: `digest` (SHA-256), sizes, `left_out` by reason, `bad_lines`, and how many
    # tasks fit on no server.
    input: dict[str, Any] | None
    created_at: str
    finished_at: str | None
    # `code`, `detail` and `errors` as of a problem.
    error: dict[str, Any] | None


class BacktestRequestTrace(TypedDict):
    # csv: our own table; sacct: what `sacct --parsable2` prints; swf: the Standard Workload
    # Format; google: the first instant of Google's trace; alibaba: its list of pods; swim: times
    # of submission, each with a job of the mix of H-MRF's Table 3.
    format: Literal["csv", "sacct", "swf", "google", "alibaba", "swim"]
    # The file: its text, or gzip in base64.
    content: str
    encoding: NotRequired[Literal["text", "gzip"]]
    # Count lines that cannot be read instead of refusing the trace.
    skip_bad_lines: NotRequired[bool]
    # When second 0 was, where times are not seconds since 1970.
    begin: NotRequired[str | None]
    # Whose a job is: sacct: account, user, group, partition, qos; swf: user, group, queue,
    # partition.
    tenant: NotRequired[str | None]
    # sacct: which count; cpu and memory by default.
    resources: NotRequired[list[str] | None]
    # swf: memory is a second resource.
    memory: NotRequired[bool | None]
    # swf: a job is so many tasks; one by default.
    processors_per_task: NotRequired[int | None]
    # swf: processors of a node. A job of more processors is one task with a piece on each node.
    # Without it a job has one piece. Excludes `processors_per_task`.
    processors_per_node: NotRequired[int | None]
    # sacct: whether a job on several nodes is one task with a piece on each (true by default), or
    # a task on each.
    gangs: NotRequired[bool | None]
    # alibaba: how many to divide the pods among; swim: whose the jobs are in turn.
    tenants: NotRequired[int | None]
    # swim: so many of the first jobs; all by default.
    jobs: NotRequired[int | None]
    # swim: of kinds and durations, which it does not state; 0 by default.
    seed: NotRequired[int | None]


class BacktestRequestServer(TypedDict):
    name: NotRequired[str | None]
    # Of each server, in the resources of the trace.
    capacity: dict[str, float | str]
    count: NotRequired[int]
    labels: NotRequired[dict[str, str]]
    contributed_by: NotRequired[str | None]


class BacktestRequestTenant(TypedDict):
    name: str
    weight: NotRequired[float | str]
    best_effort: NotRequired[bool]
    # Name of one of `groups`. null: the pool itself.
    group: NotRequired[str | None]
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: NotRequired[int]


class BacktestRequestGroup(TypedDict):
    name: str
    # Name of another group. null: the pool itself.
    parent: NotRequired[str | None]
    weight: NotRequired[float | str]
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: NotRequired[int]


class BacktestRequestPolicy(TypedDict):
    # One of those that `GET /policies/` lists.
    name: str
    mode: NotRequired[str | None]
    # By the policy's own schema.
    options: NotRequired[dict[str, Any]]


class BacktestRequestWindow(TypedDict):
    # How far back they look: the pool's window, or unbounded.
    kind: Literal["unbounded", "sliding", "decay"]
    # Of a sliding window.
    length: NotRequired[str | None]
    # Where it decays.
    half_life: NotRequired[str | None]


class BacktestRequest(TypedDict):
    # For your own lists.
    name: NotRequired[str]
    trace: NotRequired[BacktestRequestTrace | None]
    # Instead of a trace: what ran in the pool, on its servers, in this period.
    history: NotRequired[BacktestHistory | None]
    # Whose history; for a trace whose servers and price plan.
    pool: NotRequired[str | None]
    # Those of the pool by default.
    servers: NotRequired[list[BacktestRequestServer]]
    # Their weights; a trace may then name nobody else. By default everybody weighs 1, or as
    # members of the pool do.
    tenants: NotRequired[list[BacktestRequestTenant]]
    # The tree that `tenants` belong to. The history of a pool has the pool's own tree unless
    # `tenants` are named.
    groups: NotRequired[list[BacktestRequestGroup]]
    # A column each, in this order; the first is what the others are compared with.
    policies: list[str | BacktestRequestPolicy]
    # Of policies that draw; the result has means and the spread.
    seeds: NotRequired[list[int]]
    # Draw the jobs of each seed with replacement, so that every policy has a spread.
    resample: NotRequired[bool]
    # The decision interval of long-term policies: the pool's, or PT1M.
    step: NotRequired[str | None]
    # How far back they look: the pool's window, or unbounded.
    window: NotRequired[BacktestRequestWindow | None]
    # What use costs; the plan that the pool publishes by default.
    price_plan: NotRequired[str | None]


class BacktestResultsColumn(TypedDict):
    policy: dict[str, Any]
    # Why this policy could not run it; the others still answer.
    error: dict[str, Any] | None
    seeds: list[int]
    # What the simulations took.
    seconds: float
    # Measurements of the whole pool, each with mean, deviation, least and most over the seeds;
    # `utilisation` by resource.
    pool: dict[str, Any] | None
    by_job_size: list[dict[str, Any]] | None
    tenants: list[dict[str, Any]] | None
    money: dict[str, Any] | None
    curves: dict[str, Any] | None


class BacktestResultsDocument(TypedDict):
    backtest: str
    # With the `digest` of what every policy was given.
    input: dict[str, Any]
    baseline: str | None
    resources: list[str]
    units: list[str]
    price_plan: str | None
    currency: str | None
    seeds: list[int]
    resample: bool
    definitions: dict[str, Any]
    columns: list[BacktestResultsColumn]


class ComparisonRequest(TypedDict):
    # A column each, in this order.
    policies: list[str | BacktestRequestPolicy]
    # An evaluation, as `POST /evaluations/` takes it (its policy may be left out and is not
    # read), or `{"run": id}`: the stored input of a run that the caller may see whole.
    input: dict[str, Any]


class ComparisonColumnError(TypedDict):
    # Why this policy has no answer; the others still answer.
    code: str
    detail: str
    pointer: str


class ComparisonColumn(TypedDict):
    policy: BacktestRequestPolicy
    # Why this policy has no answer; the others still answer.
    error: ComparisonColumnError | None
    seconds: float
    allocations: list[AllocationDocument] | None
    min_weighted_share: float | None
    mean_weighted_share: float | None
    jain_index: float | None
    utilization: dict[str, float | str] | None
    objective: float | None
    bound: float | None
    gap: float | None
    sharing_degree: dict[str, Any] | None
    properties: NotRequired[dict[str, Any]]
    placements: NotRequired[list[PlacementDocument]]
    certificate: NotRequired[CertificateDocument | None]
    schedule: NotRequired[dict[str, Any] | None]
    history: NotRequired[dict[str, Any]]


class ComparisonDocument(TypedDict):
    columns: list[ComparisonColumn]


class EvaluationSummaryGuaranteesUnmetNode(TypedDict):
    group: NotRequired[str]
    tenant: NotRequired[str]


class EvaluationSummaryGuaranteesUnmet(TypedDict):
    node: EvaluationSummaryGuaranteesUnmetNode
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


class EvaluationSummary(TypedDict):
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
    guarantees_unmet: NotRequired[list[EvaluationSummaryGuaranteesUnmet]]


class EvaluationGroup(TypedDict):
    name: str
    # Largest share of any resource that its tenants hold, over its weight.
    level: float | None
    # Resources that the tasks of its tenants use.
    resources: dict[str, str]
    # Round in which the last of its tenants was frozen; null without a certificate.
    frozen_in: int | None


class EvaluationDocument(TypedDict):
    allocations: list[AllocationDocument]
    summary: EvaluationSummary
    # Of a problem with groups: a row each, in order.
    groups: NotRequired[list[EvaluationGroup]]
    placements: NotRequired[list[PlacementDocument]]
    certificate: NotRequired[CertificateDocument | None]
    # History after the step, for long-term policies: send it back to continue.
    history: NotRequired[dict[str, Any]]
    # Per tenant: shares, level, workloads, binding, neighbours, sentence.
    explanations: NotRequired[list[dict[str, Any]]]
    # Each with holds (true, false, null), worst and reason.
    properties: NotRequired[dict[str, Any]]
    schedule: NotRequired[dict[str, Any] | None]


class SimulationResultTenantBefore(TypedDict):
    share: float
    weighted_share: float | None


class SimulationResultTenant(TypedDict):
    tenant: str
    before: SimulationResultTenantBefore | None
    after: SimulationResultTenantBefore | None


class SimulationResultWorkloadBefore(TypedDict):
    id: str | None
    tasks: float
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


class SimulationResultWorkload(TypedDict):
    tenant: str
    workload: str
    before: SimulationResultWorkloadBefore | None
    after: SimulationResultWorkloadBefore | None


class SimulationResultSummaryBefore(TypedDict):
    min_weighted_share: float | None
    jain_index: float | None
    utilization: dict[str, float | str]
    # Guarantees that are not met in full, as in the summary of a decision. Absent if all are met.
    guarantees_unmet: NotRequired[list[EvaluationSummaryGuaranteesUnmet]]


class SimulationResultSummary(TypedDict):
    # Outcome for the pool, before and after. null for a tenant.
    before: SimulationResultSummaryBefore
    after: SimulationResultSummaryBefore


class SimulationResultLost(TypedDict):
    tenant: str
    workload: str
    # Least number of tasks that end. A decision does not record which pieces are of one task.
    least_tasks: int
    # Most tasks that end, each with all of its pieces.
    tasks: int
    # Pieces of `tasks`, on all servers.
    pieces: int
    # Pieces on the servers that drain or retire.
    pieces_on_servers: int
    detail: str


class SimulationResultCostBefore(TypedDict):
    # Cost of an hour, the least under tiers.
    per_hour: str
    # Cost of an hour, the greatest.
    per_hour_at_most: str
    # Cost of 30 days from the start of a month.
    over_30_days: str
    # Greatest cost of 30 days, which is equal to `over_30_days`.
    over_30_days_at_most: str
    # Resources that the price plan has no price for.
    unpriced: list[str]


class SimulationResultCost(TypedDict):
    # Cost of all that the tenant that asked for the simulation uses in the pool, at the prices in
    # force when it is read. Operators see the cost of that tenant. null if an operator asked for
    # the simulation, or without a price plan.
    currency: str
    before: SimulationResultCostBefore
    after: SimulationResultCostBefore
    # The costs in sentences.
    words: str


class SimulationResult(TypedDict):
    tenants: list[SimulationResultTenant]
    workloads: list[SimulationResultWorkload]
    # Outcome for the pool, before and after. null for a tenant.
    summary: SimulationResultSummary | None
    # Running tasks of several pieces that end because a piece is on a server that the simulation
    # drains or retires.
    lost: list[SimulationResultLost]
    # Cost of all that the tenant that asked for the simulation uses in the pool, at the prices in
    # force when it is read. Operators see the cost of that tenant. null if an operator asked for
    # the simulation, or without a price plan.
    cost: SimulationResultCost | None


class SimulationDocument(TypedDict):
    id: str
    pool: str
    status: Literal["pending", "succeeded", "failed"]
    # Of the pool it started from.
    generation: int | None
    changes: dict[str, Any]
    created_at: str
    finished_at: str | None
    result: SimulationResult | None
    # `code`, `detail` and `errors` as of a problem.
    error: dict[str, Any] | None


class SimulationRequestGroupGuarantee(TypedDict):
    where: NotRequired[dict[str, str | list[str]]]
    amount: dict[str, float | str]


class SimulationRequestGroup(TypedDict):
    group: str
    # null: the pool itself.
    parent: NotRequired[str | None]
    weight: NotRequired[float]
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: NotRequired[int]
    # Entries that replace all those in force.
    guarantee: NotRequired[list[SimulationRequestGroupGuarantee]]
    # Entries that replace all those in force.
    limit: NotRequired[list[SimulationRequestGroupGuarantee]]


class SimulationRequestMember(TypedDict):
    tenant: str
    weight: NotRequired[float]
    best_effort: NotRequired[bool]
    # null: the pool itself.
    group: NotRequired[str | None]
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: NotRequired[int]
    # Entries that replace all those in force.
    guarantee: NotRequired[list[SimulationRequestGroupGuarantee]]
    # Entries that replace all those in force.
    limit: NotRequired[list[SimulationRequestGroupGuarantee]]
    # Entries that replace all those in force.
    lend: NotRequired[list[SimulationRequestGroupGuarantee]]
    own_servers: NotRequired[bool]


class SimulationRequestServers(TypedDict):
    add: NotRequired[list[ServerRequest]]
    # Servers.
    drain: NotRequired[list[str]]
    # Servers.
    retire: NotRequired[list[str]]


class SimulationRequestWorkloadsSubmitPiece(TypedDict):
    count: NotRequired[int]
    # Demand of one piece.
    demand: dict[str, float | str]


class SimulationRequestWorkloadsSubmit(TypedDict):
    # Optional for a tenant's key, which means itself.
    tenant: NotRequired[str]
    name: str
    # Of one task. Leave it out where pieces are given.
    demand: NotRequired[dict[str, float | str]]
    pieces: NotRequired[list[SimulationRequestWorkloadsSubmitPiece]]
    per_server: NotRequired[int]
    together: NotRequired[str]
    at_least: NotRequired[int]
    tasks: NotRequired[int | None]
    priority: NotRequired[int]
    server_selector: NotRequired[dict[str, str | list[str]]]
    # Entries that replace all those in force.
    limit: NotRequired[list[SimulationRequestGroupGuarantee]]


class SimulationRequestWorkloadsChange(TypedDict):
    id: str
    # Of one task. With pieces it is their sum.
    demand: NotRequired[dict[str, float | str]]
    # Instead of the present ones. Empty or null: tasks of one piece, without `per_server` and
    # `together`.
    pieces: NotRequired[list[SimulationRequestWorkloadsSubmitPiece] | None]
    # Most pieces of one task on one server; null is any number.
    per_server: NotRequired[int | None]
    # Label of servers. Empty is any servers.
    together: NotRequired[str]
    at_least: NotRequired[int]
    tasks: NotRequired[int | None]
    priority: NotRequired[int]
    server_selector: NotRequired[dict[str, str | list[str]]]
    # Entries that replace all those in force.
    limit: NotRequired[list[SimulationRequestGroupGuarantee]]


class SimulationRequestWorkloads(TypedDict):
    submit: NotRequired[list[SimulationRequestWorkloadsSubmit]]
    change: NotRequired[list[SimulationRequestWorkloadsChange]]
    # Workloads.
    withdraw: NotRequired[list[str]]


class SimulationRequest(TypedDict):
    policy: NotRequired[BacktestRequestPolicy]
    weights: NotRequired[Literal["explicit", "contribution"]]
    own_servers: NotRequired[bool]
    count: NotRequired[Literal["total", "above"]]
    groups: NotRequired[list[SimulationRequestGroup]]
    members: NotRequired[list[SimulationRequestMember]]
    servers: NotRequired[SimulationRequestServers]
    workloads: NotRequired[SimulationRequestWorkloads]
