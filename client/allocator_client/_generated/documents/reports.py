"""Documents of reports.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict


class BillingResource(TypedDict):
    name: str
    unit: NotRequired[str]


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
        # How many in all.
        "envy_pairs": int,
        # The worst of the pairs.
        "envy": list[FairnessEnvy],
        "series": list[FairnessSeries],
        "tenants": list[FairnessTenant],
    },
)


class LendingFlowSeries(TypedDict):
    start: str
    end: str
    used: dict[str, str]


class LendingFlow(TypedDict):
    # Null is the pool itself, or not known.
    owner: str | None
    tenant: str
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
        "flows": list[LendingFlow],
        "balances": list[LendingBalance],
    },
)


class SharingDegreeTenantSharingDegree(TypedDict):
    resources: dict[str, float | None]
    min: float | None


class SharingDegreeTenantSeries(TypedDict):
    used: dict[str, str]
    alone: dict[str, str]
    sharing_degree: SharingDegreeTenantSharingDegree
    # Why a resource has no sharing degree, by its name.
    reasons: dict[str, Any]
    # Why there is no min.
    reason: Literal["no_demand", "nothing_alone", "no_reference"] | None
    start: str
    end: str


class SharingDegreeTenant(TypedDict):
    used: dict[str, str]
    alone: dict[str, str]
    sharing_degree: SharingDegreeTenantSharingDegree
    # Why a resource has no sharing degree, by its name.
    reasons: dict[str, Any]
    # Why there is no min.
    reason: Literal["no_demand", "nothing_alone", "no_reference"] | None
    tenant: str
    # Whether min is 1 or more.
    benefit: bool | None
    series: list[SharingDegreeTenantSeries]


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
        # What the tenants below used together.
        "total": dict[str, str],
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
    },
)
