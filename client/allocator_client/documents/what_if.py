"""What if: what is sent and answered.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict

from allocator_client.documents.decisions import (
    AllocationDocument,
    CertificateDocument,
    PlacementDocument,
)
from allocator_client.documents.servers_and_workloads import ServerRequest, WorkloadRequest


class ComparisonRequestPolicy(TypedDict):
    # One of those that `GET /policies/` lists.
    name: str
    mode: NotRequired[str | None]
    # By the policy's own schema.
    options: NotRequired[dict[str, Any]]


class ComparisonRequest(TypedDict):
    # A column each, in this order.
    policies: list[str | ComparisonRequestPolicy]
    # An evaluation, as `POST /evaluations/` takes it (its policy may be left out and is not
    # read), or `{"run": id}`: the stored input of a run that the caller may see whole.
    input: dict[str, Any]


class ComparisonColumnError(TypedDict):
    # Why this policy has no answer; the others still answer.
    code: str
    detail: str
    pointer: str


class ComparisonColumn(TypedDict):
    policy: ComparisonRequestPolicy
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


class EvaluationDocument(TypedDict):
    allocations: list[AllocationDocument]
    summary: EvaluationSummary
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
            "level",
        ]
        | str
    )


class SimulationResultWorkload(TypedDict):
    tenant: str
    workload: str
    before: SimulationResultWorkloadBefore | None
    after: SimulationResultWorkloadBefore | None


class SimulationResult(TypedDict):
    tenants: list[SimulationResultTenant]
    workloads: list[SimulationResultWorkload]
    # Of the pool, before and after.
    summary: dict[str, Any] | None


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


class SimulationRequestMember(TypedDict):
    tenant: str
    weight: NotRequired[float]
    best_effort: NotRequired[bool]


class SimulationRequestServers(TypedDict):
    add: NotRequired[list[ServerRequest]]
    # Servers.
    drain: NotRequired[list[str]]
    # Servers.
    retire: NotRequired[list[str]]


class SimulationRequestWorkloadsChange(TypedDict):
    id: str
    demand: NotRequired[dict[str, float | str]]
    tasks: NotRequired[int | None]
    priority: NotRequired[int]
    server_selector: NotRequired[dict[str, str | list[str]]]


class SimulationRequestWorkloads(TypedDict):
    submit: NotRequired[list[WorkloadRequest]]
    change: NotRequired[list[SimulationRequestWorkloadsChange]]
    # Workloads.
    withdraw: NotRequired[list[str]]


class SimulationRequest(TypedDict):
    policy: NotRequired[ComparisonRequestPolicy]
    weights: NotRequired[Literal["explicit", "contribution"]]
    members: NotRequired[list[SimulationRequestMember]]
    servers: NotRequired[SimulationRequestServers]
    workloads: NotRequired[SimulationRequestWorkloads]
