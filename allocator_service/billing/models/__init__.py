"""What is charged and what was charged: plans, postings and statements, banks and budgets."""

from allocator_service.billing.models.plans import (
    Commitment,
    Exhausted,
    FixedCost,
    Increment,
    PlanState,
    PriceKind,
    PricePlan,
    Rate,
    SpotPrice,
    UnitWeight,
)
from allocator_service.billing.models.statements import (
    DIFFERENCES,
    Closing,
    CreditNote,
    LateCursor,
    LateEntry,
    LineKind,
    Manifest,
    Posting,
    Rerating,
    Statement,
)
from allocator_service.billing.models.watching import Budget, BudgetReached, UnitGrant

__all__ = [
    "DIFFERENCES",
    "Budget",
    "BudgetReached",
    "Closing",
    "Commitment",
    "CreditNote",
    "Exhausted",
    "FixedCost",
    "Increment",
    "LateCursor",
    "LateEntry",
    "LineKind",
    "Manifest",
    "PlanState",
    "Posting",
    "PriceKind",
    "PricePlan",
    "Rate",
    "Rerating",
    "SpotPrice",
    "Statement",
    "UnitGrant",
    "UnitWeight",
]
