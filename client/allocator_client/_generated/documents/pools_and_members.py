"""Documents of pools and members.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict


class PoolResource(TypedDict):
    name: str
    unit: NotRequired[str]


class PoolPolicy(TypedDict):
    name: str
    mode: str
    options: dict[str, Any]


class PoolWindow(TypedDict):
    kind: Literal["tumbling", "sliding", "decay", "unbounded", "none"]
    length: str | None
    anchor: str
    half_life: str | None


class PoolDocument(TypedDict):
    slug: str
    name: str
    resources: list[PoolResource]
    policy: PoolPolicy
    window: PoolWindow
    weights: Literal["contribution", "explicit"]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. Settings of members and groups override it.
    own_servers: bool
    # Amount that levels count. `total`: everything that is allocated. `above`: only what is
    # allocated beyond guarantees.
    count: Literal["total", "above"]
    decision_interval: str
    # For how long the servers of a cluster whose agents are silent stay in decisions.
    cluster_grace: str
    # For how long a placed task keeps its server in decisions of whole tasks, and a job runs
    # before agents take back what it holds. A workload may have its own.
    minimum_run: str | None
    # Time between the notice of a job and its end, when agents take back what it holds.
    notice: str | None
    # Most tasks that an agent ends in one decision interval; null is any number.
    churn: int | None
    metering: Literal["allocation", "reported"]
    currency: str
    timezone: str
    transparent: bool
    generation: int
    version: int
    created_at: str


class PoolRequestPolicy(TypedDict):
    name: str
    mode: NotRequired[str | None]
    options: NotRequired[dict[str, Any]]


class PoolRequestWindow(TypedDict):
    kind: NotRequired[Literal["tumbling", "sliding", "decay", "unbounded", "none"]]
    length: NotRequired[str | None]
    anchor: NotRequired[str]
    half_life: NotRequired[str | None]


class PoolRequest(TypedDict):
    slug: str
    name: str
    resources: list[PoolResource]
    policy: PoolRequestPolicy
    window: NotRequired[PoolRequestWindow]
    weights: NotRequired[Literal["contribution", "explicit"]]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. Settings of members and groups override it.
    own_servers: NotRequired[bool]
    # Amount that levels count. `total`: everything that is allocated. `above`: only what is
    # allocated beyond guarantees.
    count: NotRequired[Literal["total", "above"]]
    decision_interval: NotRequired[str]
    # For how long the servers of a cluster whose agents are silent stay in decisions.
    cluster_grace: NotRequired[str]
    # For how long a placed task keeps its server in decisions of whole tasks, and a job runs
    # before agents take back what it holds. A workload may have its own.
    minimum_run: NotRequired[str | None]
    # Time between the notice of a job and its end, when agents take back what it holds.
    notice: NotRequired[str | None]
    # Most tasks that an agent ends in one decision interval; null is any number.
    churn: NotRequired[int | None]
    metering: NotRequired[Literal["allocation", "reported"]]
    currency: NotRequired[str]
    timezone: NotRequired[str]
    transparent: NotRequired[bool]


class PoolRequestPatchPolicy(TypedDict):
    name: NotRequired[str | None]
    mode: NotRequired[str | None | None]
    options: NotRequired[dict[str, Any] | None]


class PoolRequestPatchWindow(TypedDict):
    kind: NotRequired[Literal["tumbling", "sliding", "decay", "unbounded", "none"] | None]
    length: NotRequired[str | None | None]
    anchor: NotRequired[str | None]
    half_life: NotRequired[str | None | None]


class PoolRequestPatch(TypedDict):
    slug: NotRequired[str | None]
    name: NotRequired[str | None]
    resources: NotRequired[list[PoolResource] | None]
    policy: NotRequired[PoolRequestPatchPolicy | None]
    window: NotRequired[PoolRequestPatchWindow | None]
    weights: NotRequired[Literal["contribution", "explicit"] | None]
    own_servers: NotRequired[bool | None]
    count: NotRequired[Literal["total", "above"] | None]
    decision_interval: NotRequired[str | None]
    cluster_grace: NotRequired[str | None]
    minimum_run: NotRequired[str | None | None]
    notice: NotRequired[str | None | None]
    churn: NotRequired[int | None | None]
    metering: NotRequired[Literal["allocation", "reported"] | None]
    currency: NotRequired[str | None]
    timezone: NotRequired[str | None]
    transparent: NotRequired[bool | None]


class ChangedPoolWarningGuaranteeNode(TypedDict):
    group: NotRequired[str]
    tenant: NotRequired[str]


class ChangedPoolWarningGuarantee(TypedDict):
    # The guarantee, of `guarantee.unmet`.
    node: ChangedPoolWarningGuaranteeNode
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


ChangedPoolWarning = TypedDict(
    "ChangedPoolWarning",
    {
        "code": Literal["guarantee.unmet", "guarantee.not_computed", "budget.exhausted"],
        # Sentence for people.
        "detail": str,
        # The guarantee, of `guarantee.unmet`.
        "guarantee": NotRequired[ChangedPoolWarningGuarantee],
        # Instant from which a guarantee is not met that later decisions do not meet. Absent of the
        # next decision.
        "from": NotRequired[str],
    },
)


class ChangedPoolDocument(TypedDict):
    slug: str
    name: str
    resources: list[PoolResource]
    policy: PoolPolicy
    window: PoolWindow
    weights: Literal["contribution", "explicit"]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. Settings of members and groups override it.
    own_servers: bool
    # Amount that levels count. `total`: everything that is allocated. `above`: only what is
    # allocated beyond guarantees.
    count: Literal["total", "above"]
    decision_interval: str
    # For how long the servers of a cluster whose agents are silent stay in decisions.
    cluster_grace: str
    # For how long a placed task keeps its server in decisions of whole tasks, and a job runs
    # before agents take back what it holds. A workload may have its own.
    minimum_run: str | None
    # Time between the notice of a job and its end, when agents take back what it holds.
    notice: str | None
    # Most tasks that an agent ends in one decision interval; null is any number.
    churn: int | None
    metering: Literal["allocation", "reported"]
    currency: str
    timezone: str
    transparent: bool
    generation: int
    version: int
    created_at: str
    # Effects of the change that may surprise. Absent without any.
    warnings: NotRequired[list[ChangedPoolWarning]]


class BudgetTermsDocument(TypedDict):
    amount: str
    carry: str
    then: Literal["last", "stop"] | None
    thresholds: list[int]
    start: str
    # null: the settings are in force.
    end: str | None


class ClustersCluster(TypedDict):
    cluster: str
    servers: int
    # Of the servers that decisions use.
    capacity: dict[str, str]
    agents: list[str]
    # All of its agents are silent.
    stale: bool
    # Since when its servers give no capacity, because its agents were silent for longer than the
    # pool's `cluster_grace`.
    left_at: str | None


class ClustersDocument(TypedDict):
    pool: str
    cluster_grace: str
    clusters: list[ClustersCluster]


GroupGuarantee = TypedDict(
    "GroupGuarantee",
    {
        "where": dict[str, str | list[str]],
        # Guaranteed amount of each resource. Resources that are not named are unlimited in the pool
        # of the guarantee.
        "amount": dict[str, float | str],
        # First instant at which the entry holds; null: since it was set.
        "from": str | None,
        # End of the entry, exclusive; null: no end.
        "to": str | None,
    },
)


class GroupDocument(TypedDict):
    pool: str
    slug: str
    name: str
    parent: str | None
    weight: float
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: int
    # Amounts that the workloads below the node can always have, with servers and dates.
    guarantee: list[GroupGuarantee]
    # Greatest amounts that are allocated at or below the node, with servers and dates.
    limit: list[GroupGuarantee]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. null: the setting of the node above, at last of the pool.
    own_servers: bool | None
    # Start of the present parent, weight, tier and amounts.
    terms_since: str
    version: int
    created_at: str


GroupRequestGuarantee = TypedDict(
    "GroupRequestGuarantee",
    {
        # Selector of servers. {} selects all servers.
        "where": NotRequired[dict[str, str | list[str]]],
        # Guaranteed amount of each resource. Resources that are not named are unlimited in the pool
        # of the guarantee.
        "amount": dict[str, float | str],
        # First instant at which the entry holds; null: since it was set.
        "from": NotRequired[str | None],
        # End of the entry, exclusive; null: no end.
        "to": NotRequired[str | None],
    },
)


class GroupRequest(TypedDict):
    slug: str
    name: str
    # Slug of the group that it belongs to. null: the pool itself.
    parent: NotRequired[str | None]
    weight: NotRequired[float]
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: NotRequired[int]
    # Amounts that the workloads below the node can always have, with servers and dates.
    guarantee: NotRequired[list[GroupRequestGuarantee]]
    # Greatest amounts that are allocated at or below the node, with servers and dates.
    limit: NotRequired[list[GroupRequestGuarantee]]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. null: the setting of the node above, at last of the pool.
    own_servers: NotRequired[bool | None]


class ManyCreated(TypedDict):
    created: int
    first: str
    last: str


class GroupRequestPatch(TypedDict):
    slug: NotRequired[str | None]
    name: NotRequired[str | None]
    parent: NotRequired[str | None | None]
    weight: NotRequired[float | None]
    tier: NotRequired[int | None]
    guarantee: NotRequired[list[GroupRequestGuarantee] | None]
    limit: NotRequired[list[GroupRequestGuarantee] | None]
    own_servers: NotRequired[bool | None | None]


class ChangedGroupDocument(TypedDict):
    pool: str
    slug: str
    name: str
    parent: str | None
    weight: float
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: int
    # Amounts that the workloads below the node can always have, with servers and dates.
    guarantee: list[GroupGuarantee]
    # Greatest amounts that are allocated at or below the node, with servers and dates.
    limit: list[GroupGuarantee]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. null: the setting of the node above, at last of the pool.
    own_servers: bool | None
    # Start of the present parent, weight, tier and amounts.
    terms_since: str
    version: int
    created_at: str
    # Effects of the change that may surprise. Absent without any.
    warnings: NotRequired[list[ChangedPoolWarning]]


class GroupTermsDocument(TypedDict):
    group: str
    parent: str | None
    weight: float
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: int
    # Amounts that the workloads below the node can always have, with servers and dates.
    guarantee: list[GroupGuarantee]
    # Greatest amounts that are allocated at or below the node, with servers and dates.
    limit: list[GroupGuarantee]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. null: the setting of the node above, at last of the pool.
    own_servers: bool | None
    start: str
    # null: in force.
    end: str | None


class GroupImportRequest(TypedDict):
    content: str | dict[str, Any]
    # Report every row and write nothing.
    dry_run: NotRequired[bool]
    # Write the other rows when some are refused, instead of none.
    skip_refused: NotRequired[bool]
    # Register unknown tenants.
    register_tenants: NotRequired[bool]
    format: NotRequired[Literal["csv", "sacctmgr"]]
    # sacctmgr: the column that names members, Account (default) or User.
    tenant_label: NotRequired[str | None]


class ImportCounts(TypedDict):
    added: int
    changed: int
    unchanged: int
    refused: int
    skipped: int


class ImportRowError(TypedDict):
    pointer: str
    code: str
    detail: str


class ImportRow(TypedDict):
    # The line of the CSV, from 1.
    line: int | None
    # The item of the JSON list, from 0.
    item: int | None
    name: str
    owner: str | None
    outcome: Literal["added", "changed", "unchanged", "refused", "skipped"]
    detail: str
    errors: list[ImportRowError]


class ImportDocument(TypedDict):
    dry_run: bool
    # Whether anything changed.
    written: bool
    generation: int
    counts: ImportCounts
    # Resources of the file that the pool does not count.
    ignored: list[str]
    # Tenants that were, or in a dry run would be, registered.
    registered: list[str]
    rows: list[ImportRow]


class MemberDocument(TypedDict):
    pool: str
    tenant: str
    weight: float
    best_effort: bool
    group: str | None
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: int
    # Amounts that the workloads below the node can always have, with servers and dates.
    guarantee: list[GroupGuarantee]
    # Greatest amounts that are allocated at or below the node, with servers and dates.
    limit: list[GroupGuarantee]
    # Greatest amounts that others may have on the servers of the member, with dates.
    lend: list[GroupGuarantee]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. null: the setting of the node above, at last of the pool.
    own_servers: bool | None
    # Start of the present terms: weight, group, tier and amounts.
    weight_since: str
    admitted_at: str
    version: int


class MemberRequest(TypedDict):
    weight: NotRequired[float]
    best_effort: NotRequired[bool]
    # Slug of the group that it belongs to. null: the pool itself.
    group: NotRequired[str | None]
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: NotRequired[int]
    # Amounts that the workloads below the node can always have, with servers and dates.
    guarantee: NotRequired[list[GroupRequestGuarantee]]
    # Greatest amounts that are allocated at or below the node, with servers and dates.
    limit: NotRequired[list[GroupRequestGuarantee]]
    # Greatest amounts that others may have on the servers of the member, with dates.
    lend: NotRequired[list[GroupRequestGuarantee]]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. null: the setting of the node above, at last of the pool.
    own_servers: NotRequired[bool | None]


class ChangedMemberDocument(TypedDict):
    pool: str
    tenant: str
    weight: float
    best_effort: bool
    group: str | None
    # Order among siblings: the allocation of a member or group does not rise while that of a
    # sibling of a lower tier can.
    tier: int
    # Amounts that the workloads below the node can always have, with servers and dates.
    guarantee: list[GroupGuarantee]
    # Greatest amounts that are allocated at or below the node, with servers and dates.
    limit: list[GroupGuarantee]
    # Greatest amounts that others may have on the servers of the member, with dates.
    lend: list[GroupGuarantee]
    # Guarantee to each workload of what it would get if its tenant ran alone on the servers that
    # it contributed. null: the setting of the node above, at last of the pool.
    own_servers: bool | None
    # Start of the present terms: weight, group, tier and amounts.
    weight_since: str
    admitted_at: str
    version: int
    # Effects of the change that may surprise. Absent without any.
    warnings: NotRequired[list[ChangedPoolWarning]]


class AllocationHistoryStepTask(TypedDict):
    workload: str
    tasks: float


class AllocationHistoryStepCause(TypedDict):
    kind: Literal["workload", "server", "member", "group", "pool", "cluster", "limit", "budget"]
    # Of the member's own workloads, such as submit; begin or end of a limit of the member, its
    # workloads and the groups above it; exhaust or open of a budget of the member and the groups
    # above it; leave or return of a cluster.
    action: str | None
    # Name of the member's own workload.
    workload: str | None
    # Group above the member, whose limit began or ended, or whose budget was exhausted or opened
    # again.
    group: str | None
    # Resource whose hours the budget is of.
    resource: str | None
    # Cluster whose servers left or returned, because its agents were silent or heard.
    cluster: str | None


class AllocationHistoryStep(TypedDict):
    start: str
    end: str
    tasks: list[AllocationHistoryStepTask]
    # Changes of the pool between this decision and the one before it.
    causes: list[AllocationHistoryStepCause]


class AllocationHistoryDocument(TypedDict):
    pool: str
    tenant: str
    # False if the period has more than 2,000 decisions: the newest count.
    complete: bool
    steps: list[AllocationHistoryStep]


class TenantDocument(TypedDict):
    slug: str
    name: str
    version: int
    created_at: str


class TenantRequest(TypedDict):
    slug: str
    name: str


class TenantRequestPatch(TypedDict):
    slug: NotRequired[str | None]
    name: NotRequired[str | None]
