"""Documents of servers and workloads.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict


class NodeImportRequest(TypedDict):
    content: str | dict[str, Any]
    # Report every row and write nothing.
    dry_run: NotRequired[bool]
    # Write the other rows when some are refused, instead of none.
    skip_refused: NotRequired[bool]
    # Register unknown tenants.
    register_tenants: NotRequired[bool]
    format: NotRequired[Literal["csv", "kubernetes", "slurm"]]
    # The tenant of nodes that name none.
    contributed_by: NotRequired[str | None]
    # The label that names the tenant.
    owner_label: NotRequired[str | None]


class WorkloadImportRequest(TypedDict):
    content: str | dict[str, Any]
    # Report every row and write nothing.
    dry_run: NotRequired[bool]
    # Write the other rows when some are refused, instead of none.
    skip_refused: NotRequired[bool]
    # Register unknown tenants.
    register_tenants: NotRequired[bool]
    format: NotRequired[Literal["csv", "kubernetes", "slurm"]]
    # The tenant of rows that name none.
    tenant: NotRequired[str | None]
    # The label that names the tenant.
    tenant_label: NotRequired[str | None]


class ServerDocument(TypedDict):
    id: str
    pool: str
    name: str
    contributed_by: str | None
    capacity: dict[str, float | str]
    labels: dict[str, str]
    # The label `cluster`, or the pool's slug.
    cluster: str
    state: Literal["active", "draining", "retired"]
    version: int
    created_at: str
    retired_at: str | None


class ServerRequest(TypedDict):
    name: str
    # null: the pool's own. A tenant's key: itself.
    contributed_by: NotRequired[str | None]
    capacity: dict[str, float | str]
    labels: NotRequired[dict[str, str]]
    # Identical servers name-0001, ...: at most 100000 a request.
    count: NotRequired[int]


class ServerChangePatch(TypedDict):
    name: NotRequired[str | None]
    contributed_by: NotRequired[str | None | None]
    capacity: NotRequired[dict[str, float | str | None] | None]
    labels: NotRequired[dict[str, str | None] | None]


class NoFields(TypedDict):
    pass


class WorkloadPiece(TypedDict):
    count: int
    # Demand of one piece.
    demand: dict[str, float | str]


WorkloadLimit = TypedDict(
    "WorkloadLimit",
    {
        "where": dict[str, str | list[str]],
        # Greatest amount of each resource. Resources that are not named have no limit.
        "amount": dict[str, float | str],
        # First instant at which the entry holds; null: since it was set.
        "from": str | None,
        # End of the entry, exclusive; null: no end.
        "to": str | None,
    },
)


class WorkloadCondition(TypedDict):
    type: Literal["unsatisfiable"]
    reason: Literal[
        "no_eligible_server", "resource_absent", "no_server_large_enough", "out_of_range"
    ]
    # Sentence of the reason for people.
    detail: str


class WorkloadDocument(TypedDict):
    id: str
    pool: str
    tenant: str
    name: str
    demand: dict[str, float | str]
    # Kinds of pieces of one task, which run at once or not at all, each on one server. null: one
    # piece of the demand.
    pieces: list[WorkloadPiece] | None
    per_server: int | None
    together: str
    at_least: int
    tasks: int | None
    priority: int
    server_selector: dict[str, str | list[str]]
    minimum_run: str | None
    # Greatest amounts that are allocated at or below the node, with servers and dates.
    limit: list[WorkloadLimit]
    state: Literal["active", "paused", "withdrawn"]
    conditions: list[WorkloadCondition]
    version: int
    created_at: str
    withdrawn_at: str | None


class WorkloadRequestPiece(TypedDict):
    # Number of pieces of this kind in a task.
    count: NotRequired[int]
    # Demand of one piece.
    demand: dict[str, float | str]


WorkloadRequestLimit = TypedDict(
    "WorkloadRequestLimit",
    {
        # Selector of servers. {} selects all servers.
        "where": NotRequired[dict[str, str | list[str]]],
        # Greatest amount of each resource. Resources that are not named have no limit.
        "amount": dict[str, float | str],
        # First instant at which the entry holds; null: since it was set.
        "from": NotRequired[str | None],
        # End of the entry, exclusive; null: no end.
        "to": NotRequired[str | None],
    },
)


class WorkloadRequest(TypedDict):
    # Optional for a tenant's key, which means itself.
    tenant: NotRequired[str]
    name: str
    # Of one task. Leave it out where pieces are given; then it is their sum.
    demand: NotRequired[dict[str, float | str]]
    # Kinds of pieces of one task, which run at once or not at all, each on one server. null: one
    # piece of the demand.
    pieces: NotRequired[list[WorkloadRequestPiece] | None]
    # Most pieces of one task on one server; null is any number.
    per_server: NotRequired[int | None]
    # Label of servers. All pieces of a task run on servers with the same value of it. Empty is
    # any servers.
    together: NotRequired[str]
    # Number of tasks that start at once, if none runs.
    at_least: NotRequired[int]
    # How many can run at once; null is no limit.
    tasks: NotRequired[int | None]
    priority: NotRequired[int]
    server_selector: NotRequired[dict[str, str | list[str]]]
    # For how long a placed task keeps its server, and a job runs before an agent takes back what
    # it holds; null is that of the pool.
    minimum_run: NotRequired[str | None]
    # Greatest amounts that are allocated at or below the node, with servers and dates.
    limit: NotRequired[list[WorkloadRequestLimit]]


class WorkloadChangePatch(TypedDict):
    tenant: NotRequired[str | None]
    name: NotRequired[str | None]
    demand: NotRequired[dict[str, float | str | None] | None]
    pieces: NotRequired[list[WorkloadRequestPiece] | None | None]
    per_server: NotRequired[int | None | None]
    together: NotRequired[str | None]
    at_least: NotRequired[int | None]
    tasks: NotRequired[int | None | None]
    priority: NotRequired[int | None]
    server_selector: NotRequired[dict[str, str | list[str] | None] | None]
    minimum_run: NotRequired[str | None | None]
    limit: NotRequired[list[WorkloadRequestLimit] | None]
    state: NotRequired[Literal["active", "paused", "withdrawn"] | None]
