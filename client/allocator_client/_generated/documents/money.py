"""Documents of money.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Literal, NotRequired, TypedDict


class FocusMetadataDataGenerator(TypedDict):
    DataGenerator: str


class FocusMetadataSchemaColumnDefinition(TypedDict):
    ColumnName: str
    DataType: Literal["STRING", "DECIMAL", "DATETIME", "JSON"]
    NumericPrecision: NotRequired[int]
    NumberScale: NotRequired[int]
    StringEncoding: NotRequired[str]


class FocusMetadataSchema(TypedDict):
    # It changes if the columns change.
    SchemaId: str
    FocusVersion: Literal["1.2", "1.4"]
    CreationDate: str
    ColumnDefinition: list[FocusMetadataSchemaColumnDefinition]


class FocusMetadataDocument(TypedDict):
    DataGenerator: FocusMetadataDataGenerator
    Schema: FocusMetadataSchema


BudgetDocument = TypedDict(
    "BudgetDocument",
    {
        "id": str,
        "pool": str,
        "tenant": str | None,
        "group": str | None,
        "resource": str | None,
        "amount": str,
        "per": str | None,
        "from": str | None,
        "to": str | None,
        "carry": str,
        "then": Literal["last", "stop"] | None,
        "currency": str | None,
        "thresholds": list[int],
        "version": int,
        "created_at": str,
    },
)


BudgetRequest = TypedDict(
    "BudgetRequest",
    {
        # Tenant whose use counts.
        "tenant": NotRequired[str | None],
        # Group whose use counts: that of all tenants below it at each instant.
        "group": NotRequired[str | None],
        # Resource whose hours are limited. Omit for a budget of money.
        "resource": NotRequired[str | None],
        # Hours of the resource, or money, of each period.
        "amount": str | float,
        # Period in whole days, weeks, months or years of the pool's time zone. Without `from` it
        # starts with the calendar. Omit it for P1M, or for one period between `from` and `to`.
        "per": NotRequired[str | None],
        # Start of the first period.
        "from": NotRequired[str | None],
        # End of the last period, exclusive.
        "to": NotRequired[str | None],
        # Fraction of the amount that is carried over, if unused, into the next period and no further.
        "carry": NotRequired[str | float],
        # Effect of an exhausted budget until its period ends. `last`: all that is below the node is
        # best-effort. `stop`: its limit of the resource is 0. null: none.
        "then": NotRequired[Literal["last", "stop"] | None],
        # Percentages of the available amount. At each of them one event per period is recorded.
        "thresholds": NotRequired[list[int]],
    },
)


class ChangedBudgetWarningGuaranteeNode(TypedDict):
    group: NotRequired[str]
    tenant: NotRequired[str]


class ChangedBudgetWarningGuarantee(TypedDict):
    # The guarantee, of `guarantee.unmet`.
    node: ChangedBudgetWarningGuaranteeNode
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


ChangedBudgetWarning = TypedDict(
    "ChangedBudgetWarning",
    {
        "code": Literal["guarantee.unmet", "guarantee.not_computed", "budget.exhausted"],
        # Sentence for people.
        "detail": str,
        # The guarantee, of `guarantee.unmet`.
        "guarantee": NotRequired[ChangedBudgetWarningGuarantee],
        # Instant from which a guarantee is not met that later decisions do not meet. Absent of the
        # next decision.
        "from": NotRequired[str],
    },
)


ChangedBudgetDocument = TypedDict(
    "ChangedBudgetDocument",
    {
        "id": str,
        "pool": str,
        "tenant": str | None,
        "group": str | None,
        "resource": str | None,
        "amount": str,
        "per": str | None,
        "from": str | None,
        "to": str | None,
        "carry": str,
        "then": Literal["last", "stop"] | None,
        "currency": str | None,
        "thresholds": list[int],
        "version": int,
        "created_at": str,
        # Effects of the change that may surprise. Absent without any.
        "warnings": NotRequired[list[ChangedBudgetWarning]],
    },
)


BudgetRequestPatch = TypedDict(
    "BudgetRequestPatch",
    {
        "tenant": NotRequired[str | None | None],
        "group": NotRequired[str | None | None],
        "resource": NotRequired[str | None | None],
        "amount": NotRequired[str | float | None],
        "per": NotRequired[str | None | None],
        "from": NotRequired[str | None | None],
        "to": NotRequired[str | None | None],
        "carry": NotRequired[str | float | None],
        "then": NotRequired[Literal["last", "stop"] | None | None],
        "thresholds": NotRequired[list[int] | None],
    },
)


class BudgetClustersCluster(TypedDict):
    # null: use whose cluster is not known.
    cluster: str | None
    # Hours of the resource.
    spent: str


BudgetClustersDocument = TypedDict(
    "BudgetClustersDocument",
    {
        # Start of the present period. null: outside of all periods.
        "from": str | None,
        # End of the present period, exclusive.
        "to": str | None,
        "clusters": list[BudgetClustersCluster],
    },
)


class CreditNoteDocument(TypedDict):
    id: str
    pool: str
    tenant: str
    # Of the statement that it is on.
    month: str
    # Below 0 where it takes another one back.
    amount: str
    currency: str
    reason: str
    reverses: str | None
    created_at: str


class CreditNoteRequest(TypedDict):
    tenant: str
    # What the tenant is credited with, above 0.
    amount: str | float
    reason: str


class ReversalRequest(TypedDict):
    reason: str


class GroupMonthDocument(TypedDict):
    month: str
    group: str
    state: Literal["open", "closed"]
    # How many are below it.
    tenants: int
    # Null while the month is open.
    billed: str | None
    currency: str
    closed_at: str | None


class GroupStatementTotals(TypedDict):
    # The sum of the tenants below.
    charges: str
    credits: str
    billed: str
    effective: str


class GroupStatementGroup(TypedDict):
    charges: str
    credits: str
    billed: str
    effective: str
    group: str
    # How many are below it.
    tenants: int


class GroupStatementTenant(TypedDict):
    charges: str
    credits: str
    billed: str
    effective: str
    tenant: str
    # Its own group, at `tree_at`.
    group: str


class GroupStatementCluster(TypedDict):
    # null: use whose cluster is not known.
    cluster: str | None
    # Unit × hours by resource, to 12 digits.
    hours: dict[str, str]


GroupStatementDocument = TypedDict(
    "GroupStatementDocument",
    {
        "pool": str,
        "group": str,
        "month": str,
        "state": Literal["open", "closed"],
        "currency": str,
        "timezone": str,
        "from": str,
        "to": str,
        "closed_at": str | None,
        # The tree just before this instant counts.
        "tree_at": str,
        # The sum of the tenants below.
        "totals": GroupStatementTotals,
        # The groups directly below it, each with the sum of its tenants.
        "groups": list[GroupStatementGroup],
        # All tenants below it, at any level.
        "tenants": list[GroupStatementTenant],
        "definition": str,
        # In a pool with clusters: the sum of the `clusters` of the tenants' statements. Absent if
        # these have none.
        "clusters": NotRequired[list[GroupStatementCluster]],
    },
)


class MonthMissing(TypedDict):
    code: str
    detail: str


class MonthAccount(TypedDict):
    account: Literal["tenant", "fee", "pool"]
    tenant: str | None
    billed: str


MonthDocument = TypedDict(
    "MonthDocument",
    {
        "pool": str,
        "month": str,
        "state": Literal["open", "closed"],
        "currency": str,
        "timezone": str,
        "from": str,
        "to": str,
        "closed_at": str | None,
        "sequence": int | None,
        "previous_sequence": int | None,
        # What it lacks to be closed.
        "missing": list[MonthMissing],
        "lines": int,
        "accounts": list[MonthAccount],
        # Of the accounts: 0.
        "sum": str,
    },
)


class ManifestSum(TypedDict):
    tenant: str
    resource: str
    kind: str
    rows: int
    amount: str


ManifestDocument = TypedDict(
    "ManifestDocument",
    {
        "pool": str,
        "month": str,
        "sequence": int,
        "previous_sequence": int,
        "from": str,
        "to": str,
        "rows": int,
        "sums": list[ManifestSum],
        "sha256": str,
        # Where these entries are.
        "entries": str,
        "definition": str,
    },
)


class ReratingChange(TypedDict):
    tenant: str
    # Posted for that time before.
    before: str
    after: str
    # What it adds to the open statement.
    difference: str


class ReratingDocument(TypedDict):
    # Null for a dry run.
    id: str | None
    pool: str
    plan: str
    # Of the statements that its lines are on.
    month: str
    # The closed months that it changes.
    months: list[str]
    reason: str
    currency: str
    changes: list[ReratingChange]
    created_at: str


class ReratingRequest(TypedDict):
    # A draft whose time is in closed months.
    plan: str
    reason: str
    # Answer what it would change, and do nothing.
    dry_run: NotRequired[bool]


class BankDocument(TypedDict):
    pool: str
    tenant: str
    # Of the first grant.
    since: str
    granted: str
    used: str
    balance: str


class GrantRequest(TypedDict):
    tenant: str
    # Service units, above 0.
    units: str | float
    reason: NotRequired[str]


class StatementRowDocument(TypedDict):
    month: str
    tenant: str
    state: Literal["open", "closed"]
    # Null while it is open: it is computed when it is read.
    billed: str | None
    currency: str
    closed_at: str | None


class CloseRequest(TypedDict):
    month: str


class StatementLinePart(TypedDict):
    price: str
    # Unit × hours that are charged at this price.
    hours: str


StatementLine = TypedDict(
    "StatementLine",
    {
        "number": int,
        "kind": Literal[
            "usage",
            "commitment",
            "commitment_unused",
            "upfront",
            "fixed",
            "adjustment",
            "reversal",
            "rerated",
            "credit_note",
        ],
        # A credit is for servers that others used.
        "role": Literal["charge", "credit"],
        "resource": str | None,
        "unit": str | None,
        # Null is the pool; others by pseudonyms.
        "server_owner": str | None,
        "user": str,
        "plan": str | None,
        "from": str,
        "to": str,
        "service_month": str,
        # Unit × seconds, exactly.
        "amount": str | None,
        # Unit × hours, to 12 digits.
        "hours": str | None,
        # Null where several held.
        "price": str | None,
        # What the user pays.
        "charge": str,
        # What of it the pool keeps.
        "fee": str,
        # What it adds to this statement.
        "billed": str,
        "effective": str,
        # Late entry of an adjustment that has only one; else `entries`.
        "entry": str | None,
        # The closed month that it changes.
        "adjusts": str | None,
        "note": str | None,
        # Kind of the billed lines that an adjustment or rerating changes.
        "adjusted_kind": NotRequired[
            Literal[
                "usage",
                "commitment",
                "commitment_unused",
                "upfront",
                "fixed",
                "adjustment",
                "reversal",
                "rerated",
                "credit_note",
            ]
            | None
        ],
        # Commitment of the price plan.
        "commitment": NotRequired[str | None],
        # Late entries that caused the difference.
        "entries": NotRequired[list[str]],
        # Price and hours of each part of the charge, if it is not `hours` × `price`.
        "parts": NotRequired[list[StatementLinePart]],
        # Unit × hours that an upfront price pays for.
        "committed_hours": NotRequired[str | None],
    },
)


class StatementSavings(TypedDict):
    alone_cost: str | None
    outside_cost: str | None
    paid: str
    saved: str | None
    reason: Literal["no_alone", "no_outside", "no_own"] | None
    why: str | None
    lost_hours: dict[str, str]
    definition: str


class StatementMethod(TypedDict):
    # How it was decided; entries name the run, and each run has its certificate.
    policy: str
    mode: str


StatementDocument = TypedDict(
    "StatementDocument",
    {
        "pool": str,
        "tenant": str,
        "month": str,
        "state": Literal["open", "closed"],
        "currency": str,
        "timezone": str,
        "from": str,
        "to": str,
        "closed_at": str | None,
        # Entries up to this number are in it.
        "sequence": NotRequired[int | None],
        "lines": list[StatementLine],
        "totals": GroupStatementTotals,
        "savings": StatementSavings,
        # How it was decided; entries name the run, and each run has its certificate.
        "method": StatementMethod,
        "notes": list[str],
        # In a pool with clusters: what the tenant used in the month on each. Absent from statements
        # that were closed before clusters were on statements.
        "clusters": NotRequired[list[GroupStatementCluster]],
    },
)


class PlanRateTier(TypedDict):
    through: str | None
    price: str


class PlanRate(TypedDict):
    resource: str
    owner: str | None
    own: str | None
    shared: str | None
    pool: str | None
    outside: str | None
    tiers: list[PlanRateTier]


PlanSpotPrice = TypedDict(
    "PlanSpotPrice",
    {
        "resource": str,
        "kind": Literal["own", "shared", "pool"],
        "from": str,
        "to": str,
        "price": str,
    },
)


PlanCommitment = TypedDict(
    "PlanCommitment",
    {
        "tenant": str,
        "resource": str,
        "quantity": str,
        "price": str,
        "upfront": str,
        "from": str,
        "to": str,
    },
)


class PlanFixedCostShare(TypedDict):
    tenant: str
    share: str


class PlanFixedCost(TypedDict):
    name: str
    amount: str
    shares: list[PlanFixedCostShare]


PlanDocument = TypedDict(
    "PlanDocument",
    {
        "id": str,
        "pool": str,
        "name": str,
        # `rerated` replaces prices of closed months.
        "state": Literal["draft", "published", "rerated"],
        "number": int | None,
        "from": str,
        "to": str | None,
        "currency": str,
        "fee": str,
        "increment": Literal["exact", "second-min-60", "hour-up"],
        "rates": list[PlanRate],
        "spot_prices": list[PlanSpotPrice],
        "commitments": list[PlanCommitment],
        "fixed_costs": list[PlanFixedCost],
        "unit_weights": dict[str, str],
        "exhausted": Literal["event", "best_effort"],
        "version": int,
        "created_at": str,
        "published_at": str | None,
    },
)


class PlanRequestRateTier(TypedDict):
    through: NotRequired[str | float | None]
    price: str | float


class PlanRequestRate(TypedDict):
    resource: str
    # On this tenant's servers; else on all.
    owner: NotRequired[str | None]
    own: NotRequired[str | float | None]
    shared: NotRequired[str | float | None]
    pool: NotRequired[str | float | None]
    outside: NotRequired[str | float | None]
    # Graduated price where `own`, `shared` or `pool` is null: by the tenant's hours of the
    # resource in the month, in the order of the ledger.
    tiers: NotRequired[list[PlanRequestRateTier]]


PlanRequestSpotPrice = TypedDict(
    "PlanRequestSpotPrice",
    {
        "resource": str,
        "kind": Literal["own", "shared", "pool"],
        "from": str,
        "to": str,
        "price": str | float,
    },
)


PlanRequestCommitment = TypedDict(
    "PlanRequestCommitment",
    {
        "tenant": str,
        "resource": str,
        # Units, all the while.
        "quantity": str | float,
        # Per unit and hour.
        "price": str | float,
        # Paid in the first month.
        "upfront": NotRequired[str | float],
        "from": str,
        "to": str,
    },
)


class PlanRequestFixedCostShare(TypedDict):
    tenant: str
    share: NotRequired[str | float]


class PlanRequestFixedCost(TypedDict):
    name: str
    # Per month.
    amount: str | float
    shares: list[PlanRequestFixedCostShare]


PlanRequest = TypedDict(
    "PlanRequest",
    {
        "pool": str,
        "name": str,
        "from": str,
        # Exclusive; null is until the next plan.
        "to": NotRequired[str | None],
        # The pool's, for certainty.
        "currency": NotRequired[str | None],
        # The part of shared prices that the pool keeps.
        "fee": NotRequired[str | float],
        # Steps in which the time of usage events counts.
        "increment": NotRequired[Literal["exact", "second-min-60", "hour-up"]],
        "rates": NotRequired[list[PlanRequestRate]],
        "spot_prices": NotRequired[list[PlanRequestSpotPrice]],
        "commitments": NotRequired[list[PlanRequestCommitment]],
        "fixed_costs": NotRequired[list[PlanRequestFixedCost]],
        # Service units per unit and second.
        "unit_weights": NotRequired[dict[str, str | float]],
        # When service units are used up.
        "exhausted": NotRequired[Literal["event", "best_effort"]],
    },
)


PlanRequestPatch = TypedDict(
    "PlanRequestPatch",
    {
        "pool": NotRequired[str | None],
        "name": NotRequired[str | None],
        "from": NotRequired[str | None],
        "to": NotRequired[str | None | None],
        "currency": NotRequired[str | None | None],
        "fee": NotRequired[str | float | None],
        "increment": NotRequired[Literal["exact", "second-min-60", "hour-up"] | None],
        "rates": NotRequired[list[PlanRequestRate] | None],
        "spot_prices": NotRequired[list[PlanRequestSpotPrice] | None],
        "commitments": NotRequired[list[PlanRequestCommitment] | None],
        "fixed_costs": NotRequired[list[PlanRequestFixedCost] | None],
        "unit_weights": NotRequired[dict[str, str | float | None] | None],
        "exhausted": NotRequired[Literal["event", "best_effort"] | None],
    },
)
