"""Documents of reports.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict


class BillingResource(TypedDict):
    name: str
    unit: NotRequired[str]


class BillingGroup(TypedDict):
    # With `group` in the query: the sum of the accounts.
    group: str
    charges: str
    credits: str
    billed: str


class BillingAccount(TypedDict):
    tenant: str
    charges: str
    credits: str
    billed: str


class BillingTie(TypedDict):
    month: str
    tenant: str
    resource: str
    unit: str
    ledger: str
    statements: str
    not_yet_billed: str
    not_billable: str
    # 0.
    difference: str
    # Why it is not billable.
    reason: str | None
    # Some that came after their month was closed.
    late_entries: list[str]
    # Some that have no price.
    unbillable_entries: list[str]


BillingDocument = TypedDict(
    "BillingDocument",
    {
        "report": str,
        "pool": str,
        "from": str,
        "to": str,
        "step": str | None,
        # The definition of each figure, in a sentence.
        "definitions": dict[str, Any],
        # Amounts: unit × seconds.
        "resources": list[BillingResource],
        "currency": str,
        # With `group` in the query: the sum of the accounts.
        "group": NotRequired[BillingGroup],
        # With `group` in the query: the groups directly below it.
        "groups": NotRequired[list[BillingGroup]],
        "accounts": list[BillingAccount],
        "ties": list[BillingTie],
    },
)


class FairnessEnvy(TypedDict):
    tenant: str
    other: str
    # How much more it would have run; null: any.
    times: float | None


class FairnessSeries(TypedDict):
    start: str
    end: str
    jain_index: float | None


class FairnessTenantSeries(TypedDict):
    start: str
    end: str
    weighted_share: float | None


class FairnessTenant(TypedDict):
    tenant: str
    used: dict[str, str]
    dominant_share: float | None
    weight: float | None
    weighted_share: float | None
    # Why there is no weighted share.
    reason: Literal["no_capacity", "no_weight"] | None
    # Whether it counts in Jain's index.
    counts: bool
    series: list[FairnessTenantSeries]


FairnessDocument = TypedDict(
    "FairnessDocument",
    {
        "report": str,
        "pool": str,
        "from": str,
        "to": str,
        "step": str | None,
        # The definition of each figure, in a sentence.
        "definitions": dict[str, Any],
        # Amounts: unit × seconds.
        "resources": list[BillingResource],
        "jain_index": float | None,
        # Number of all pairs. null, and no pairs, if some 20,000 tenants of which no two are alike
        # would have to be compared.
        "envy_pairs": int | None,
        # The worst of the pairs.
        "envy": list[FairnessEnvy],
        "series": list[FairnessSeries],
        "tenants": list[FairnessTenant],
    },
)


class LendingGroup(TypedDict):
    # With `group` in the query: the sum of its children.
    used: dict[str, str]
    # Use of its members' servers by tenants outside the group.
    lent: dict[str, str]
    # Use of servers of tenants outside the group.
    borrowed: dict[str, str]
    # lent − borrowed
    balance: dict[str, str]
    group: str


class LendingTenant(TypedDict):
    used: dict[str, str]
    # Use of its members' servers by tenants outside the group.
    lent: dict[str, str]
    # Use of servers of tenants outside the group.
    borrowed: dict[str, str]
    # lent − borrowed
    balance: dict[str, str]
    tenant: str


class LendingFlowSeries(TypedDict):
    start: str
    end: str
    used: dict[str, str]


class LendingFlow(TypedDict):
    # Null is the pool itself, or not known, unless `owner_group` is set.
    owner: str | None
    # With `group` in the query: group below it that the owner belonged to.
    owner_group: NotRequired[str | None]
    # With `group` in the query: whether the owner belonged to the group then.
    owner_inside: NotRequired[bool]
    # Null only if `tenant_group` is set.
    tenant: str | None
    # With `group` in the query: group below it that the tenant belonged to.
    tenant_group: NotRequired[str | None]
    # With `group` in the query: whether the tenant belonged to the group then.
    tenant_inside: NotRequired[bool]
    used: dict[str, str]
    series: list[LendingFlowSeries]


class LendingBalance(TypedDict):
    tenant: str
    other: str
    lent: dict[str, str]
    borrowed: dict[str, str]
    # lent − borrowed
    balance: dict[str, str]


LendingDocument = TypedDict(
    "LendingDocument",
    {
        "report": str,
        "pool": str,
        "from": str,
        "to": str,
        "step": str | None,
        # The definition of each figure, in a sentence.
        "definitions": dict[str, Any],
        # Amounts: unit × seconds.
        "resources": list[BillingResource],
        # The sum of the flows below.
        "total": dict[str, str],
        # With `group` in the query: the sum of its children.
        "group": NotRequired[LendingGroup],
        # With `group` in the query: the groups directly below it.
        "groups": NotRequired[list[LendingGroup]],
        # With `group` in the query: the members directly below it.
        "tenants": NotRequired[list[LendingTenant]],
        "flows": list[LendingFlow],
        # Of every two tenants; not in the report of a group.
        "balances": NotRequired[list[LendingBalance]],
    },
)


class SharingDegreeGroupSharingDegree(TypedDict):
    resources: dict[str, float | None]
    min: float | None


class SharingDegreeGroupSeries(TypedDict):
    used: dict[str, str]
    alone: dict[str, str]
    sharing_degree: SharingDegreeGroupSharingDegree
    # Why a resource has no sharing degree, by its name.
    reasons: dict[str, Any]
    # Why there is no min.
    reason: Literal["no_demand", "nothing_alone", "no_reference"] | None
    start: str
    end: str


class SharingDegreeGroupCluster(TypedDict):
    # null: use whose cluster is not known.
    cluster: str | None
    used: dict[str, str]


class SharingDegreeGroup(TypedDict):
    # With `group` in the query: the sum of its children.
    used: dict[str, str]
    alone: dict[str, str]
    sharing_degree: SharingDegreeGroupSharingDegree
    # Why a resource has no sharing degree, by its name.
    reasons: dict[str, Any]
    # Why there is no min.
    reason: Literal["no_demand", "nothing_alone", "no_reference"] | None
    # Whether min is 1 or more.
    benefit: bool | None
    series: list[SharingDegreeGroupSeries]
    # In a pool with clusters: the use of each in the period, which add up to `used`.
    clusters: NotRequired[list[SharingDegreeGroupCluster]]
    group: str


class SharingDegreeTenant(TypedDict):
    used: dict[str, str]
    alone: dict[str, str]
    sharing_degree: SharingDegreeGroupSharingDegree
    # Why a resource has no sharing degree, by its name.
    reasons: dict[str, Any]
    # Why there is no min.
    reason: Literal["no_demand", "nothing_alone", "no_reference"] | None
    # Whether min is 1 or more.
    benefit: bool | None
    series: list[SharingDegreeGroupSeries]
    # In a pool with clusters: the use of each in the period, which add up to `used`.
    clusters: NotRequired[list[SharingDegreeGroupCluster]]
    tenant: str


SharingDegreeDocument = TypedDict(
    "SharingDegreeDocument",
    {
        "report": str,
        "pool": str,
        "from": str,
        "to": str,
        "step": str | None,
        # The definition of each figure, in a sentence.
        "definitions": dict[str, Any],
        # Amounts: unit × seconds.
        "resources": list[BillingResource],
        # The partition that `alone` is of.
        "baseline": Literal["entitled"],
        # Beginning of the first decision, from which on `alone` is known.
        "alone_from": str | None,
        # What the tenants and groups below used together.
        "total": dict[str, str],
        # With `group` in the query: the sum of its children.
        "group": NotRequired[SharingDegreeGroup],
        # With `group` in the query: the groups directly below it.
        "groups": NotRequired[list[SharingDegreeGroup]],
        "tenants": list[SharingDegreeTenant],
    },
)


class UtilizationTotal(TypedDict):
    capacity: dict[str, str]
    used: dict[str, str]
    idle: dict[str, str]
    utilization: dict[str, float | None]
    # Why a utilization is null.
    reason: Literal["no_capacity"] | None


class UtilizationSeries(TypedDict):
    capacity: dict[str, str]
    used: dict[str, str]
    idle: dict[str, str]
    utilization: dict[str, float | None]
    # Why a utilization is null.
    reason: Literal["no_capacity"] | None
    start: str
    end: str


class UtilizationCluster(TypedDict):
    # null: use whose cluster is not known.
    cluster: str | None
    total: UtilizationTotal
    series: list[UtilizationSeries]


class UtilizationGroup(TypedDict):
    group: str
    used: dict[str, str]
    series: list[LendingFlowSeries]


class UtilizationTenant(TypedDict):
    tenant: str
    used: dict[str, str]
    series: list[LendingFlowSeries]


UtilizationDocument = TypedDict(
    "UtilizationDocument",
    {
        "report": str,
        "pool": str,
        "from": str,
        "to": str,
        "step": str | None,
        # The definition of each figure, in a sentence.
        "definitions": dict[str, Any],
        # Amounts: unit × seconds.
        "resources": list[BillingResource],
        "total": UtilizationTotal,
        "series": list[UtilizationSeries],
        # In a pool with clusters: the same for each of them, which add up to the whole.
        "clusters": NotRequired[list[UtilizationCluster]],
        # With `group` in the query: the group whose use is `used`.
        "group": NotRequired[str],
        # With `group` in the query: the groups directly below it.
        "groups": NotRequired[list[UtilizationGroup]],
        # With `group` in the query: the members directly below it.
        "tenants": NotRequired[list[UtilizationTenant]],
    },
)
