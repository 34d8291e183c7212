"""Documents of enforcement.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict


class RetiredAgentDocument(TypedDict):
    agent: str
    # Null: the whole pool.
    cluster: str | None
    target: Literal["slurm", "kueue", "kubernetes", "volcano", "kai"]
    # Its last report, by the agent's clock.
    reported_at: str
    # Its last report, by the service's clock.
    received_at: str
    retired_at: str


class RenderingReclaimWorkload(TypedDict):
    tenant: str
    workload: str
    # How long its tasks run at least, in place of the pool's.
    minimum_run_seconds: int


class RenderingReclaim(TypedDict):
    # How long a job runs at least.
    minimum_run_seconds: int
    # Between notice and end.
    notice_seconds: int
    # Most tasks that an agent ends in one interval; null is any number.
    churn: int | None
    interval_seconds: int
    # Workloads that have a minimum of their own.
    workloads: list[RenderingReclaimWorkload]


class RenderingTenant(TypedDict):
    tenant: str
    # In the pool's units.
    decided: dict[str, str]
    # In the target's units.
    rendered: dict[str, int]
    # To rounding, in the pool's units; below 0: gained.
    lost: dict[str, str]
    # What cannot be enforced.
    notes: list[str]
    # Position among tenants whose jobs above the decision end; 0 is the first.
    reclaim_rank: int


class RenderingDocument(TypedDict):
    pool: str
    run: str
    generation: int
    policy: str
    mode: str
    target: Literal["slurm", "kueue", "kubernetes", "volcano", "kai"]
    class_label: str
    # Null: the whole pool.
    cluster: str | None
    rendered_from: str
    # When what it gives changes next without a change: the next slot or interval.
    next_boundary: str | None
    # What 1 means to the target, by resource.
    units: dict[str, str]
    notes: list[str]
    reclaim: RenderingReclaim
    tenants: list[RenderingTenant]
    # The target's objects: docs/enforcement.md has their shapes.
    objects: list[dict[str, Any]]


class EnforcementAgent(TypedDict):
    agent: str
    # Null: the whole pool.
    cluster: str | None
    target: Literal["slurm", "kueue", "kubernetes", "volcano", "kai"]
    run: str | None
    generation: int | None
    reported_at: str
    # By the service's clock.
    received_at: str
    interval: str
    # Silent for more than three intervals.
    stale: bool
    # By how many generations its decision is older than the one in force.
    behind: int | None
    problems: list[str]


class EnforcementTenantHoldBeside(TypedDict):
    # The tenant of their account, also if the pool has no such member.
    tenant: str
    jobs: int


class EnforcementTenantHold(TypedDict):
    jobs: list[str]
    # Number of the servers.
    count: int
    # Their names, for operators and in transparent pools.
    servers: list[str]
    # Jobs that still run there, by tenant; others have pseudonyms where the pool is not
    # transparent.
    beside: list[EnforcementTenantHoldBeside]


class EnforcementTenantEnding(TypedDict):
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


class EnforcementTenantCluster(TypedDict):
    cluster: str
    decided: dict[str, str]
    rendered: dict[str, str]
    enforced: dict[str, str] | None
    used: dict[str, str] | None
    drift: dict[str, str]
    over: bool
    pending_tasks: int | None
    running_tasks: int | None


class EnforcementTenant(TypedDict):
    tenant: str
    decided: dict[str, str]
    # The decision in the whole units of the scheduler.
    rendered: dict[str, str]
    # Null where no agent reported it.
    enforced: dict[str, str] | None
    used: dict[str, str] | None
    # enforced − rendered where that is not 0.
    drift: dict[str, str]
    # More is used than was decided.
    over: bool
    pending_tasks: int | None
    running_tasks: int | None
    # The scheduler's own reason why the first pending job waits.
    pending_reason: str | None
    # Since when its jobs wait although more was decided than it uses; null until that has lasted
    # three intervals.
    blocked_since: str | None
    problems: list[str]
    # Servers held for jobs which start together, until all have room.
    holds: list[EnforcementTenantHold]
    # Jobs above the decision that have notice, or that have just ended.
    ending: list[EnforcementTenantEnding]
    # Since when no scheduler knows the tenant; null if any does.
    absent_since: str | None
    # The same by cluster, where agents report from clusters.
    clusters: list[EnforcementTenantCluster]


class EnforcementDocument(TypedDict):
    pool: str
    # The decision in force.
    run: str | None
    generation: int | None
    agents: list[EnforcementAgent]
    tenants: list[EnforcementTenant]
    # Any agent is silent: limits stay as they are.
    stale: bool
    # Why the decision cannot be rendered for the agent; or empty.
    refused: str


class EnforcementReportRequestTenantHold(TypedDict):
    # The scheduler's names of the jobs.
    jobs: list[str]
    # The scheduler's names of the servers.
    servers: list[str]
    # Jobs that still run there.
    beside: list[EnforcementTenantHoldBeside]


class EnforcementReportRequestTenantEnding(TypedDict):
    # The agent's name of what starts and ends together.
    name: str
    # The scheduler's names of the jobs.
    jobs: list[str]
    tasks: int
    # The earliest time of their end.
    ends_at: str
    # The tenant whose jobs wait for what they hold; null if no job does.
    heir: NotRequired[str | None]
    # Ended in this round.
    ended: NotRequired[bool]


class EnforcementReportRequestTenant(TypedDict):
    tenant: str
    # The limits that the scheduler has.
    applied: dict[str, float | str]
    # What runs.
    used: NotRequired[dict[str, float | str]]
    pending_tasks: NotRequired[int | None]
    running_tasks: NotRequired[int | None]
    # The scheduler's own reason why the first pending job waits.
    pending_reason: NotRequired[str | None]
    # Demand of the first pending job.
    pending_demand: NotRequired[dict[str, float | str] | None]
    problems: NotRequired[list[str]]
    # Servers held for jobs which start together, until all have room.
    holds: NotRequired[list[EnforcementReportRequestTenantHold]]
    # Jobs above the decision that have notice, or that have just ended.
    ending: NotRequired[list[EnforcementReportRequestTenantEnding]]
    # The scheduler does not know the tenant any more. After 30 days the membership of one that an
    # agent admitted ends.
    absent: NotRequired[bool]


class EnforcementReportRequest(TypedDict):
    # The agent's name, unique in the pool.
    agent: str
    # The cluster that it applies decisions to: by default the key's, else the whole pool.
    cluster: NotRequired[str | None]
    target: Literal["slurm", "kueue", "kubernetes", "volcano", "kai"]
    class_label: NotRequired[str]
    # The decision that it applied; null without any.
    run: str | None
    generation: NotRequired[int | None]
    # How often it reports, such as PT15S; at most a day.
    interval: str
    # By the agent's clock.
    reported_at: str
    tenants: list[EnforcementReportRequestTenant]
    problems: NotRequired[list[str]]


class EnforcementReportTenant(TypedDict):
    tenant: str
    applied: dict[str, str]
    used: dict[str, str]
    pending_tasks: int | None
    running_tasks: int | None
    pending_reason: str | None
    pending_demand: dict[str, str] | None
    problems: list[str]
    holds: list[EnforcementReportRequestTenantHold]
    ending: list[EnforcementReportRequestTenantEnding]
    absent_since: str | None


class EnforcementReport(TypedDict):
    # The agent's name, unique in the pool.
    agent: str
    # The cluster that it applies decisions to: by default the key's, else the whole pool.
    cluster: NotRequired[str | None]
    target: Literal["slurm", "kueue", "kubernetes", "volcano", "kai"]
    class_label: NotRequired[str]
    # The decision that it applied; null without any.
    run: str | None
    generation: NotRequired[int | None]
    # How often it reports, such as PT15S; at most a day.
    interval: str
    # By the agent's clock.
    reported_at: str
    tenants: list[EnforcementReportTenant]
    problems: NotRequired[list[str]]


EntitlementsGroupBudget = TypedDict(
    "EntitlementsGroupBudget",
    {
        "budget": str,
        # null for a budget of money.
        "resource": str | None,
        # Start of the present period.
        "from": str,
        # End of the present period, exclusive.
        "to": str,
        # Amount of the period with what was carried over.
        "available": str,
        # Amount that was carried over from the period before.
        "carried": str,
        # Used in the period according to the ledger.
        "spent": str,
        # Remaining amount. Below 0 if more was used.
        "left": str,
        "then": Literal["last", "stop"] | None,
        "exhausted": bool,
        # Expected exhaustion at the average rate of the last 24 hours. null: already exhausted, or
        # not expected in this period.
        "exhausted_on": str | None,
    },
)


class EntitlementsGroup(TypedDict):
    # With `group` in the query: the sum of its children.
    group: str
    entitled: dict[str, str]
    has: dict[str, str]
    lent: dict[str, str]
    borrowed: dict[str, str]
    unused: dict[str, str]
    # Budgets of the node in their present periods, in hours or in the pool's currency.
    budgets: list[EntitlementsGroupBudget]


class EntitlementsTenantCluster(TypedDict):
    cluster: str
    # In proportion to what the servers of each cluster offer.
    entitled: dict[str, str]
    has: dict[str, str]


class EntitlementsTenantLentTo(TypedDict):
    # A pseudonym for the keys of other tenants.
    tenant: str
    resources: dict[str, str]


class EntitlementsTenantReturns(TypedDict):
    # Null where nothing is lent.
    when: Literal["at_once", "next_boundary", "next_slot"]
    # Null: at once, or in no slot.
    at: str | None


class EntitlementsTenantCost(TypedDict):
    # Cost of the allocation at the prices in force, if it lasts. Null without a price plan, and
    # without use and commitments.
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
    currency: str
    # The cost in sentences.
    words: str


class EntitlementsTenant(TypedDict):
    tenant: str
    entitled: dict[str, str]
    has: dict[str, str]
    lent: dict[str, str]
    borrowed: dict[str, str]
    unused: dict[str, str]
    # Budgets of the node in their present periods, in hours or in the pool's currency.
    budgets: list[EntitlementsGroupBudget]
    # The parts of `entitled` and `has` by cluster; empty in a pool without clusters.
    clusters: list[EntitlementsTenantCluster]
    lent_to: list[EntitlementsTenantLentTo]
    borrowed_from: list[EntitlementsTenantLentTo]
    # Null where nothing is lent.
    returns: EntitlementsTenantReturns | None
    # Cost of the allocation at the prices in force, if it lasts. Null without a price plan, and
    # without use and commitments.
    cost: EntitlementsTenantCost | None


class EntitlementsDocument(TypedDict):
    pool: str
    run: str
    generation: int
    at: str
    # The definition of each figure, in a sentence.
    definitions: dict[str, Any]
    # With `group` in the query: the sum of its children.
    group: NotRequired[EntitlementsGroup]
    # With `group` in the query: the groups directly below it.
    groups: NotRequired[list[EntitlementsGroup]]
    tenants: list[EntitlementsTenant]
